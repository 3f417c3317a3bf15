"""Feature stores: what a fit reads, in files."""
