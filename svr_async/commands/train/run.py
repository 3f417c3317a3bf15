"""`svr train`: flags to settings, the result to the screen."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial
from typing import Any

import click

from svr_async.commands.options import known_of
from svr_async.commands.screen import print_json
from svr_async.commands.train.dry_run import print_count
from svr_async.commands.train.screen import TrainScreen, sharing
from svr_async.commands.train.table import asked_block, print_learning, print_rounds
from svr_async.commands.train_settings import train_settings
from svr_async.reports.files import write_bank
from svr_async.reports.text import calls_in_words
from svr_async.tracking.facts import of_training
from svr_async.tracking.hand_over import hand_over
from svr_async.training.rounds.answers import require_answers
from svr_async.training.rounds.planned import ASSUMED, plan_rounds
from svr_async.training.running.settings import TrainSettings
from svr_async.training.running.train import TrainResult, train


@sharing
def run_train(flags: Mapping[str, Any]) -> int:
    """Train and return the exit code; SvrError for what stops the run."""
    begun, settings = time.monotonic(), train_settings(flags)
    if flags["dry_run"]:
        return print_count(flags, settings, plan_rounds, ASSUMED)
    with TrainScreen(quiet=flags["quiet"]) as screen:
        result = train(settings, screen)
    write_bank(result.folder / "bank", result.folder / "report.html")
    _print_training(result, time.monotonic() - begun, as_json=flags["as_json"])
    told = {**result.record, **asked_block(result.stats, result.price)}
    facts = partial(of_training, "train", settings.out, known_of(TrainSettings, flags), told)
    hand_over(flags["track"], facts, partial(click.echo, err=True))
    require_answers(result.outcomes, settings.min_coverage, settings.out / "failures.jsonl")
    return 0


def _print_training(result: TrainResult, seconds: float, *, as_json: bool) -> None:
    """Print what came of a training, as JSON or as tables."""
    asked = asked_block(result.stats, result.price)
    written = asked_block(*result.written) if result.written else {}
    if as_json:
        print_json({**result.record, "bank_digest": result.digest, **asked, **({"author": written} if written else {})})
        return
    print_rounds(result.record, result.folder, result.digest, seconds)
    print_learning(result.learned)
    if asked:
        click.echo(f"calls     {calls_in_words(asked)}")
    if written:
        click.echo(f"author    {calls_in_words(written)}")
