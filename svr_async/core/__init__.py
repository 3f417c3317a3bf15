"""Pairs, rubrics, verdicts, outcomes, statistics and tables, which all other packages use. Pure: stdlib and NumPy."""
