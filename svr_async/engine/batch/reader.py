"""A run without calls, for batch files: the engine hands out what cache and result files hold, and tells of the rest.

The questions are the run's own, so a reply from a file is read, parsed and kept exactly as one over HTTP is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, TypeVar, cast

from svr_async.engine.batch.results import ResultFiles
from svr_async.engine.cache import Cache
from svr_async.engine.engine import CallEngine
from svr_async.engine.money import Price
from svr_async.engine.reply import Reply, Usage
from svr_async.engine.request import Question, estimate_tokens

T = TypeVar("T")
PUTS_AT_ONCE = 1024


@dataclass(slots=True)
class CallCount:
    """Calls to make, and the tokens that they take: estimates, as in a dry run."""

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    max_completion_tokens: int = 0

    def add(self, question: Question[Any]) -> None:
        """Count a question."""
        self.calls += 1
        self.prompt_tokens += estimate_tokens(question.request.prompt_chars)
        self.completion_tokens += question.expected_tokens
        self.max_completion_tokens += question.request.max_tokens

    def dollars(self, price: Price | None, *, worst: bool = False) -> float | None:
        """Return the cost at the price of a batch; None where the price is not known."""
        completion = self.max_completion_tokens if worst else self.completion_tokens
        usage = Usage(prompt_tokens=self.prompt_tokens, completion_tokens=completion, batch=True)
        return None if price is None else price.cost(usage)


@dataclass(slots=True)
class Kept:
    """What an import left in the cache: new replies, those known before, those no answer could be read from.

    `unasked` are new replies that the run no longer asks for; they are kept, and are read if they are asked for again.
    `tokens` are those of the new replies.
    """

    new: int = 0
    known: int = 0
    unreadable: int = 0
    unasked: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0

    def count(self, reply: Reply) -> None:
        """Count a new reply."""
        self.new += 1
        self.prompt_tokens += reply.usage.prompt_tokens or 0
        self.cached_tokens += reply.usage.cached_tokens or 0
        self.completion_tokens += reply.usage.completion_tokens or 0

    def dollars(self, price: Price | None) -> float | None:
        """Return what the new replies cost at the price of a batch; None where the price is not known."""
        usage = Usage(
            prompt_tokens=self.prompt_tokens,
            cached_tokens=self.cached_tokens,
            completion_tokens=self.completion_tokens,
            batch=True,
        )
        return None if price is None else price.cost(usage)


class BatchReader:
    """Stands before an engine, which then sends nothing: what cache and results lack is told to `on_missing`.

    `given` are the keys of the replies that were taken from the results, `rejected` those of them that no answer could
    be read from; `told` are the keys, in hex, of all questions that are without an answer.
    """

    def __init__(
        self,
        engine: CallEngine,
        results: ResultFiles | None = None,
        *,
        on_missing: Callable[[Question[Any]], None] = lambda _: None,
    ) -> None:
        self.cache = engine.cache
        self.told: set[str] = set()
        self._results = results
        self._on_missing = on_missing
        self.given: set[bytes] = set()
        self.rejected: set[bytes] = set()
        engine.config = replace(engine.config, offline=True)
        engine.cache = cast("Cache", _ResultsBehind(engine.cache, self._give))
        engine.on_missing = self._miss

    def _give(self, key: bytes) -> Reply | None:
        """Return the reply that the results hold, or None."""
        reply = None if self._results is None else self._results.get(key)
        if reply is not None:
            self.given.add(key)
        return reply

    def _miss(self, question: Question[Any]) -> None:
        key = question.request.key
        if key in self.given:  # it was given out, and no answer could be read from it
            self.rejected.add(key)
        self.told.add(key.hex())
        self._on_missing(question)


@dataclass(frozen=True, slots=True)
class Readers:
    """The readers of a run's engines, which share the results and the folder of the cache."""

    readers: tuple[BatchReader, ...]
    results: ResultFiles

    async def keep(self) -> Kept:
        """Put every reply of the results into the cache that answers its question; return when all are on disk."""
        kept, cache = Kept(), self.readers[0].cache
        for keys in _pieces(self.results, PUTS_AT_ONCE):
            replies = [(key, self._to_keep(key, kept)) for key in keys]
            await asyncio.gather(*(cache.put(key, reply) for key, reply in replies if reply is not None))
        return kept

    def answered(self, key: bytes) -> bool:
        """Whether the cache holds a reply to a request that is an answer, as far as the run has read it."""
        rejected = any(key in reader.rejected for reader in self.readers)
        return not rejected and self.readers[0].cache.get(key) is not None

    def _to_keep(self, key: bytes, kept: Kept) -> Reply | None:
        reply = self.results.get(key)
        if reply is None or any(key in reader.rejected for reader in self.readers) or not reply.whole:
            kept.unreadable += 1
            return None
        told = any(key.hex() in reader.told for reader in self.readers)
        if not told and self.readers[0].cache.get(key) is not None:  # told of: what the cache has is no answer
            kept.known += 1
            return None
        kept.count(reply)
        kept.unasked += not any(key in reader.given for reader in self.readers)
        return reply


class _ResultsBehind:
    """A cache for reading, with the results behind it; all else is the cache's."""

    def __init__(self, cache: Cache, give: Callable[[bytes], Reply | None]) -> None:
        self._cache = cache
        self._give = give

    def get(self, key: bytes) -> Reply | None:
        """Return the reply to a request, or None."""
        return self._cache.get(key) or self._give(key)

    async def find(self, key: bytes) -> Reply | None:
        """Return the reply to a request, or None."""
        return await self._cache.find(key) or self._give(key)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cache, name)


def _pieces(items: Iterable[T], size: int) -> Iterable[list[T]]:
    piece: list[T] = []
    for item in items:
        piece.append(item)
        if len(piece) == size:
            yield piece
            piece = []
    yield piece
