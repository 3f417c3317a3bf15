"""The stages of a training by themselves: induction to a file of candidates, judging to a feature store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from svr_async.core.files import write_atomic
from svr_async.engine.money import Price
from svr_async.engine.stats import EngineStats
from svr_async.errors import DegenerateFitError, UsageError
from svr_async.scoring.bank import RubricBank
from svr_async.training.bank.merge import Candidate, candidate_of, merge
from svr_async.training.rounds.algorithm import NO_RUBRIC
from svr_async.training.rounds.induction import counted, grouped, induced
from svr_async.training.rounds.pools import judge_pools
from svr_async.training.rounds.session import Session
from svr_async.training.rounds.stages import Outcomes, StageEndsError, unanswered_lines
from svr_async.training.running.run import TrainingListener, TrainingRun, run_stage
from svr_async.training.running.settings import TrainSettings
from svr_async.training.store.files import (
    Header,
    judged_store,
    read_rubrics,
    rubric_lines,
    store_exists,
    write_store,
)


def stages_beside(out: Path) -> Path:
    """Return the folder for the stage of a command that writes to `out`, from which a stopped one resumes."""
    return out.with_name(f"{out.name}.stages")


@dataclass(frozen=True, slots=True, kw_only=True)
class Induced:
    """Candidates, near-identical ones merged, the most observed first, and the outcomes of the questions."""

    candidates: tuple[Candidate, ...]
    outcomes: Outcomes


def induce(settings: TrainSettings, file: Path, listener: TrainingListener | None = None) -> Induced:
    """Induce rubrics from the training pairs and write them as JSON Lines; DegenerateFitError if there is none.

    The stage is kept in `settings.out`.
    """
    candidates, outcomes = run_stage(settings, lambda run: ask_for_candidates(run.session), listener)
    if not candidates:
        why = "".join(f"; {line}" for line in unanswered_lines(outcomes))
        raise DegenerateFitError(f"no rubric was induced from {settings.pairs}{why}", hint=NO_RUBRIC)
    write_atomic(file, rubric_lines(candidates))
    return Induced(candidates=candidates, outcomes=outcomes)


async def ask_for_candidates(session: Session) -> tuple[Candidate, ...]:
    """Induce rubrics from the training pairs of a session, merge near-identical ones, and group the criteria."""
    merged = merge(await induced(session, "induce", session.material.train, {}))
    return (await grouped(session, "criteria", merged, {}))[0]


def load_rubrics(bank: Path | None, candidates: Path | None) -> Sequence[Candidate]:
    """Return the rubrics of a bank or of a file of candidates; UsageError unless one of them is named."""
    if (bank is None) == (candidates is None):
        raise UsageError("svr stages judge needs rubrics", hint="give one of --bank DIR and --candidates FILE")
    if bank is not None:
        return [candidate_of(entry) for entry in RubricBank.load(bank).rubrics if not entry.disabled]
    assert candidates is not None
    return counted([line.candidate for line in read_rubrics(candidates)])


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedEntries:
    """How many entries a store got, the outcomes of the questions, and what this process asked of an endpoint."""

    entries: int
    outcomes: Outcomes
    stats: EngineStats | None
    price: Price | None


def judge(
    settings: TrainSettings, rubrics: Sequence[Candidate], store: Path, listener: TrainingListener | None = None
) -> JudgedEntries:
    """Judge pools of the rubrics on the pairs and write the feature store; the stage is kept in `settings.out`.

    UsageError if the folder holds anything but this very store.
    """
    occupied = store.exists()

    async def work(run: TrainingRun) -> JudgedEntries:
        session = run.session
        session.judges = replace(session.judges, may_begin=lambda: not occupied)
        try:
            await ask_for_entries(session, rubrics)
        except StageEndsError as error:  # questions are left, so the store that exists is of another command
            raise store_exists(store) from error
        header = Header(judge=run.judge.label, prompts_digest=run.prompts_digest, terms=settings.terms)
        judged = judged_store(session, rubrics, header)
        write_store(store, judged)
        return JudgedEntries(
            entries=judged.arrays.n_entries,
            outcomes=session.stages.outcomes,
            stats=run.stats,
            price=run.price,
        )

    return run_stage(settings, work, listener)[0]


async def ask_for_entries(session: Session, rubrics: Sequence[Candidate]) -> None:
    """Judge the pools of all pairs of a session."""
    bank = session.indexed(rubrics)
    if held_out := bank.sources.held_out:
        among = len({place for places in held_out.values() for place in places})
        session.say(
            f"{among:,} of {len(rubrics):,} rubrics came from prompts that are held out here, as with another --seed "
            f"or --limit: none is judged on a held-out prompt that it came from"
        )
    await judge_pools(session, "judge", 1, bank)
