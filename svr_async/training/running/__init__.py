"""Algorithm 1 from settings to a bank, and its first two stages by themselves."""
