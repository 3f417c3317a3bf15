"""`svr train` and its stages by themselves: `svr induce`, `svr judge`, `svr fit`."""
