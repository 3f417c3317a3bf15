"""The work behind `svr eval`: flags to settings, what the evaluation tells onto the screen, its end to an exit code."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import click
import orjson

from svr_async.commands.eval.notes import notes_of
from svr_async.commands.settings import eval_settings
from svr_async.commands.terminal import RunProgress, print_summary
from svr_async.engine.signals import draining, has_hung_up
from svr_async.engine.stats import EngineStats
from svr_async.engine.stopper import Stopper
from svr_async.engine.words import About, Word
from svr_async.evaluation.items import Item
from svr_async.evaluation.running.dry_run import describe_count
from svr_async.evaluation.running.evaluate import count_calls, run_now
from svr_async.evaluation.running.listener import EvalResult, Listener
from svr_async.evaluation.running.prepared import Prepared, prepare
from svr_async.evaluation.running.settings import EvalSettings
from svr_async.evaluation.running.space import words
from svr_async.vocabulary.coverage import require_coverage


def run_command(flags: Mapping[str, Any], given: frozenset[str]) -> int:
    """Evaluate and return the exit code; SvrError for what stops the run."""
    run = prepare(eval_settings(flags, given))
    for note in notes_of(run, given, quiet=flags["quiet"]):
        click.echo(f"note: {note}", err=True)
    if run.settings.limits.dry_run:
        _print_count(run, as_json=flags["as_json"])
        return 0
    screen = Screen(quiet=flags["quiet"], verbose=flags["verbose"], as_json=flags["as_json"])
    code = _exit_code(run.settings, run_now(run, screen), screen)
    if flags["report"] == "frontier":
        _draw_frontier(run, as_json=flags["as_json"])
    return code


def _draw_frontier(run: Prepared, *, as_json: bool) -> None:
    from svr_async.evaluation.running.frontier import write_frontier

    write_frontier([run.folder], run.folder / "frontier.html")
    click.echo(f"frontier  {run.folder}/frontier.html", err=as_json)


@dataclass(slots=True, kw_only=True)
class Screen(Listener):
    """What a person sees of an evaluation: progress and notes while it runs, the summary at its end."""

    quiet: bool
    verbose: bool
    as_json: bool
    stopper: Stopper | None = None
    progress: RunProgress | None = None

    @contextmanager
    def judging(self, total: int, stats: Callable[[], EngineStats] | None, stopper: Stopper) -> Iterator[None]:
        """Show progress, and drain at a signal."""
        self.stopper = stopper
        with RunProgress(total, stats, quiet=self.quiet) as self.progress, draining(stopper, self.note):
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

    def hear(self, word: Word) -> None:
        """Pass on what an engine tells."""
        pass_on(self.note, word, verbose=self.verbose)

    def ended(self, result: EvalResult) -> None:
        """Print the metrics, unless the terminal has gone."""
        if self.stopper is not None and has_hung_up(self.stopper):
            return
        if self.as_json:
            click.echo(orjson.dumps(result.metrics, option=orjson.OPT_INDENT_2))
        else:
            print_summary(result.metrics, str(result.folder))


def pass_on(say: Callable[[str], None], word: Word, *, verbose: bool) -> None:
    """Say why calls wait for long, and what is said once; with --verbose also why each of them is tried again."""
    if word.about is About.RETRY:
        if verbose:
            say(f"trying again: {word.text}")
    else:
        say(f"note: {word.text}" if word.about is About.NOTE else word.text)


def _exit_code(settings: EvalSettings, result: EvalResult, screen: Screen) -> int:
    """Return 0, or what a signal means to a shell; CoverageError where too many pairs have no verdict."""
    metrics = result.metrics
    if screen.stopper is not None and has_hung_up(screen.stopper):
        return 128 + result.signal
    if result.signal:
        told = f"stopped by {signal.Signals(result.signal).name}: {result.left} — run the same command to go on"
        click.echo(told, err=True)
        return 128 + result.signal
    if metrics["coverage"] is not None:  # some pair has a right answer
        again = "without --offline they are asked" if settings.limits.offline else "--retry-errors asks again"
        require_coverage(
            metrics["n_total"] - metrics["n_scored"],
            metrics["n_total"],
            settings.min_coverage,
            lack="pairs have no verdict",
            hint=f"{result.folder}/items.jsonl says why; {again}, --min-coverage accepts it",
        )
    return 0


def _print_count(run: Prepared, *, as_json: bool) -> None:
    """Print what would be asked, as JSON or in words."""
    count = count_calls(run)
    if count is None:
        click.echo("0 calls: this judge sends nothing")
    elif as_json:
        click.echo(orjson.dumps(count, option=orjson.OPT_INDENT_2))
    else:
        room = f"at most about {words(count['disk_bytes'])} on the disk, where {words(count['free_bytes'])} are free"
        click.echo(f"{describe_count(count)}\n  {room}")
