"""What a person sees while pairs are judged: progress, notes, and at the end of a run its summary."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from svr_async.commands.options import known_of, with_limits
from svr_async.commands.progress import RunProgress, print_summary
from svr_async.commands.screen import tell
from svr_async.engine.concurrency import ShutdownController, draining
from svr_async.engine.events import Notice, NoticeKind
from svr_async.engine.stats import EngineStats
from svr_async.errors import UsageError
from svr_async.evaluation.items import Item
from svr_async.evaluation.run import EvalResult, Listener, count_calls
from svr_async.evaluation.settings import EvalSettings
from svr_async.evaluation.setup import PreparedRun
from svr_async.reports.text import describe_count


@dataclass(slots=True, kw_only=True)
class Screen(Listener):
    """What a person sees of an evaluation: progress and notes while it runs, the summary at its end."""

    quiet: bool
    verbose: bool
    as_json: bool
    shutdown: ShutdownController | None = None
    progress: RunProgress | None = None

    @contextmanager
    def judging(
        self, total: int, stats: Callable[[], EngineStats] | None, shutdown: ShutdownController
    ) -> Iterator[None]:
        """Show progress, and drain at a signal."""
        self.shutdown = shutdown
        with RunProgress(total, stats, quiet=self.quiet) as self.progress, draining(shutdown, self.note):
            yield

    def done(self, what: Item | int) -> None:
        """Count a pair."""
        if self.progress is not None:
            self.progress.advance(what)

    def note(self, text: str) -> None:
        """Say something now, above the bar where there is one."""
        if self.progress is None:
            click.echo(text, err=True)
        else:
            self.progress.note(text)

    def on_notice(self, notice: Notice) -> None:
        """Show a notice of an engine."""
        show_notice(self.note, notice, verbose=self.verbose)

    def ended(self, result: EvalResult) -> None:
        """Print the metrics, unless the terminal has gone."""
        if self.shutdown is not None and self.shutdown.hung_up:
            return
        tell(result.metrics, lambda: print_summary(result.run()), as_json=self.as_json)


def show_notice(say: Callable[[str], None], notice: Notice, *, verbose: bool) -> None:
    """Show long waits and one-time warnings; with --verbose also each retry."""
    if notice.kind is NoticeKind.RETRY:
        if verbose:
            say(f"trying again: {notice.text}")
    else:
        say(f"note: {notice.text}" if notice.kind is NoticeKind.NOTE else notice.text)


def print_count(run: PreparedRun, *, as_json: bool, verbose: bool = False) -> None:
    """Print what would be asked, as JSON or in words."""
    count = count_calls(run)
    if count is None:
        click.echo("0 calls: this judge sends nothing")
    else:
        tell(count, describe_count(count, verbose=verbose), as_json=as_json)


def eval_settings(flags: Mapping[str, Any], given: frozenset[str]) -> EvalSettings:
    """Return the settings of the flags; UsageError for flags that exclude each other."""
    from svr_async.adapters import get_adapter

    if flags["adapter"]:
        if flags["data"] or flags["sample"]:
            raise UsageError("--format is the layout of SOURCE", hint="leave --data and --sample out")
        flags = {**flags, "benchmark": get_adapter(flags["adapter"]).name, "data": Path(flags["benchmark"])}
    if flags["jury"] is not None and "judge" in given:
        raise UsageError("--jury and --judge exclude each other", hint="--jury names all judges")
    if flags["jury"] is None and "jury_rule" in given:
        raise UsageError(f"--jury-rule {flags['jury_rule']} needs a jury", hint="--jury J1,J2,J3 names one")
    if flags["audit_below"] is not None and "order" in given and flags["order"] != "both":
        raise UsageError(
            f"--audit-below and --order {flags['order']} exclude each other",
            hint="it is about the second call of --order both",
        )
    return EvalSettings(**known_of(EvalSettings, with_limits({**flags, "salt": flags["seed"]})))
