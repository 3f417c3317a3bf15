"""An early end for a judge that cannot be read: each pair is paid for twice, and nothing comes of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from svr_async.core.verdict import Outcome
from svr_async.errors import RefusedError

if TYPE_CHECKING:
    from svr_async.engine.engine import CallEngine

FIRST = 20
UNREAD = frozenset({Outcome.PARSE_ERROR, Outcome.TRUNCATED})
HINT = (
    "svr doctor shows what the judge answers: mend its profile or name another, then --retry-errors asks again; "
    "--min-coverage 0 goes on all the same"
)


class Unread:
    """Whether no reply on the first twenty pairs that are done can be read. With `accepted` that ends nothing.

    A pair with any other outcome shows that the judge can be read, or that something else is wrong. What an earlier
    run found to fail costs nothing and is no reason to end: as many questions have to fail in this one.
    """

    def __init__(self, engines: Sequence[CallEngine], *, accepted: bool = False) -> None:
        self._engines = engines
        self._before = self._failed()
        self._pairs = 0
        self._open = not accepted

    def note(self, outcome: str) -> RefusedError | None:
        """Take in what became of a pair; return the error that ends the run, where it is to end."""
        self._pairs += 1
        self._open = self._open and outcome in UNREAD
        if not self._open or self._pairs < FIRST or self._failed() < self._before + FIRST:
            return None
        return RefusedError(self._told(), hint=HINT)

    def _failed(self) -> int:
        return sum(engine.stats().failed for engine in self._engines)

    def _told(self) -> str:
        text, why = next((engine.unread for engine in self._engines if engine.unread[1]), ("", ""))
        wrote = f'the judge wrote "{text}"' if text else "the judge wrote nothing"
        sent = sum(engine.stats().sent for engine in self._engines)
        return f"no reply on the first {self._pairs} pairs can be read, after {sent} calls: {wrote} ({why})"
