"""The judge-call engine: asyncio, memo, retries, limits, money. It knows requests and replies, not rubrics."""
