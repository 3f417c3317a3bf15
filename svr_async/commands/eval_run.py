"""Runs `svr eval`: flags to settings, progress and notes while pairs are judged, the summary and what to do next."""

from __future__ import annotations

import shlex
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import click

from svr_async.adapters import get_adapter
from svr_async.commands.options import known_of, with_limits
from svr_async.commands.progress import ProgressBar
from svr_async.commands.screen import spinner, tell
from svr_async.core.integrity import require_coverage
from svr_async.core.table import Line
from svr_async.engine.events import Notice, NoticeKind
from svr_async.engine.shutdown import ShutdownController, draining
from svr_async.engine.stats import EngineStats
from svr_async.errors import UsageError
from svr_async.evaluation.items import Item
from svr_async.evaluation.run import Listener, count_calls, run_now
from svr_async.evaluation.run_folder import Run
from svr_async.evaluation.settings import EvalSettings
from svr_async.evaluation.setup import PreparedRun, prepare
from svr_async.reports.text import describe_count, run_parts

SALT = "svr"  # of orders and audits with --seed 0


@dataclass(slots=True, kw_only=True)
class Screen(Listener):
    """What a person sees of an evaluation: progress and notes while it runs, the summary at its end."""

    quiet: bool = False
    verbose: bool = False
    as_json: bool = False
    shutdown: ShutdownController = field(default_factory=ShutdownController)
    progress: ProgressBar | None = None

    @contextmanager
    def judging(
        self, total: int, stats: Callable[[], EngineStats] | None, shutdown: ShutdownController
    ) -> Iterator[None]:
        """Show progress, and drain at a signal."""
        self.shutdown = shutdown
        with ProgressBar(stats, quiet=self.quiet) as self.progress, draining(shutdown, self.note):
            self.progress.stage("judging", total)
            yield

    def done(self, what: Item | int) -> None:
        """Count a pair."""
        del what
        if self.progress is not None:
            self.progress.advance()

    def note(self, text: str) -> None:
        """Print a line now, above the bar if there is one."""
        if self.progress is not None:
            self.progress.note(text)
        elif not self.quiet:
            click.echo(text, err=True)

    def on_notice(self, notice: Notice) -> None:
        """Show long waits and one-time warnings; with --verbose also each retry."""
        if notice.kind is not NoticeKind.RETRY:
            self.note(f"note: {notice.text}" if notice.kind is NoticeKind.NOTE else notice.text)
        elif self.verbose:
            self.note(f"trying again: {notice.text}")

    def ended(self, run: Run) -> None:
        """Print the metrics and what to do next, unless the terminal has gone."""
        if not self.shutdown.hung_up:
            again = "" if run.complete else "; the same command again judges the rest"
            following = Line(f"svr view {shlex.quote(str(run.path))}{again}", label="next")
            parts = (*run_parts(run.summary), Line(f"{run.path}/report.html", label="report"), following)
            tell(run.metrics, parts, as_json=self.as_json)


def run_eval(flags: Mapping[str, Any], given: frozenset[str]) -> int:
    """Judge, or count the calls of a dry run; return the exit code."""
    quiet, as_json = flags["quiet"], flags["as_json"]
    settings = eval_settings(flags, given)
    with spinner("reading pairs", quiet=quiet):
        run = prepare(settings)
    for note in () if quiet else run.dataset.readings:
        click.echo(f"labels: {note}", err=True)
    for note in notes_of(run, given):
        click.echo(f"note: {note}", err=True)
    if settings.limits.dry_run:
        with spinner("counting calls"):
            count = count_calls(run)
        tell(count, describe_count(count, verbose=flags["verbose"]), as_json=as_json and count is not None)
        return 0
    screen = Screen(quiet=quiet, verbose=flags["verbose"], as_json=as_json)
    result = run_now(run, screen)
    if result.signal:
        if not screen.shutdown.hung_up:
            name = signal.Signals(result.signal).name
            click.echo(f"stopped by {name}: {result.left} — run the same command to continue", err=True)
        return 128 + result.signal
    if flags["track"]:
        from svr_async.observability.tracking import evaluation_facts, hand_over

        hand_over(flags["track"], partial(evaluation_facts, run.folder), partial(click.echo, err=True))
    _require_coverage(settings, result)
    return 0


def eval_settings(flags: Mapping[str, Any], given: frozenset[str]) -> EvalSettings:
    """Return the settings of the flags; UsageError for flags that exclude each other."""
    salt = f"{SALT}-{flags['seed']}" if flags["seed"] else SALT
    if flags["adapter"]:
        if flags["data"] or flags["sample"]:
            raise UsageError("--format is the layout of SOURCE", hint="leave --data and --sample out")
        flags = {**flags, "benchmark": get_adapter(flags["adapter"]).name, "data": Path(flags["benchmark"])}
    if flags["jury"] is not None and "judge" in given:
        raise UsageError("--jury and --judge exclude each other", hint="--jury names all judges")
    if flags["jury"] is None and "jury_rule" in given:
        raise UsageError(f"--jury-rule {flags['jury_rule']} needs a jury", hint="--jury J1,J2,J3 names one")
    if flags["audit_below"] is not None and "order" in given and flags["order"] != "both":
        message = f"--audit-below and --order {flags['order']} exclude each other"
        raise UsageError(message, hint="it is about the second call of --order both")
    return EvalSettings(**known_of(EvalSettings, with_limits({**flags, "salt": salt})))


def notes_of(run: PreparedRun, given: frozenset[str]) -> Iterator[str]:
    """Yield flags without effect, and a bank that leaves the decision to the judge."""
    if all(judge.spec.profile is None for judge in run.judges.judges):
        capped = [name for name in ("budget", "max_calls") if name in given]
        yield from (f"--{name.replace('_', '-')} has no effect: the judge sends nothing" for name in capped)
    if "top_k" in given and run.settings.bank is None:
        yield f"--top-k has no effect: {run.method.name} has no bank to choose rubrics from"
    if run.method.facts.direct:
        yield (
            "on held-out pairs the bank was no better than guessing, so the judge is asked directly; "
            "--top-k uses its rubrics anyway"
        )


def _require_coverage(settings: EvalSettings, result: Run) -> None:
    """Raise CoverageError if too many pairs have no verdict."""
    metrics = result.metrics
    if metrics["coverage"] is None:  # no pair has a right answer
        return
    again = "without --offline they are asked" if settings.limits.offline else "--retry-errors asks again"
    require_coverage(
        metrics["n_total"] - metrics["n_scored"],
        metrics["n_total"],
        settings.min_coverage,
        lack="pairs have no verdict",
        hint=f"{result.path}/items.jsonl says why; {again}, --min-coverage accepts it",
    )
