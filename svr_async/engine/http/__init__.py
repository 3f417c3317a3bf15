"""How requests travel: our own HTTP client, and aiohttp."""
