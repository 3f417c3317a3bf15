"""A run over a benchmark: items, metrics, comparison, tables, report."""
