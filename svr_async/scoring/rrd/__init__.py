"""Recursive Rubric Decomposition: a prompt's rubrics mined from sampled responses (paper `app:rrd_repro`)."""
