"""What became of a run, handed to experiment trackers: settings, numbers with intervals, labels, and the report."""
