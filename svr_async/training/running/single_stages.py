"""The first stage by itself, induction, and the file of candidate rubrics that it gives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import orjson

from svr_async.core.files import read_plain, write_atomic
from svr_async.engine.money import Price
from svr_async.engine.stats import EngineStats
from svr_async.errors import ArtefactError, ConfigError, DegenerateFitError, UsageError
from svr_async.scoring.bank import RubricBank
from svr_async.training.bank.build import bank_rubric, candidate_of
from svr_async.training.bank.merge import Candidate, merge
from svr_async.training.rounds.algorithm import NO_RUBRIC
from svr_async.training.rounds.induction import counted, induced
from svr_async.training.rounds.judge_calls import StageEndsError
from svr_async.training.rounds.pools import judge_pools, sources_of
from svr_async.training.rounds.session import Growth, Session
from svr_async.training.rounds.stages import Outcomes, candidate_from_json, candidate_to_json, unanswered_lines
from svr_async.training.running.run import Listener, TrainingRun, run_stage
from svr_async.training.running.settings import TrainSettings
from svr_async.training.store.session_store import store_exists, write_session_store

INDUCED = "svr stages induce writes such a file"


@dataclass(frozen=True, slots=True, kw_only=True)
class Induced:
    """Candidates, near-identical ones merged, the most observed first, and what became of the questions."""

    candidates: tuple[Candidate, ...]
    outcomes: Outcomes


def induce(settings: TrainSettings, file: Path, listener: Listener | None = None) -> Induced:
    """Induce rubrics from the training pairs and write them as JSON Lines; DegenerateFitError where there is none.

    The stage is kept in `settings.out`.
    """
    candidates, outcomes = run_stage(settings, lambda run: ask_for_candidates(run.session), listener)
    if not candidates:
        why = "".join(f"; {line}" for line in unanswered_lines(outcomes))
        raise DegenerateFitError(f"no rubric was induced from {settings.pairs}{why}", hint=NO_RUBRIC)
    lines = (orjson.dumps(candidate_to_json(one), option=orjson.OPT_APPEND_NEWLINE) for one in candidates)
    write_atomic(file, b"".join(lines))
    return Induced(candidates=candidates, outcomes=outcomes)


async def ask_for_candidates(session: Session) -> tuple[Candidate, ...]:
    """Induce rubrics from the training pairs of a session, and merge near-identical ones."""
    return merge(await induced(session, "induce", session.material.train, {}))


def load_rubrics(bank: Path | None, candidates: Path | None) -> Sequence[Candidate]:
    """Return the rubrics of a bank or of a file of candidates; UsageError unless one of them is named."""
    if (bank is None) == (candidates is None):
        raise UsageError("svr stages judge needs rubrics", hint="give one of --bank DIR and --candidates FILE")
    if bank is not None:
        return [candidate_of(entry) for entry in RubricBank.load(bank).rubrics if not entry.disabled]
    assert candidates is not None
    try:
        lines = read_plain(candidates).splitlines()
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
            f"{where} is not a candidate: {why}", hint="write the file again with svr stages induce"
        ) from error
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedEntries:
    """How many entries a store got, what became of the questions, and what this process asked of an endpoint."""

    entries: int
    outcomes: Outcomes
    stats: EngineStats | None
    price: Price | None


def judge(
    settings: TrainSettings, rubrics: Sequence[Candidate], store: Path, listener: Listener | None = None
) -> JudgedEntries:
    """Judge pools of the rubrics on the pairs and write the feature store; the stage is kept in `settings.out`.

    UsageError where something else than this very store is there.
    """
    occupied = store.exists()

    async def work(run: TrainingRun) -> JudgedEntries:
        session = run.session
        session.crew = replace(session.crew, may_begin=lambda: not occupied)
        try:
            index = await ask_for_entries(session, rubrics)
        except StageEndsError as error:  # questions are left, so the store that exists is not of this command
            raise store_exists(store) from error
        terms, label = settings.terms, run.judge.label
        write_session_store(session, store, rubrics, prompts_digest=run.prompts_digest, judge=label, terms=terms)
        return JudgedEntries(
            entries=sum(len(session.ledger.entries(pair.id, index)[0]) for pair in session.material.pairs),
            outcomes=session.stages.outcomes,
            stats=run.stats,
            price=run.price,
        )

    return run_stage(settings, work, listener)[0]


async def ask_for_entries(session: Session, rubrics: Sequence[Candidate]) -> dict[str, int]:
    """Judge the pools of all pairs of a session; return the places of the rubrics by their ids."""
    index = {candidate.rubric.id: place for place, candidate in enumerate(rubrics)}
    sources = sources_of(session, rubrics)
    if sources.held_out:
        among = len({place for places in sources.held_out.values() for place in places})
        session.say(
            f"{among:,} of {len(rubrics):,} rubrics came from prompts that are held out here, as with another --seed "
            f"or --limit: none is judged on a held-out prompt that it came from"
        )
    await judge_pools(session, "judge", 1, rubrics, index, sources, Growth(candidates=tuple(rubrics)), ())
    return index
