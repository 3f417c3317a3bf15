"""A prefix cache as inference servers keep it: how much of a request was computed for an earlier one."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Sequence

from svr_async.simulation.request import CHARS_PER_TOKEN

BLOCK_TOKENS = 64


class PrefixCache:
    """Blocks of 64 tokens, each known by all the text up to its end; the least recently used one goes first."""

    def __init__(self, blocks: int) -> None:
        self.blocks = blocks
        self._known: OrderedDict[bytes, None] = OrderedDict()

    def visit(self, model: str, contents: Sequence[str]) -> int:
        """Return the tokens at the start of a request that are cached, and cache all of its whole blocks."""
        if not self.blocks:
            return 0
        keys = _block_keys(model, contents)
        hits = next((place for place, key in enumerate(keys) if key not in self._known), len(keys))
        for key in reversed(keys):  # the first block is the most useful one: it becomes the most recent
            self._known[key] = None
            self._known.move_to_end(key)
        while len(self._known) > self.blocks:
            self._known.popitem(last=False)
        return hits * BLOCK_TOKENS


def _block_keys(model: str, contents: Sequence[str]) -> list[bytes]:
    text = "\x1e".join(contents)
    size = BLOCK_TOKENS * CHARS_PER_TOKEN
    hasher = hashlib.blake2b(model.encode("utf-8", "surrogatepass"), digest_size=12)
    keys = []
    for start in range(0, len(text) - size + 1, size):
        hasher.update(text[start : start + size].encode("utf-8", "surrogatepass"))
        keys.append(hasher.copy().digest())
    return keys
