"""`svr doctor`: what is checked, and what is said of it."""
