"""Progress of a run and its summary: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Self

import click

from svr_async.core.safetext import one_line

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID

    from svr_async.engine.endpoint import EndpointStats
    from svr_async.engine.stats import EngineStats
    from svr_async.evaluation.run_folder import Run

PLAIN_EVERY_S = 10.0
REFRESH_EVERY_S = 0.1
WIDE = 112  # columns from which there is room for all of the bar
WORTH_SHOWING_S = 1.0
HELD = {
    "rate limited": "rate limited",
    "paced": "held to a rate, next call in",
    "down": "no answer, next try in",
    "trying": "no answer, trying",
}  # by the state of an endpoint
OUTAGES = frozenset({"down", "trying"})


class RunProgress:
    """Counts judged items; shows rate, calls in flight, retries, cache hits, cost and time left.

    On a terminal it draws a bar; elsewhere it prints a line now and then; `quiet` prints nothing.
    """

    def __init__(self, total: int, stats: Callable[[], EngineStats] | None, *, quiet: bool = False) -> None:
        self._total = total
        self._stats = stats
        self._done = 0
        self._quiet = quiet
        self._last = self._started = time.monotonic()
        self._bar: Progress | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        if not self._quiet and sys.stderr.isatty():
            from rich.console import Console

            self._bar = stage_bar(Console(stderr=True))
            self._bar.start()
            self._task = self._bar.add_task("judging", total=self._total, facts="")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            with contextlib.suppress(OSError):  # after a hang-up there is no terminal to write to
                self._show()
                self._bar.stop()

    def advance(self, _: object) -> None:
        """Count one item."""
        self._done += 1
        now = time.monotonic()
        every = REFRESH_EVERY_S if self._bar is not None else PLAIN_EVERY_S
        if now - self._last >= every:
            self._last = now
            self._show()

    def note(self, text: str) -> None:
        """Say something now, above the bar where there is one."""
        if not self._quiet:
            (self._bar.console.print if self._bar is not None else _to_stderr)(text)

    def _show(self) -> None:
        if self._quiet:
            return
        facts = engine_facts(self._stats)
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=self._done, facts=facts)
        else:
            _to_stderr(plain_progress("judged", self._done, self._total, time.monotonic() - self._started, facts))


def plain_progress(what: str, done: int, total: int, seconds: float, facts: str) -> str:
    """Return progress as a line for a log."""
    return f"{done}/{total} {what}, {done / max(1e-9, seconds):.0f}/s{', ' if facts else ''}{facts}"


def _to_stderr(text: str) -> None:
    click.echo(text, err=True)


def stage_bar(console: Console) -> Progress:
    """Return a bar for tasks with a field `facts`, which gives way first where the terminal is narrow."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.table import Column

    wide = console.width >= WIDE
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=24 if wide else 10),
        MofNCompleteColumn(),
        TextColumn("{task.fields[facts]}", style="dim", markup=False, table_column=Column(ratio=1, no_wrap=True)),
        TimeElapsedColumn() if wide else TextColumn(""),
        TextColumn("[dim]left"),
        TimeRemainingColumn(compact=not wide),
        console=console,
        transient=True,
        expand=True,
    )


def print_summary(run: Run) -> None:
    """Print the summary of a run, where its report is, and what to do next."""
    from svr_async.commands.screen import show
    from svr_async.core.table import Line
    from svr_async.reports.text import run_parts

    show([*run_parts(run.summary), Line(f"{run.path}/report.html", label="report")])
    show([Line(f"svr view {run.path}", label="next")])


def engine_facts(stats: Callable[[], EngineStats] | None) -> str:
    """Return the status line of an engine; "" without one."""
    if stats is None:
        return ""
    now = stats()
    parts = [f"{now.in_flight}/{now.limit} in flight" if now.waiting else f"{now.in_flight} in flight"]
    parts += [] if now.usd is None else [f"${now.usd:.2f}"]  # early, since a narrow terminal cuts the end off
    parts += _held(now)
    parts += [f"{now.cache_hits} from cache"] if now.cache_hits else []
    parts += [f"{now.retries} retries"] if now.retries else []
    parts += [] if now.latency.p50 is None else [f"{_short(now.latency.p50)} a call"]
    if len(now.endpoints) > 1:
        parts.append(" ".join(f"{_host(endpoint.name)} {endpoint.in_flight}" for endpoint in now.endpoints))
    if now.sent and not now.in_flight and now.last_failure:
        parts.append(f"last: {one_line(now.last_failure, 60)}")
    return ", ".join(parts)


def _held(now: EngineStats) -> list[str]:
    """Return which endpoints hold calls back and for how long; waits too short to read are left out."""
    many = len(now.endpoints) > 1
    return [
        f"{f'{_host(endpoint.name)} ' if many else ''}{HELD[endpoint.state]}{_wait(endpoint.wait_s)}"
        for endpoint in now.endpoints
        if endpoint.state in OUTAGES
        or (endpoint.state in HELD and endpoint.wait_s >= WORTH_SHOWING_S and _matters(endpoint, now))
    ]


def _matters(endpoint: EndpointStats, now: EngineStats) -> bool:
    """Whether a wait delays a call: a known rate delays only calls that wait."""
    return endpoint.state != "paced" or now.waiting > 0


def _host(endpoint: str) -> str:
    """Return a short name of an endpoint: host and port of a URL."""
    return one_line(endpoint.partition("://")[2].partition("/")[0] or endpoint, 22)


def _wait(seconds: float) -> str:
    return f" {seconds:.0f} s" if seconds >= WORTH_SHOWING_S else ""


def _short(seconds: float) -> str:
    """Return a time with about two digits: 0.03 s, 1.2 s, 48 s."""
    return f"{seconds:.2f} s" if seconds < 1 else f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
