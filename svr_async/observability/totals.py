"""The last facts of every engine of a run, and what they add up to."""

from __future__ import annotations

from collections.abc import Iterable

from svr_async.engine.events import Event, Snapshot
from svr_async.engine.stats import EngineStats

ADDED = (
    "sent",
    "cache_hits",
    "joined",
    "retries",
    "rate_limited",
    "repaired",
    "failed",
    "lost",
    "prompt_tokens",
    "cached_tokens",
    "completion_tokens",
)


class Latest:
    """An observer that keeps the last snapshot of each engine; safe to read from another thread."""

    def __init__(self) -> None:
        self._by_source: dict[int, Snapshot] = {}

    def __call__(self, event: Event) -> None:
        """Take note of a snapshot."""
        if isinstance(event, Snapshot):
            self._by_source[event.source] = event

    def snapshots(self) -> list[Snapshot]:
        """Return the last snapshot of each engine in the order in which they started."""
        return list(self._by_source.values())

    def by_model(self) -> dict[str, list[EngineStats]]:
        """Return the last facts of all engines by the model that they ask; "" before the first request."""
        found: dict[str, list[EngineStats]] = {}
        for one in self.snapshots():
            found.setdefault(one.model, []).append(one.stats)
        return found

    def sums(self, field: str) -> dict[str, float]:
        """Return one fact by model, summed over the engines that know it; no entry where none does."""
        found: dict[str, float] = {}
        for model, engines in self.by_model().items():
            known = [value for one in engines if (value := getattr(one, field)) is not None]
            if known:
                found[model] = sum(known)
        return found

    def totals(self) -> dict[str, int | float | None]:
        """Return the sums over all engines; `usd` is None where the price of one of them is not known."""
        return totals_of([one.stats for one in self.snapshots()])


def totals_of(facts: Iterable[EngineStats]) -> dict[str, int | float | None]:
    """Add up counts and dollars of several engines."""
    known = list(facts)
    sums: dict[str, int | float | None] = {name: sum(getattr(one, name) for one in known) for name in ADDED}
    dollars = [one.usd for one in known]
    sums["usd"] = None if None in dollars else sum(amount for amount in dollars if amount is not None)
    return sums
