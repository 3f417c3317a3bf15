"""Rubrics before they have weights: read, told apart, merged, looked over."""
