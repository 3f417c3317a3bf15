"""What an evaluation reports while it runs, and its result."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from svr_async.core.table import to_html
from svr_async.core.verdict import Outcome
from svr_async.engine.concurrency import ShutdownController
from svr_async.engine.events import Notice
from svr_async.engine.stats import EngineStats
from svr_async.evaluation.items import Item
from svr_async.evaluation.run_view import run_in_short, run_sheet


class Listener:
    """Receives the progress of an evaluation. Its methods do nothing; overrides have to return soon."""

    def judging(
        self,
        total: int,
        stats: Callable[[], EngineStats] | None,
        shutdown: ShutdownController,
    ) -> AbstractContextManager[object]:
        """Return the context in which `total` pairs are judged; `stats` is None if the judge sends nothing."""
        del total, stats, shutdown
        return nullcontext()

    def done(self, what: Item | int) -> None:
        """Count a judged pair."""

    def note(self, text: str) -> None:
        """Show a remark."""

    def on_notice(self, notice: Notice) -> None:
        """Receive a notice of an engine: a retry, a long wait, a one-time warning."""

    def ended(self, result: EvalResult) -> None:
        """Receive the result, when the run folder is written; an error that ended the run is raised afterwards."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalResult:
    """A run that has ended: its folder, what metrics.json says, the items of the judged pairs in the order of the data.

    `total` is the number of pairs. A run that a `signal` has stopped, or that an error ended, is not complete.
    """

    folder: Path
    metrics: Mapping[str, Any]
    items: Sequence[Item] = field(repr=False)  # asyncio takes the repr of a main task that has ended
    total: int
    signal: int = 0

    def __repr__(self) -> str:
        return f"<EvalResult {run_in_short(self.metrics)}, in {self.folder}>"

    def _repr_html_(self) -> str:
        return to_html(run_sheet(str(self.folder), self.metrics))

    @property
    def complete(self) -> bool:
        """Whether every pair is judged."""
        return len(self.items) == self.total

    @property
    def left(self) -> str:
        """How far the run has come, in words; failed pairs are not counted as judged."""
        judged = sum(item.outcome == Outcome.SCORED for item in self.items)
        failed = len(self.items) - judged
        also = f", {failed} failed" if failed else ""
        return f"{judged} of {self.total} pairs are judged and kept in {self.folder}{also}"
