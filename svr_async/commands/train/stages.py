"""`svr induce` and `svr judge`: flags to settings, the result to the screen."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from svr_async.commands.screen import tell
from svr_async.commands.train.dry_run import print_count
from svr_async.commands.train.screen import TrainScreen, sharing
from svr_async.commands.train.table import asked_block
from svr_async.commands.train_settings import stage_settings
from svr_async.reports.text import calls_in_words
from svr_async.training.rounds.answers import require_answers, unanswered_lines
from svr_async.training.running.candidates import ask_for_candidates, induce, load_rubrics
from svr_async.training.running.entries import ask_for_entries, judge


@sharing
def run_induce(flags: Mapping[str, Any]) -> int:
    """Induce, merge, write JSON Lines of candidates, the most observed first."""
    out, settings = Path(flags["out"]), stage_settings(flags)
    if flags["dry_run"]:
        return print_count(flags, settings, ask_for_candidates)
    with TrainScreen(quiet=flags["quiet"]) as screen:
        found = induce(settings, out, screen)
    failed = unanswered_lines(found.outcomes)
    text = "\n".join([f"{len(found.candidates)} rubrics in {out}", *(f"warning: {line}" for line in failed)])
    record = {"rubrics": len(found.candidates), "outcomes": found.outcomes}
    tell(record, text, as_json=flags["as_json"], line=True)
    require_answers(found.outcomes, settings.min_coverage, settings.out / "failures.jsonl")
    return 0


@sharing
def run_judge(flags: Mapping[str, Any]) -> int:
    """Judge pools of a bank's or file's rubrics and write the feature store."""
    rubrics = load_rubrics(flags["bank"], flags["candidates"])
    if flags["dry_run"]:
        return print_count(flags, stage_settings(flags), partial(ask_for_entries, rubrics=rubrics))
    out, settings = Path(flags["out"]), stage_settings(flags)
    with TrainScreen(quiet=flags["quiet"]) as screen:
        found = judge(settings, rubrics, out, screen)
    asked = asked_block(found.stats, found.price)
    text = f"{found.entries:,} judged entries on {len(rubrics)} rubrics in {out}"
    text += f"\ncalls: {calls_in_words(asked)}" if asked else ""
    text += "".join(f"\nwarning: {line}" for line in unanswered_lines(found.outcomes))
    record = {"entries": found.entries, "rubrics": len(rubrics), "outcomes": found.outcomes, **asked}
    tell(record, text, as_json=flags["as_json"], line=True)
    failures = settings.out / "failures.jsonl"
    require_answers(found.outcomes, settings.min_coverage, failures, before=f"remove {out}, then ")
    return 0
