"""`--dry-run` of training and its stages: what would be asked, on the screen."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict
from typing import Any

import click
import orjson

from svr_async.evaluation.running.dry_run import DryRunCount, describe_count, total_count
from svr_async.judges.open_judge import OpenJudge
from svr_async.training.rounds.planned import Assumed
from svr_async.training.rounds.session import Session
from svr_async.training.running.listener import Silent
from svr_async.training.running.settings import TrainSettings
from svr_async.training.running.stage import count_calls
from svr_async.vocabulary.prefixes import PrefixOrder

Work = Callable[[Session], Awaitable[Any]]


class CallCount(Silent):
    """Counts what the judge and who writes for it would send; `found` is empty where nothing is sent."""

    def __init__(self, prefix: PrefixOrder) -> None:
        self._prefix = prefix
        self.found: dict[str, DryRunCount] = {}

    def opened(self, judge: OpenJudge) -> None:
        """Count from now on."""
        asked = [one for one in (judge, judge.behind) if one is not None]
        self.found = {one.judge.name: DryRunCount(one.engine, self._prefix) for one in asked if one.engine is not None}


def count_training(settings: TrainSettings, work: Work, assumed: Assumed | None = None) -> dict[str, Any] | None:
    """Return calls, tokens, dollars and seconds of a work, with what is assumed; None where nothing is sent."""
    counted = CallCount(PrefixOrder(settings.prefix))
    count_calls(settings, work, counted)
    if not counted.found:
        return None
    count = total_count({name: one.price() for name, one in counted.found.items()})
    return count if assumed is None else count | {"assumed": asdict(assumed)}


def print_count(flags: Mapping[str, Any], settings: TrainSettings, work: Work, assumed: Assumed | None = None) -> int:
    """Print what a work would ask, as JSON or in words; return the exit code."""
    count = count_training(settings, work, assumed)
    if count is None:
        click.echo("0 calls: this judge sends nothing")
    elif flags["as_json"]:
        click.echo(orjson.dumps(count, option=orjson.OPT_INDENT_2))
    else:
        click.echo("\n".join([describe_count(count), *([] if assumed is None else [f"  {assumed.in_words()}"])]))
    return 0
