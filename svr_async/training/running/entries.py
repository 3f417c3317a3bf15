"""The second stage by itself: rubrics judged on pairs, and the feature store that this gives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from svr_async.engine.money import Price
from svr_async.engine.stats import EngineStats
from svr_async.training.bank.merge import Candidate
from svr_async.training.rounds.answers import Outcomes
from svr_async.training.rounds.judge_calls import StageEndsError
from svr_async.training.rounds.judgements import judge_pools, sources_of
from svr_async.training.rounds.session import Growth, Session
from svr_async.training.running.listener import Listener
from svr_async.training.running.run import TrainingRun
from svr_async.training.running.settings import TrainSettings
from svr_async.training.running.stage import run_stage
from svr_async.training.store.session_store import store_exists, write_session_store


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
