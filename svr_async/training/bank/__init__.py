"""Rubrics before they have weights: reading, comparing, merging, linting."""
