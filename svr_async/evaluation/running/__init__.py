"""A run: from settings to judges, pairs and a method, and to the run folder."""
