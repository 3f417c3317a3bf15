"""Runs training, its stages and fits: flags to settings, results to the terminal."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import click

from svr_async.commands.options import known_of, with_limits
from svr_async.commands.screen import print_json, styled_console, tell
from svr_async.commands.train_screen import FitScreen, TrainScreen, sharing
from svr_async.engine.money import Price
from svr_async.engine.stats import EngineStats
from svr_async.evaluation.metrics import engine_block
from svr_async.evaluation.wording import UNKNOWN, plural
from svr_async.fit.learning_curve import LearningCurve
from svr_async.reports.files import write_bank
from svr_async.reports.text import calls_in_words, describe_count
from svr_async.reproduction.training_count import Work, count_training
from svr_async.scoring.dev_pairs import accuracy_in_words, enough
from svr_async.tracking.facts import of_training
from svr_async.tracking.hand_over import hand_over
from svr_async.training.rounds.dry_run import ASSUMED, Assumed, count_rounds
from svr_async.training.rounds.stages import require_answers, unanswered_lines
from svr_async.training.running.refit import FitSettings, fit_store, sweep_lines, sweep_store
from svr_async.training.running.settings import TrainSettings
from svr_async.training.running.single_stages import (
    ask_for_candidates,
    ask_for_entries,
    induce,
    judge,
    load_rubrics,
    stages_beside,
)
from svr_async.training.running.train import TrainResult, train


def train_settings(flags: Mapping[str, Any]) -> TrainSettings:
    """Return what `svr train` is to do."""
    return TrainSettings(**known_of(TrainSettings, with_limits({**flags, "dry_run": False})))


def stage_settings(flags: Mapping[str, Any]) -> TrainSettings:
    """Return the settings of one stage: a training of one round, with its folder next to --out."""
    whole = train_settings(flags)
    ablate = ("induction",) if flags.get("descriptive") else ()
    return replace(whole, out=stages_beside(Path(flags["out"])), rounds=1, ablate=ablate)


@sharing
def run_train(flags: Mapping[str, Any]) -> int:
    """Train and return the exit code; SvrError for what stops the run."""
    begun, settings = time.monotonic(), train_settings(flags)
    if flags["dry_run"]:
        return print_count(flags, settings, count_rounds, ASSUMED)
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


def run_fit(flags: Mapping[str, Any]) -> int:
    """Fit and return the exit code; SvrError for a store that fails its checks, or has nothing to learn from."""
    settings = FitSettings(**known_of(FitSettings, flags))
    with FitScreen(quiet=flags["quiet"], epochs=not flags["as_json"]) as screen:
        if flags["sweep"]:
            found = sweep_store(settings, flags["sweep"], listener=screen)
        else:
            found = fit_store(settings, screen)
    write_bank(settings.out / "bank", settings.out / "report.html")
    if flags["as_json"]:
        print_json(found.record)
    else:
        click.echo("".join(f"{line}\n" for line in sweep_lines(found.record.get("sweep"))), nl=False)
        print_fit(found.record, settings.out)
        print_learning(found.learned)
    facts = partial(of_training, "fit", settings.out, known_of(FitSettings, flags), found.record)
    hand_over(flags["track"], facts, partial(click.echo, err=True))
    return 0


def print_count(flags: Mapping[str, Any], settings: TrainSettings, work: Work, assumed: Assumed | None = None) -> int:
    """Print what a work would ask, as JSON or in words; return the exit code."""
    count = count_training(settings, work, assumed)
    if count is None:
        click.echo("0 calls: this judge sends nothing")
    else:
        told = "\n".join([describe_count(count), *([] if assumed is None else [f"  {assumed.in_words()}"])])
        tell(count, told, as_json=flags["as_json"])
    return 0


def print_rounds(record: Mapping[str, Any], out: Path, digest: str, wall_s: float) -> None:
    """Print a table of the rounds and where the bank is."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="dim")
    names = ("round", "bank", "kept", "support", "hard_negatives", "judged_entries", "dev_accuracy")
    for name in names:
        table.add_column(name.replace("_", " "), justify="right")
    told = enough(record["dev_pairs"])
    for row in record["rounds"]:
        mark = "bold" if row["round"] == record["dev"]["round"] else ""
        table.add_row(*(_cell(name, row[name], told=told) for name in names), style=mark)
    console = styled_console()
    console.print(f"[bold]bank trained[/] on {plural(record['train_pairs'], 'pair')} · {record['judge']}")
    console.print(table)
    if not told:
        console.print(f"[dim]accuracy[/]  {record['headline']}", soft_wrap=True)
    console.print(f"[dim]for use[/]   {_use(record)}", soft_wrap=True)
    if record["contaminated"]:
        console.print(f"[dim]left out[/]  {len(record['contaminated'])} pairs that overlap with a benchmark")
    for line in unanswered_lines(record["outcomes"]):
        console.print(f"[yellow]warning[/]   {line}", soft_wrap=True)
    if record["better"]:
        console.print(f"[yellow]warning[/]   {record['better']}", soft_wrap=True)
    console.print(f"[dim]bank[/]      {out / 'bank'}  ({digest[:12]}), {wall_s:.0f} s", soft_wrap=True)
    console.print(f"[dim]report[/]    {out / 'report.html'}", soft_wrap=True)


def _cell(name: str, value: float, *, told: bool) -> str:
    if name != "dev_accuracy":
        return f"{value:,}"
    return f"{100 * value:.1f} %" if told else UNKNOWN


def _use(record: Mapping[str, Any]) -> str:
    """Say how the bank will be used: how many rubrics a prompt gets, and what fills the places that are left free."""
    row = next(row for row in record["rounds"] if row["round"] == record["dev"]["round"])
    most = min(row["top_k"], row["kept"])
    of = f"all {most:,} rubrics" if most == row["kept"] else f"the best {most:,} of {plural(row['kept'], 'rubric')}"
    filler = f"; places left free go to others, which weigh {row['filler_weight']:g}" if row["filler_weight"] else ""
    return f"{of} of round {row['round']} for a prompt{filler}"


def print_fit(record: Mapping[str, Any], out: Path) -> None:
    """Print how a fit of a store went and where its bank is."""
    taken = f"epoch {record['best_epoch']}" if record["best_epoch"] else "the start, before any epoch"
    measured = record["dev_accuracy"]
    accuracy = "no dev pair was judged" if measured is None else accuracy_in_words(measured, record["dev_pairs"])
    click.echo(f"{accuracy} ({taken}, {record['device']})")
    click.echo(f"rubrics    {record['rubrics']} kept, up to {record['top_k']} for a prompt")
    told = enough(record["dev_pairs"])
    if told and record["seeds"] > 1:
        mean, deviation = 100 * record["dev_accuracy_mean"], 100 * record["dev_accuracy_sd"]
        click.echo(f"over {record['seeds']} seeds {mean:.1f} % ± {deviation:.1f}")
    if told and record["linear_accuracy"] is not None:
        click.echo(f"beside it  unweighted vote {100 * record['vote_accuracy']:.1f} %")
        click.echo(f"           one weight per rubric for all prompts {100 * record['linear_accuracy']:.1f} %")
    for warning in record["warnings"]:
        click.echo(f"warning    {warning}")
    click.echo(f"bank       {out / 'bank'}")
    click.echo(f"report     {out / 'report.html'}")


def print_learning(curve: LearningCurve | None) -> None:
    """Print the curve as a table with a sentence; nothing where there is none."""
    from rich.table import Table

    if curve is None:
        return
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("pairs", "share", "accuracy", "95 % interval", "draws"):
        table.add_column(name, justify="right")
    for point in curve.points:
        interval = f"{100 * point.low:.1f} to {100 * point.high:.1f}"
        share, accuracy = f"{100 * point.share:g} %", f"{100 * point.accuracy:.1f} %"
        table.add_row(f"{point.pairs:,}", share, accuracy, interval, str(point.draws))
    console = styled_console()
    console.print(f"\n[bold]learning curve[/] on {curve.held_out:,} pairs, each left out of the fits that decide it")
    console.print(table)
    console.print(curve.in_words(), soft_wrap=True, markup=False)


def asked_block(stats: EngineStats | None, price: Price | None) -> dict[str, Any]:
    """Return the calls, tokens and dollars of this process; nothing for a judge that sends nothing."""
    return {} if stats is None else engine_block(stats, price)
