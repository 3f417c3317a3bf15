"""`svr explain`: one decision of a run, or of a pair given by hand."""
