"""The work behind `svr induce` and `svr judge`."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import orjson

from svr_async.adapters import get_adapter, refuse_benchmark_for_training
from svr_async.commands.terminal import calls_in_words
from svr_async.commands.train.run import (
    TrainFlags,
    asked_block,
    key_variables,
    open_judge,
    open_session,
    plan_of,
    prompts_digest_of,
    require_answers,
    screen_of,
    train_config,
    training_pairs,
)
from svr_async.engine.loops import loop_factory
from svr_async.errors import ArtefactError, ConfigError, DegenerateFitError, UsageError
from svr_async.evaluation.running.pricing import DryRunCount, describe_plan
from svr_async.judges.keys import naming_keys
from svr_async.judges.limits import JudgeLimits
from svr_async.judges.opening import OpenJudge
from svr_async.scoring.bank import RubricBank
from svr_async.training.answers import Outcomes, unanswered_lines
from svr_async.training.asking import RUBRICS_PER_CALL, StageEndsError
from svr_async.training.build import bank_rubric, candidate_of
from svr_async.training.inducing import counted, induced
from svr_async.training.judging import judge_pools, sources_of
from svr_async.training.merge import Candidate, merge
from svr_async.training.rounds import NO_RUBRIC
from svr_async.training.session import Growth, Session
from svr_async.training.state import candidate_from_json, candidate_to_json
from svr_async.training.storing import store_exists, write_store
from svr_async.vocabulary.atomic import write_atomic

INDUCED = "svr induce writes such a file"


def run_induce(flags: Mapping[str, Any]) -> int:
    """Induce, merge, write JSON Lines of candidates, the most observed first."""
    out = Path(flags["out"])
    settings = train_flags(flags, stages=out.with_name(f"{out.name}.stages"), descriptive=flags["descriptive"])
    candidates, outcomes = _run(settings, _induce)
    failed = unanswered_lines(outcomes)
    if not candidates:
        why = "".join(f"; {line}" for line in failed)
        raise DegenerateFitError(f"no rubric was induced from {settings.pairs}{why}", hint=NO_RUBRIC)
    lines = (orjson.dumps(candidate_to_json(c), option=orjson.OPT_APPEND_NEWLINE) for c in candidates)
    write_atomic(out, b"".join(lines))
    text = "\n".join([f"{len(candidates)} rubrics in {out}", *(f"warning: {line}" for line in failed)])
    record = {"rubrics": len(candidates), "outcomes": outcomes}
    click.echo(orjson.dumps(record) if flags["as_json"] else text)
    require_answers(outcomes, settings.min_coverage, settings.out / "failures.jsonl")
    return 0


def run_judge(flags: Mapping[str, Any]) -> int:
    """Judge pools of a bank's or file's rubrics and write the feature store."""
    bank = load_rubrics(flags["bank"], flags["candidates"])
    if flags["dry_run"]:
        return _price_judging(flags, bank)
    out = Path(flags["out"])
    settings = train_flags(flags, stages=out.with_name(f"{out.name}.stages"))
    occupied = out.exists()
    asked: dict[str, Any] = {}

    async def work(session: Session, judge: OpenJudge) -> int:
        session.crew = replace(session.crew, may_begin=lambda: not occupied)
        try:
            index = await _judge_all(session, bank)
        except StageEndsError as error:  # the store there is of another command: this one would have asked nothing
            raise store_exists(out) from error
        digest = prompts_digest_of(judge)
        write_store(session, out, bank, prompts_digest=digest, judge=judge.label, plan=plan_of(settings))
        asked.update(asked_block(judge))
        return sum(len(session.ledger.entries(pair.id, index)[0]) for pair in session.material.pairs)

    entries, outcomes = _run(settings, work)
    text = f"{entries:,} judged entries on {len(bank)} rubrics in {out}"
    text += f"\ncalls: {calls_in_words(asked)}" if asked else ""
    text += "".join(f"\nwarning: {line}" for line in unanswered_lines(outcomes))
    record = {"entries": entries, "rubrics": len(bank), "outcomes": outcomes, **asked}
    click.echo(orjson.dumps(record) if flags["as_json"] else text)
    failures = settings.out / "failures.jsonl"
    require_answers(outcomes, settings.min_coverage, failures, before=f"remove {out}, then ")
    return 0


def _price_judging(flags: Mapping[str, Any], bank: Sequence[Candidate]) -> int:
    """Count what judging would send and what a prefix cache would save; its stages are thrown away."""

    async def work(session: Session, judge: OpenJudge) -> Mapping[str, Any] | None:
        planned = DryRunCount(judge.engine, session.crew.prefix) if judge.engine is not None else None
        await _judge_all(session, bank)
        return None if planned is None else planned.price()

    with tempfile.TemporaryDirectory() as nowhere:
        settings = train_flags(flags, stages=Path(nowhere))
        plan, _ = _run(replace(settings, limits=replace(settings.limits, dry_run=True), quiet=True), work)
    if plan is None:
        click.echo("0 calls: this judge sends nothing")
    else:
        click.echo(orjson.dumps(plan, option=orjson.OPT_INDENT_2) if flags["as_json"] else describe_plan(plan))
    return 0


async def _judge_all(session: Session, bank: Sequence[Candidate]) -> dict[str, int]:
    """Judge the pools of all pairs; return the places of the rubrics by their ids."""
    index = {candidate.rubric.id: place for place, candidate in enumerate(bank)}
    sources = sources_of(session, bank)
    if sources.held_out:
        among = len({place for places in sources.held_out.values() for place in places})
        session.say(
            f"{among:,} of {len(bank):,} rubrics came from prompts that are held out here, as with another --seed or "
            f"--limit: none is judged on a held-out prompt that it came from"
        )
    await judge_pools(session, "judge", 1, bank, index, sources, Growth(candidates=tuple(bank)), ())
    return index


async def _induce(session: Session, _: OpenJudge) -> tuple[Candidate, ...]:
    return merge(await induced(session, "induce", session.material.train, {}))


def _run(settings: TrainFlags, work: Any) -> tuple[Any, Outcomes]:
    """Return what the work returns, and what became of its questions."""
    refuse_benchmark_for_training(settings.pairs)
    refuse_benchmark_for_training(settings.adapter)
    dataset = get_adapter(settings.adapter).load(settings.pairs, lenient=settings.lenient)
    pairs = training_pairs(dataset, settings)
    config = train_config(settings)

    async def main() -> tuple[Any, Outcomes]:
        judge = open_judge(settings)
        try:
            with screen_of(settings, judge) as screen, naming_keys(key_variables(judge)):
                session = open_session(settings, config, dataset, pairs, judge, screen=screen)
                return await work(session, judge), session.stages.outcomes
        finally:
            await judge.close()

    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(main())


def train_flags(flags: Mapping[str, Any], *, stages: Path, descriptive: bool = False) -> TrainFlags:
    """Return the flags of a stage as those of a training that keeps its stages in `stages`."""
    same = ("adapter", "judge", "base_url", "limit", "seed", "min_coverage")
    return TrainFlags(
        **{name: flags[name] for name in same},
        limits=replace(JudgeLimits.from_flags(flags), dry_run=False),
        pairs=flags["pairs"],
        out=stages,
        rounds=1,
        preset="default",
        pool=flags.get("pool"),
        pool_size=flags.get("pool_size"),
        prefix=flags.get("prefix", "leader"),
        rubrics_per_call=flags.get("rubrics_per_call", RUBRICS_PER_CALL),
        top_k=None,
        ablate=("induction",) if descriptive else (),
        decontaminate=(),
        licence="",
        quiet=flags["quiet"],
        lenient=flags["lenient"],
        as_json=flags["as_json"],
    )


def load_rubrics(bank: Path | None, candidates: Path | None) -> Sequence[Candidate]:
    """Return the rubrics of a bank or of a file of candidates; UsageError unless one of them is named."""
    if (bank is None) == (candidates is None):
        raise UsageError("svr judge needs rubrics", hint="give one of --bank DIR and --candidates FILE")
    if bank is not None:
        return [candidate_of(entry) for entry in RubricBank.load(bank).rubrics]
    assert candidates is not None
    try:
        lines = candidates.read_bytes().splitlines()
    except OSError as error:
        raise ConfigError(f"cannot read {candidates}: {error.strerror}", hint=INDUCED) from error
    found = [_candidate(line, f"{candidates} line {number}") for number, line in enumerate(lines, 1) if line.strip()]
    if not found:
        raise UsageError(f"{candidates} holds 0 rubrics", hint=INDUCED)
    return counted(found)


def _candidate(line: bytes, where: str) -> Candidate:
    """Read a line; ArtefactError, naming it, where it is no candidate or one that no bank can hold."""
    try:
        found = candidate_from_json(orjson.loads(line))
        bank_rubric(found)
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError, AttributeError) as error:
        why = f"the field {error} is missing" if isinstance(error, KeyError) else str(error)
        raise ArtefactError(
            f"{where} is not a candidate: {why}", hint="write the file again with svr induce"
        ) from error
    return found
