"""The command line: one file per command group, each a thin shell over the library."""
