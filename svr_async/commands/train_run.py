"""Runs training, its stages and fits: flags to settings, progress while it runs, results to the terminal."""

from __future__ import annotations

import functools
import shlex
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import click

from svr_async.commands.options import known_of, with_limits
from svr_async.commands.progress import ProgressBar
from svr_async.commands.screen import print_json, show, spinner, tell
from svr_async.core.table import Line, Part
from svr_async.engine.shutdown import ShutdownController, draining
from svr_async.evaluation.metrics import engine_block
from svr_async.evaluation.wording import dollars, duration, percent, plural
from svr_async.fit.history import EpochRecord, FitCurve
from svr_async.judges.open_judge import JudgeSpec, OpenJudge
from svr_async.observability.tracking import hand_over, training_facts
from svr_async.reports.bank_summary import summarise_bank
from svr_async.reports.facts import cost_facts
from svr_async.reports.files import write_bank
from svr_async.reports.text import describe_count, in_one_line
from svr_async.scoring.bank import RubricBank
from svr_async.scoring.bank_card import accuracy_in_words, enough
from svr_async.training.refit import FitSettings, fit_store, sweep_lines
from svr_async.training.rounds.dry_run import ASSUMED, ASSUMPTIONS, count_rounds
from svr_async.training.rounds.stages import ShardEndsError, require_answers, unanswered_lines
from svr_async.training.settings import TrainingListener, TrainSettings
from svr_async.training.train import (
    TrainResult,
    Used,
    Work,
    ask_for_candidates,
    ask_for_entries,
    count_training,
    induce,
    judge,
    load_rubrics,
    train,
)

Run = Callable[[Mapping[str, Any]], int]


class TrainScreen(ProgressBar, TrainingListener):
    """Shows the log and the current stage of a training or a fit."""

    def __init__(self, *, quiet: bool = False) -> None:
        super().__init__(quiet=quiet)
        self._begun = time.monotonic()
        self._fit = ""

    def opened(self, judge: OpenJudge) -> None:
        """Show the engine's status, and count the seconds from now."""
        self.stats = judge.engine.stats if judge.engine else None
        self._begun = time.monotonic()

    def listening(self, shutdown: ShutdownController) -> AbstractContextManager[None]:
        """Drain on signals while calls are made."""
        return draining(shutdown, self.say)

    def say(self, text: str) -> None:
        """Print a line, with the seconds since the start."""
        self.note(f"{time.monotonic() - self._begun:7.1f} s  {text}")

    def begin(self, curve: FitCurve) -> None:
        """Show a fit as work of unknown length."""
        self._fit = f"fitting round {curve.round}" if curve.round else f"fitting with seed {curve.seed}"
        self.working(self._fit)

    def epoch(self, record: EpochRecord) -> None:
        """Show the epoch of the fit."""
        self.working(f"{self._fit}, epoch {record.epoch}")

    def end(self, curve: FitCurve) -> None:
        """Hide the fit."""
        del curve
        self.working("")


def sharing(run: Run) -> Run:
    """Wrap a command: after this machine's shard of a stage it prints a line and exits with 0."""

    @functools.wraps(run)
    def called(flags: Mapping[str, Any]) -> int:
        try:
            return run(flags)
        except ShardEndsError as end:
            tell({"shard": str(end)}, str(end), as_json=flags["as_json"], line=True)
            return 0

    return called


def train_settings(flags: Mapping[str, Any]) -> TrainSettings:
    """Return the settings of `svr train`."""
    return TrainSettings(**known_of(TrainSettings, with_limits({**flags, "dry_run": False})))


def stage_settings(flags: Mapping[str, Any]) -> TrainSettings:
    """Return the settings of one stage: a training of one round, with its folder next to --out."""
    whole, out = train_settings(flags), Path(flags["out"])
    return replace(whole, out=out.with_name(f"{out.name}.stages"), rounds=1)


@sharing
def run_train(flags: Mapping[str, Any]) -> int:
    """Train and return the exit code; SvrError for what stops the run."""
    begun, settings = time.monotonic(), train_settings(flags)
    if flags["dry_run"]:
        return print_count(flags, settings, count_rounds)
    with TrainScreen(quiet=flags["quiet"]) as screen:
        if not flags["quiet"] and JudgeSpec.parse(settings.judge, base_url=settings.base_url).profile is not None:
            screen.working("planning calls")
            screen.note(f"plan: {_estimate(settings)}")
        result = train(settings, screen)
    write_bank(result.folder / "bank", result.folder / "report.html")
    asked, written = (asked_block(result.used, name) for name in ("judge", "author"))
    if flags["as_json"]:
        author = {"author": written} if written else {}
        print_json({**result.record, "bank_digest": result.bank.digest, **asked, **author})
    else:
        show(_training_parts(result, time.monotonic() - begun, {"calls": asked, "author": written}))
    summary = {**result.record, **asked}
    facts = partial(training_facts, "train", settings.out, known_of(TrainSettings, flags), summary)
    hand_over(flags["track"], facts, partial(click.echo, err=True))
    require_answers(result.record["outcomes"], settings.min_coverage, settings.out / "failures.jsonl")
    return 0


def _estimate(settings: TrainSettings) -> str:
    """Estimate calls, dollars and minutes of a training from a dry run."""
    count = count_training(settings, count_rounds)
    assert count is not None
    cost = "" if count["usd"] is None else f", about {dollars(count['usd'])}"
    return (
        f"{plural(settings.rounds, 'round')}, about {count['calls']:,} calls{cost}, about {duration(count['seconds'])}"
    )


@sharing
def run_induce(flags: Mapping[str, Any]) -> int:
    """Induce, merge, write JSON Lines of candidates, the most observed first."""
    out, settings = Path(flags["out"]), stage_settings(flags)
    if flags["dry_run"]:
        return print_count(flags, settings, ask_for_candidates)
    with TrainScreen(quiet=flags["quiet"]) as screen:
        candidates, outcomes = induce(settings, out, screen)
    failed = unanswered_lines(outcomes)
    text = "\n".join([f"{len(candidates)} rubrics in {out}", *(f"warning: {line}" for line in failed)])
    record = {"rubrics": len(candidates), "outcomes": outcomes}
    tell(record, text, as_json=flags["as_json"], line=True)
    require_answers(outcomes, settings.min_coverage, settings.out / "failures.jsonl")
    return 0


@sharing
def run_judge(flags: Mapping[str, Any]) -> int:
    """Judge pools of a bank's or file's rubrics and write the feature store."""
    rubrics = load_rubrics(flags["bank"], flags["candidates"])
    out, settings = Path(flags["out"]), stage_settings(flags)
    if flags["dry_run"]:
        return print_count(flags, settings, partial(ask_for_entries, rubrics=rubrics))
    with TrainScreen(quiet=flags["quiet"]) as screen:
        store, outcomes, used = judge(settings, rubrics, out, screen)
    asked, entries = asked_block(used, "judge"), store.arrays.n_entries
    text = f"{entries:,} judgements of pairs on {len(rubrics)} rubrics in {out}"
    text += f"\ncalls: {in_one_line(cost_facts(asked))}" if asked else ""
    text += "".join(f"\nwarning: {line}" for line in unanswered_lines(outcomes))
    record = {"entries": entries, "rubrics": len(rubrics), "outcomes": outcomes, **asked}
    tell(record, text, as_json=flags["as_json"], line=True)
    failures = settings.out / "failures.jsonl"
    require_answers(outcomes, settings.min_coverage, failures, before=f"remove {out}, then ")
    return 0


def run_fit(flags: Mapping[str, Any]) -> int:
    """Fit and return the exit code; SvrError for a store that fails its checks, or has nothing to learn from."""
    settings = FitSettings(**known_of(FitSettings, flags))
    with TrainScreen(quiet=flags["quiet"] or flags["as_json"]) as screen:
        bank, record = fit_store(settings, screen)
    write_bank(settings.out / "bank", settings.out / "report.html")
    if flags["as_json"]:
        print_json(record)
    else:
        show(Line(line) for line in sweep_lines(record.get("sweep", ())))
        show(_fit_parts(bank, record, settings.out))
    facts = partial(training_facts, "fit", settings.out, known_of(FitSettings, flags), record)
    hand_over(flags["track"], facts, partial(click.echo, err=True))
    return 0


def print_count(flags: Mapping[str, Any], settings: TrainSettings, work: Work) -> int:
    """Print the planned calls of some work, as JSON or text; return the exit code."""
    with spinner("counting calls"):
        count = count_training(settings, work)
    text = describe_count(count)
    if count is not None and work is count_rounds:
        count, text = count | {"assumed": ASSUMED}, f"{text}\n  {ASSUMPTIONS}"
    tell(count, text, as_json=flags["as_json"] and count is not None)
    return 0


def _training_parts(result: TrainResult, wall_s: float, calls: Mapping[str, Any]) -> Iterator[Part]:
    """Yield a table of the rounds, where the bank is, and what to do next."""
    record, out = result.record, result.folder
    known = enough(record["dev_pairs"])

    yield Line(f"bank trained on {plural(record['train_pairs'], 'pair')} · {record['judge']}")
    yield from summarise_bank(result.bank).tables[:1]
    if not known:
        yield Line(record["headline"].removeprefix("accuracy "), label="accuracy")
    yield Line(_use(record), label="for use")
    if record["contaminated"]:
        yield Line(f"{len(record['contaminated'])} pairs that overlap with a benchmark", label="left out")
    yield from (Line(line, label="warning", loud=True) for line in unanswered_lines(record["outcomes"]))
    if record["better"]:
        yield Line(record["better"], label="warning", wrapped=True, loud=True)
    yield from _more_pairs(result.bank)
    yield from _places(out, f"  ({result.bank.digest[:12]}), {wall_s:.0f} s")
    yield from (
        Line(in_one_line(cost_facts(block)), label=name, wrapped=True) for name, block in calls.items() if block
    )
    yield Line(f"svr eval OTHER_PAIRS --judge … --bank {shlex.quote(str(out / 'bank'))}", label="next")


def _more_pairs(bank: RubricBank) -> Iterator[Part]:
    if bank.history is not None and bank.history.learning_curve is not None:
        yield Line(bank.history.learning_curve.in_words(), label="more pairs", wrapped=True)


def _places(out: Path, more: str = "") -> Iterator[Part]:
    yield Line(f"{out / 'bank'}{more}", label="bank")
    yield Line(f"{out / 'report.html'}", label="report")


def _use(record: Mapping[str, Any]) -> str:
    """Describe how many rubrics a prompt gets, and how free places are filled."""
    row = next(row for row in record["rounds"] if row["round"] == record["dev"]["round"])
    most = min(row["top_k"], row["kept"])
    of = f"all {most:,} rubrics" if most == row["kept"] else f"the best {most:,} of {plural(row['kept'], 'rubric')}"
    filler = f"; places left free go to others, which weigh {row['filler_weight']:g}" if row["filler_weight"] else ""
    return f"{of} of round {row['round']} for a prompt{filler}"


def _fit_parts(bank: RubricBank, record: Mapping[str, Any], out: Path) -> Iterator[Part]:
    """Yield the result of a fit and the place of its bank."""
    taken = f"epoch {record['best_epoch']}" if record["best_epoch"] else "the start, before any epoch"
    measured, known = record["dev_accuracy"], enough(record["dev_pairs"])
    accuracy = "no held-out pair was judged" if measured is None else accuracy_in_words(measured, record["dev_pairs"])
    yield Line(f"{accuracy} ({taken}, {record['device']})")
    yield Line(f"{record['rubrics']} kept, up to {record['top_k']} for a prompt", label="rubrics")
    if known and record["linear_accuracy"] is not None:
        vote, linear = percent(record["vote_accuracy"]), percent(record["linear_accuracy"])
        yield Line(f"unweighted vote {vote}; one weight a rubric for all prompts {linear}", label="baselines")
    yield from _more_pairs(bank)
    yield from (Line(warning, label="warning", loud=True) for warning in record["warnings"])
    yield from _places(out)


def asked_block(used: Used, name: str) -> dict[str, Any]:
    """Return the calls, tokens and dollars of this process for the judge or the author; {} if it sends nothing."""
    return engine_block(*used[name]) if name in used else {}
