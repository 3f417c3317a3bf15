"""Reports of runs and banks: one summary each, rendered for terminals, pages, tables and figures."""
