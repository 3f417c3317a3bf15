"""`svr batch`: the calls of a run as files for a batch endpoint, and back."""
