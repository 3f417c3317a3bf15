"""Progress of a stage: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Self

import click

from svr_async.core.safetext import one_line
from svr_async.evaluation.wording import duration

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID

    from svr_async.engine.endpoint import EndpointStats
    from svr_async.engine.stats import EngineStats

PLAIN_EVERY_S = 10.0
REFRESH_EVERY_S = 0.1
WIDE = 112  # minimum terminal columns for the full bar
WORTH_SHOWING_S = 1.0
HELD = {
    "rate limited": "rate limited",
    "paced": "held to a rate, next call in",
    "down": "no answer, next try in",
    "trying": "no answer, trying",
}  # by the state of an endpoint
OUTAGES = frozenset({"down", "trying"})


class ProgressBar:
    """Shows one stage at a time: items done, calls in flight, retries, cache hits, cost and time left.

    On a terminal it draws a bar below the notes; elsewhere it prints a line every ten seconds; `quiet` prints nothing.
    """

    def __init__(self, stats: Callable[[], EngineStats] | None = None, *, quiet: bool = False) -> None:
        self.stats = stats
        self.quiet = quiet
        self._what, self._total, self._done = "", 0, 0
        self._started = self._last = time.monotonic()
        self._bar: Progress | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        if not self.quiet and sys.stderr.isatty():
            from rich.console import Console

            self._bar = _bar(Console(stderr=True))
            self._bar.start()
            self._task = self._bar.add_task("", total=None, facts="", visible=False)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            with contextlib.suppress(OSError):  # after a hang-up the terminal is gone
                self._bar.stop()

    def stage(self, what: str, total: int) -> None:
        """Begin a stage of `total` items, for example `judging`; with total 0 the bar is hidden."""
        self._what, self._total, self._done = what, total, 0
        self._started = self._last = time.monotonic()
        if self._bar is not None and self._task is not None:
            facts = engine_facts(self.stats)
            self._bar.reset(self._task, total=total, description=what, facts=facts, visible=total > 0)

    def count(self, done: int) -> None:
        """Set the number of items done."""
        self._done, now = done, time.monotonic()
        every = REFRESH_EVERY_S if self._bar is not None else PLAIN_EVERY_S
        if self.quiet or now - self._last < every:
            return
        facts = engine_facts(self.stats)
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=done, facts=facts, visible=done < self._total)
        else:
            rate = done / max(1e-9, now - self._started)
            self.note(f"{self._what}: {done}/{self._total}, {rate:.0f}/s{', ' if facts else ''}{facts}")
        self._last = now

    def advance(self) -> None:
        """Count one item."""
        self.count(self._done + 1)

    def working(self, what: str) -> None:
        """Show current work of unknown length; "" hides it."""
        if self._bar is not None and self._task is not None:
            self._bar.reset(self._task, total=None, description=what, facts="", visible=bool(what))

    def note(self, text: str) -> None:
        """Print a line, above the bar on a terminal."""
        if self.quiet:
            return
        if self._bar is None:
            click.echo(text, err=True)
        else:
            from rich.text import Text

            self._bar.console.print(Text(text))


def _bar(console: Console) -> Progress:
    """Return a bar for tasks with a field `facts`, which a narrow terminal shortens first."""
    from rich import progress as columns
    from rich.table import Column

    wide = console.width >= WIDE
    return columns.Progress(
        columns.SpinnerColumn(),
        columns.TextColumn("{task.description}", markup=False),
        columns.BarColumn(bar_width=24 if wide else 10),
        columns.MofNCompleteColumn(),
        columns.TextColumn(
            "{task.fields[facts]}", style="dim", markup=False, table_column=Column(ratio=1, no_wrap=True)
        ),
        columns.TimeElapsedColumn() if wide else columns.TextColumn(""),
        columns.TextColumn("[dim]left"),
        columns.TimeRemainingColumn(compact=not wide),
        console=console,
        transient=True,
        expand=True,
    )


def engine_facts(stats: Callable[[], EngineStats] | None) -> str:
    """Return the status line of an engine; "" without one."""
    if stats is None:
        return ""
    now = stats()
    parts = [f"{now.in_flight}/{now.limit} in flight" if now.waiting else f"{now.in_flight} in flight"]
    parts += [] if now.usd is None else [f"${now.usd:.2f}"]  # early, since a narrow terminal cuts the end off
    parts += [held for endpoint in now.endpoints if (held := _held(endpoint, now))]
    parts += [f"{now.cache_hits} from cache"] if now.cache_hits else []
    parts += [f"{now.retries} retries"] if now.retries else []
    parts += [] if now.latency.p50 is None else [f"{duration(now.latency.p50)} a call"]
    if len(now.endpoints) > 1:
        parts.append(" ".join(f"{_host(endpoint.name)} {endpoint.in_flight}" for endpoint in now.endpoints))
    if now.sent and not now.in_flight and now.last_failure:
        parts.append(f"last: {one_line(now.last_failure, 60)}")
    return ", ".join(parts)


def _held(endpoint: EndpointStats, now: EngineStats) -> str:
    """Describe why an endpoint delays calls, and for how long; "" if it does not, or only briefly."""
    long = endpoint.wait_s >= WORTH_SHOWING_S
    delays = endpoint.state in HELD and long and (endpoint.state != "paced" or now.waiting > 0)
    if endpoint.state not in OUTAGES and not delays:
        return ""
    name = f"{_host(endpoint.name)} " if len(now.endpoints) > 1 else ""
    return f"{name}{HELD[endpoint.state]}{f' {endpoint.wait_s:.0f} s' if long else ''}"


def _host(endpoint: str) -> str:
    """Return a short name of an endpoint: host and port of a URL."""
    return one_line(endpoint.partition("://")[2].partition("/")[0] or endpoint, 22)
