"""The prefix cache of the simulated endpoint, at four characters a token."""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence

BLOCK_TOKENS = 64
BLOCK_CHARS = 4 * BLOCK_TOKENS


class PrefixCache:
    """Blocks of 64 tokens, keyed by all the text up to their end; the least recently used is evicted first.

    `block_chars` is the length of a block in characters. A block is usable `lag_s` seconds after its first
    request: until then it is being computed.
    """

    def __init__(
        self,
        blocks: int,
        *,
        block_chars: int = BLOCK_CHARS,
        lag_s: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.blocks = blocks
        self.block_chars = block_chars
        self._lag_s = lag_s
        self._clock = clock
        self._known: OrderedDict[bytes, float] = OrderedDict()

    def visit(self, model: str, contents: Sequence[str]) -> int:
        """Return the tokens at the start of a request that are cached, and cache all of its whole blocks."""
        if not self.blocks:
            return 0
        now = self._clock()
        keys = self._block_keys(model, contents)
        ready = (self._known.get(key, now + 1) <= now for key in keys)
        hits = next((place for place, is_ready in enumerate(ready) if not is_ready), len(keys))
        for key in reversed(keys):  # the first block is the most useful: it becomes the most recent
            self._known.setdefault(key, now + self._lag_s)
            self._known.move_to_end(key)
        while len(self._known) > self.blocks:
            self._known.popitem(last=False)
        return hits * BLOCK_TOKENS

    def _block_keys(self, model: str, contents: Sequence[str]) -> list[bytes]:
        text = "\x1e".join(contents)
        size = self.block_chars
        hasher = hashlib.blake2b(model.encode("utf-8", "surrogatepass"), digest_size=12)
        keys = []
        for start in range(0, len(text) - size + 1, size):
            hasher.update(text[start : start + size].encode("utf-8", "surrogatepass"))
            keys.append(hasher.copy().digest())
        return keys
