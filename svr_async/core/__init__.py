"""The words everything else is written in: pairs, rubrics, verdicts, outcomes, statistics. Pure: stdlib and NumPy."""
