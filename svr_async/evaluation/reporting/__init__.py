"""What runs and banks left, as pages, tables and comparisons."""
