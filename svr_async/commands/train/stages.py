"""`svr induce` and `svr judge`: flags to settings, the result to the screen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import orjson

from svr_async.commands.terminal import calls_in_words
from svr_async.commands.train.screen import TrainScreen
from svr_async.commands.train.table import asked_block
from svr_async.commands.train_settings import stage_settings
from svr_async.evaluation.running.dry_run import DryRunCount, describe_count
from svr_async.judges.open_judge import OpenJudge
from svr_async.training.bank.merge import Candidate
from svr_async.training.rounds.answers import require_answers, unanswered_lines
from svr_async.training.running.candidates import induce, load_rubrics
from svr_async.training.running.entries import count_calls, judge
from svr_async.training.running.listener import Silent
from svr_async.vocabulary.prefixes import PrefixOrder


def run_induce(flags: Mapping[str, Any]) -> int:
    """Induce, merge, write JSON Lines of candidates, the most observed first."""
    out, settings = Path(flags["out"]), stage_settings(flags)
    with TrainScreen(quiet=flags["quiet"]) as screen:
        found = induce(settings, out, screen)
    failed = unanswered_lines(found.outcomes)
    text = "\n".join([f"{len(found.candidates)} rubrics in {out}", *(f"warning: {line}" for line in failed)])
    record = {"rubrics": len(found.candidates), "outcomes": found.outcomes}
    click.echo(orjson.dumps(record) if flags["as_json"] else text)
    require_answers(found.outcomes, settings.min_coverage, settings.out / "failures.jsonl")
    return 0


def run_judge(flags: Mapping[str, Any]) -> int:
    """Judge pools of a bank's or file's rubrics and write the feature store."""
    rubrics = load_rubrics(flags["bank"], flags["candidates"])
    if flags["dry_run"]:
        return _price_judging(flags, rubrics)
    out, settings = Path(flags["out"]), stage_settings(flags)
    with TrainScreen(quiet=flags["quiet"]) as screen:
        found = judge(settings, rubrics, out, screen)
    asked = asked_block(found.stats, found.price)
    text = f"{found.entries:,} judged entries on {len(rubrics)} rubrics in {out}"
    text += f"\ncalls: {calls_in_words(asked)}" if asked else ""
    text += "".join(f"\nwarning: {line}" for line in unanswered_lines(found.outcomes))
    record = {"entries": found.entries, "rubrics": len(rubrics), "outcomes": found.outcomes, **asked}
    click.echo(orjson.dumps(record) if flags["as_json"] else text)
    failures = settings.out / "failures.jsonl"
    require_answers(found.outcomes, settings.min_coverage, failures, before=f"remove {out}, then ")
    return 0


class _CallCount(Silent):
    """Counts what a judge would send; `found` is None for one that sends nothing."""

    def __init__(self, prefix: PrefixOrder) -> None:
        self._prefix = prefix
        self.found: DryRunCount | None = None

    def opened(self, judge: OpenJudge) -> None:
        """Count from now on."""
        self.found = None if judge.engine is None else DryRunCount(judge.engine, self._prefix)


def _price_judging(flags: Mapping[str, Any], rubrics: Sequence[Candidate]) -> int:
    """Count what judging would send and what a prefix cache would save."""
    settings = stage_settings(flags)
    counted = _CallCount(PrefixOrder(settings.prefix))
    count_calls(settings, rubrics, counted)
    if counted.found is None:
        click.echo("0 calls: this judge sends nothing")
        return 0
    count = counted.found.price()
    click.echo(orjson.dumps(count, option=orjson.OPT_INDENT_2) if flags["as_json"] else describe_count(count))
    return 0
