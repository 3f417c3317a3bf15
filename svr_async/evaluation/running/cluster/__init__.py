"""A run on a Ray cluster: workers, each with an engine and a cache, and a coordinator that lends them work and caps."""
