"""What training and fitting show: epochs of a fit, rounds, and the stage under way."""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import click

from svr_async.commands.progress import PLAIN_EVERY_S, REFRESH_EVERY_S, engine_facts, plain_progress, stage_bar
from svr_async.commands.screen import tell
from svr_async.engine.concurrency import ShutdownController, draining
from svr_async.fit.history import EpochRecord, FitCurve, FitWatch
from svr_async.judges.open_judge import OpenJudge
from svr_async.scoring.dev_pairs import enough
from svr_async.training.rounds.judge_calls import ShardEndsError
from svr_async.training.running.epoch_rows import (
    ADVERSARIAL,
    BEST,
    CALIBRATE,
    COLUMNS,
    EpochRow,
    accuracy_cell,
    best_curve,
    fit_name,
    fitting,
    plain_line,
    row_of,
)

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, Group, RenderResult
    from rich.live import Live
    from rich.progress import Progress, TaskID
    from rich.spinner import Spinner
    from rich.table import Table

    from svr_async.engine.stats import EngineStats

WIDE = 112  # columns from which heads are whole words
HEAD_LINES = 3


@dataclass(slots=True)
class EpochTable:
    """All fits so far as a table: those that ended by the epoch they took, the one under way by all of its epochs.

    A fit by itself stays whole when it ends. `lead` heads the first column and words what sets the fits apart;
    without it they have none.
    """

    lead: tuple[str, Callable[[FitCurve], str]] | None = None
    keep_whole: bool = False
    ended: list[tuple[FitCurve, dict[int, float]]] = field(default_factory=list)
    now: FitCurve | None = None
    chosen: FitCurve | None = None
    _times: dict[int, float] = field(default_factory=dict)
    _last: float = 0.0

    def begin(self, curve: FitCurve) -> None:
        """Start a fit's rows."""
        self.now, self._times, self._last = curve, {}, time.monotonic()

    def epoch(self, record: EpochRecord) -> None:
        """Add an epoch with the seconds since the one before it."""
        assert self.now is not None
        moment = time.monotonic()
        self._times[record.epoch] = moment - self._last
        self._last, self.now = moment, self.now.with_epoch(record)

    def end(self, curve: FitCurve) -> None:
        """Take over the whole curve: epochs of a checkpoint are in it, and its best is final."""
        self.ended.append((curve, self._times))
        self.now = None

    def rows(self, room: int) -> list[EpochRow]:
        """Return at most `room` rows: the ends of the fits that ended, then the last epochs of the one under way."""
        found: list[EpochRow] = []
        for curve, times in self.ended:
            whole = self.keep_whole
            records = curve.epochs if whole else tuple(filter(None, [curve.best]))
            best = None if self.chosen is None and not whole else curve.best
            mark = best if self.chosen is None or self.chosen == curve else None
            found += [row_of(curve, record, times, best=record is mark) for record in records]
        if self.now is not None:
            now = self.now
            found += [row_of(now, record, self._times, best=record is now.best) for record in now.epochs]
        return fitting(found, room)

    def table(self, *, wide: bool, room: int) -> Table:
        """Return the table for a terminal of `room` rows."""
        from rich.table import Table

        rows = self.rows(room)
        negatives = any(row.record.adversarial_loss is not None for row in rows)
        columns = [column for column in COLUMNS if negatives or column is not ADVERSARIAL]
        table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 1 if wide else 0, 0, 1))
        table.add_column("", width=1)
        if self.lead is not None:
            table.add_column(self.lead[0], no_wrap=True)
        for column in columns:
            table.add_column(column.wide if wide else column.narrow, justify="right", no_wrap=False)
        for row in rows:
            lead = [] if self.lead is None else [self.lead[1](row.curve)]
            cells = (BEST if row.best else "", *lead, *(column.cell(row) for column in columns))
            table.add_row(*cells, style="bold" if row.best else "")
        return table

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw the table at the terminal's present width and height."""
        if self.ended or (self.now is not None and self.now.epochs):
            yield self.table(wide=options.max_width >= WIDE, room=max(3, console.height - HEAD_LINES - 3))


@dataclass(slots=True)
class PlainEpochs:
    """A line an epoch on standard error, for a log."""

    now: FitCurve = field(default_factory=FitCurve)
    _last: float = 0.0

    def begin(self, curve: FitCurve) -> None:
        """Remember the fit that begins."""
        self.now, self._last = curve, time.monotonic()

    def epoch(self, record: EpochRecord) -> None:
        """Print the epoch."""
        moment = time.monotonic()
        click.echo(plain_line(self.now, record, moment - self._last), err=True)
        self._last = moment

    def end(self, curve: FitCurve) -> None:
        """Say which epoch was taken."""
        known = curve.best if enough(curve.dev_pairs) else None
        best = "" if known is None else f", {accuracy_cell(curve, known)} % on dev"
        taken = f"epoch {curve.best_epoch}" if curve.best_epoch else "the start"
        click.echo(f"{fit_name(curve)}: took {taken}{best}", err=True)


@dataclass(slots=True)
class LiveEpochs:
    """The table of `svr fit` on a terminal, with a line below it about what runs now."""

    table: EpochTable
    seeds: int
    epochs: int

    def begin(self, curve: FitCurve) -> None:
        """Start a seed."""
        self.table.begin(curve)

    def epoch(self, record: EpochRecord) -> None:
        """Add a row."""
        self.table.epoch(record)

    def end(self, curve: FitCurve) -> None:
        """Close a seed; with several, the best by dev accuracy so far is marked."""
        self.table.end(curve)
        ended = [ended for ended, _ in self.table.ended]
        self.table.chosen = curve if curve.phase == CALIBRATE else best_curve(ended)

    def doing(self) -> str:
        """Say what runs now; empty where nothing does."""
        now = self.table.now
        if now is None:
            return ""
        if now.phase == CALIBRATE:
            return "calibrating the rubrics that are left"
        seed = f"seed {len(self.table.ended) + 1} of {self.seeds}, " if self.seeds > 1 else ""
        if not self.epochs:
            return f"{seed}solving"
        if not now.epochs:
            return f"{seed}starting: the first epoch compiles"
        done = now.epochs[-1].epoch
        return f"{seed}epoch {min(done + 1, self.epochs)} of {self.epochs}"


class FitScreen:
    """The epochs of `svr fit`: a live table on a terminal, plain lines elsewhere, nothing when quiet.

    Without `epochs` only what is said is shown.
    """

    def __init__(self, *, quiet: bool, epochs: bool) -> None:
        self._quiet, self._shown = quiet, epochs and not quiet
        self._live: Live | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def fits(self, seeds: int, epochs: int) -> FitWatch | None:
        """Return the table, drawn from now on, or the lines."""
        if not self._shown:
            return None
        if not sys.stderr.isatty():
            return PlainEpochs()
        watch = LiveEpochs(EpochTable(lead=("fit", fit_name), keep_whole=seeds == 1), seeds, epochs)
        self._live = _live(watch)
        self._live.start(refresh=True)
        return watch

    def say(self, text: str) -> None:
        """Say what comes after the fits, below their table."""
        self._stop()
        if not self._quiet:
            click.echo(text, err=True)

    def _stop(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None


def _live(watch: LiveEpochs) -> Live:
    """Return the table and what runs now, to be drawn again and again."""
    from rich.console import Console, Group
    from rich.live import Live
    from rich.spinner import Spinner

    spinner = Spinner("dots", style="dim")

    def frame() -> Group:
        text = watch.doing()
        spinner.update(text=text)
        return Group(watch.table, spinner) if text else Group(watch.table)

    return Live(console=Console(stderr=True), get_renderable=frame, refresh_per_second=8)


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
