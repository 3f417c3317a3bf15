"""`svr bank`: looking at a bank, and what it looks like on the terminal."""
