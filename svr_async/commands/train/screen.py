"""What a person sees while a training runs: what has happened, the fits so far, and the stage under way."""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import click

from svr_async.commands.screen import tell
from svr_async.commands.status_line import engine_facts
from svr_async.commands.terminal import PLAIN_EVERY_S, REFRESH_EVERY_S, plain_progress, stage_bar
from svr_async.commands.train.epochs import EpochTable
from svr_async.engine.concurrency import ShutdownController, draining
from svr_async.fit.history import EpochRecord, FitCurve
from svr_async.judges.open_judge import OpenJudge
from svr_async.training.rounds.judge_calls import ShardEndsError

if TYPE_CHECKING:
    from rich.console import Group
    from rich.live import Live
    from rich.progress import Progress, TaskID
    from rich.spinner import Spinner
    from rich.table import Table

    from svr_async.engine.stats import EngineStats

PHASES = {"fit": "fit", "calibrate": "pruned"}


def sharing(run: Callable[[Mapping[str, Any]], int]) -> Callable[[Mapping[str, Any]], int]:
    """Have a command end well, with a line, once the part of a stage that falls to this machine is judged."""

    @functools.wraps(run)
    def called(flags: Mapping[str, Any]) -> int:
        try:
            return run(flags)
        except ShardEndsError as end:
            tell({"shard": str(end)}, str(end), as_json=flags["as_json"], line=True)
            return 0

    return called


class TrainScreen:
    """Tells of a training: `say` what happened, `stage` and `count` for what is asked, and the epochs of its fits.

    On a terminal what happened scrolls above a table of the fits and a bar of the stage under way; elsewhere it is
    lines, with one for the stage now and then; `quiet` shows nothing.
    """

    def __init__(self, stats: Callable[[], EngineStats] | None = None, *, quiet: bool = False) -> None:
        self._stats = stats
        self._quiet = quiet
        self._begun = self._stage_begun = self._last = time.monotonic()
        self._what, self._total = "", 0
        self._fits = EpochTable(lead=("round", _lead))
        self._live: Live | None = None
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        self._spinner: Spinner | None = None

    def __enter__(self) -> Self:
        if not self._quiet and sys.stderr.isatty():
            self._open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def opened(self, judge: OpenJudge) -> None:
        """Show what the judge's engine does, and count the seconds from now."""
        self._stats = judge.engine.stats if judge.engine else None
        self._begun = time.monotonic()

    def listening(self, shutdown: ShutdownController) -> AbstractContextManager[None]:
        """Drain on signals while questions are asked."""
        return draining(shutdown, self.say)

    def say(self, text: str) -> None:
        """Say something that happened, with the seconds since the beginning."""
        if self._quiet:
            return
        stamp = f"{time.monotonic() - self._begun:7.1f} s"
        if self._live is not None:
            self._live.console.print(_hanging(stamp, text))
        else:
            click.echo(f"{stamp}  {text}", err=True)

    def stage(self, what: str, total: int) -> None:
        """Begin a stage of so many questions, as `judging`."""
        self._what, self._total = what, total
        self._stage_begun = self._last = time.monotonic()
        if self._bar is not None and self._task is not None:
            facts = engine_facts(self._stats)
            self._bar.reset(self._task, total=total, description=what, facts=facts, visible=total > 0)

    def count(self, done: int) -> None:
        """Take note of how many of the stage's questions are answered."""
        now = time.monotonic()
        every = REFRESH_EVERY_S if self._bar is not None else PLAIN_EVERY_S
        if self._quiet or (now - self._last < every and done < self._total):
            return
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=done, facts=engine_facts(self._stats), visible=done < self._total)
        elif now - self._last >= every:
            self.say(plain_progress(self._what, done, self._total, now - self._stage_begun, engine_facts(self._stats)))
        self._last = now

    def begin(self, curve: FitCurve) -> None:
        """Begin a fit."""
        self._fits.begin(curve)

    def epoch(self, record: EpochRecord) -> None:
        """Add an epoch of the fit."""
        self._fits.epoch(record)

    def end(self, curve: FitCurve) -> None:
        """Close a fit."""
        self._fits.end(curve)

    def _open(self) -> None:
        from rich.console import Console
        from rich.live import Live
        from rich.spinner import Spinner

        console = Console(stderr=True)
        self._spinner = Spinner("dots", style="dim")
        self._bar = stage_bar(console)
        self._task = self._bar.add_task("", total=None, facts="", visible=False)
        self._live = Live(console=console, get_renderable=self._frame, refresh_per_second=8, transient=True)
        self._live.start()

    def _frame(self) -> Group:
        from rich.console import Group

        assert self._bar is not None
        assert self._spinner is not None
        if (now := self._fits.now) is not None:
            done = f", epoch {now.epochs[-1].epoch} done" if now.epochs else ""
            self._spinner.update(text=f"fitting round {now.round}{done}" if now.round else "fitting")
        below = self._bar if now is None else self._spinner
        shown = self._fits.ended or (now is not None and now.epochs)
        return Group(self._fits, "", below) if shown else Group(below)


def _hanging(stamp: str, text: str) -> Table:
    """Return a text with its stamp before it; lines that it is broken into begin below its first."""
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 2))
    grid.add_row(stamp, Text(text))
    return grid


def _lead(curve: FitCurve) -> str:
    return f"{curve.round} {PHASES.get(curve.phase, curve.phase)}"
