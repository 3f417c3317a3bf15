"""`svr eval`: its flags, the judge and the method they name, and the run."""
