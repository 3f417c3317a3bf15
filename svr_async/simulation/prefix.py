"""The prefix cache of the simulated endpoint: blocks of 64 tokens at four characters a token, as it counts them."""

from __future__ import annotations

from svr_async.core.prefixes import BLOCK_TOKENS, PrefixCache

__all__ = ["BLOCK_TOKENS", "PrefixCache"]
