"""Batch files: requests out, replies into the cache."""
