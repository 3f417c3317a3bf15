"""How tables are built from runs and banks: a file for each sort, named in `registry`."""
