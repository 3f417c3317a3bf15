"""The judge-call engine: asyncio, cache, retries, limits, money. It knows requests and replies, not rubrics."""
