"""What a person sees while pairs are judged: progress, notes, and at the end of a run its summary."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import click

from svr_async.commands.progress import RunProgress, print_summary
from svr_async.commands.screen import tell
from svr_async.engine.concurrency import ShutdownController, draining
from svr_async.engine.events import Notice, NoticeKind
from svr_async.engine.stats import EngineStats
from svr_async.evaluation.dry_run import describe_count
from svr_async.evaluation.items import Item
from svr_async.evaluation.run import EvalResult, Listener, count_calls
from svr_async.evaluation.setup import PreparedRun


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
