"""Examining a judge's endpoint with a few small questions: what it honours, its limits, its speed."""
