"""`svr serve`: rewards, rankings and comparisons over HTTP."""
