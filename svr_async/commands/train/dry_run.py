"""`--dry-run` of training and its stages: what would be asked, on the screen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from svr_async.commands.screen import tell
from svr_async.evaluation.dry_run import describe_count
from svr_async.reproduction.training_count import Work, count_training
from svr_async.training.rounds.planned import Assumed
from svr_async.training.running.settings import TrainSettings


def print_count(flags: Mapping[str, Any], settings: TrainSettings, work: Work, assumed: Assumed | None = None) -> int:
    """Print what a work would ask, as JSON or in words; return the exit code."""
    count = count_training(settings, work, assumed)
    if count is None:
        click.echo("0 calls: this judge sends nothing")
    else:
        told = "\n".join([describe_count(count), *([] if assumed is None else [f"  {assumed.in_words()}"])])
        tell(count, told, as_json=flags["as_json"])
    return 0
