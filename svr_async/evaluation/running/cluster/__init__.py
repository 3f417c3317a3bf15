"""A run on a Ray cluster: workers, each with an engine and a memo, and a coordinator that lends them work and caps."""
