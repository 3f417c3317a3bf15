"""The latest facts of every engine of a run, and their sums."""

from __future__ import annotations

from svr_async.engine.events import Event, Snapshot
from svr_async.engine.stats import EngineStats

SUMMED = (
    "sent", "cache_hits", "joined", "retries", "rate_limited", "repaired", "failed", "lost", "prompt_tokens",
    "cached_tokens", "completion_tokens",
)  # fmt: skip


class Latest:
    """An observer that keeps the last snapshot of each engine; another thread may read it."""

    def __init__(self) -> None:
        self._by_source: dict[int, Snapshot] = {}

    def __call__(self, event: Event) -> None:
        """Keep a snapshot; ignore other events."""
        if isinstance(event, Snapshot):
            self._by_source[event.source] = event

    def by_model(self) -> dict[str, list[EngineStats]]:
        """Return the last facts of all engines by their model; "" before the first request."""
        found: dict[str, list[EngineStats]] = {}
        for snapshot in list(self._by_source.values()):
            found.setdefault(snapshot.model, []).append(snapshot.stats)
        return found

    def sums(self, field: str) -> dict[str, float]:
        """Return one fact by model, summed over the engines that know it; models without a known value are left out."""
        known = {
            model: [value for stats in engines if (value := getattr(stats, field)) is not None]
            for model, engines in self.by_model().items()
        }
        return {model: sum(values) for model, values in known.items() if values}

    def totals(self) -> dict[str, int | float | None]:
        """Return the sums over all engines; `usd` is None if the cost of one of them is unknown."""
        engines = [stats for found in self.by_model().values() for stats in found]
        sums: dict[str, int | float | None] = {name: sum(getattr(stats, name) for stats in engines) for name in SUMMED}
        dollars = [stats.usd for stats in engines if stats.usd is not None]
        return sums | {"usd": sum(dollars) if len(dollars) == len(engines) else None}
