"""Judging pools: which rubrics each pair is judged on in a round, and the entries that come of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from svr_async.core.rubric import Rubric
from svr_async.fit.arrays import LARGEST_Z
from svr_async.fit.forward import alpha_numpy
from svr_async.training.bank.merge import Candidate
from svr_async.training.rounds import judge_calls
from svr_async.training.rounds.judge_calls import PoolTask
from svr_async.training.rounds.kinds import likely_rubrics
from svr_async.training.rounds.ledger import Ledger
from svr_async.training.rounds.pools import PoolInputs, PoolPolicy, choose_pools
from svr_async.training.rounds.problem import Sources
from svr_async.training.rounds.session import FittedRound, Growth, Session
from svr_async.training.rounds.state import ledger_rows, pair_to_json, rubric_to_json


def sources_of(session: Session, bank: Sequence[Candidate]) -> Sources:
    """Return where rubrics came from."""
    material = session.material
    train, dev = ({pair.id: material.prompts.row(pair) for pair in pairs} for pairs in (material.train, material.dev))
    return Sources.of(bank, train, dev)


async def judge_pools(
    session: Session,
    stage: str,
    number: int,
    bank: Sequence[Candidate],
    index: Mapping[str, int],
    sources: Sources,
    growth: Growth,
    before: Sequence[FittedRound],
) -> None:
    """Plan and judge the pools of all pairs; entries go to the ledger."""
    material = session.material
    pairs = [*material.pairs, *(negative.pair for negative in growth.negatives)]
    rows = [material.prompts.row(pair) for pair in pairs]
    inputs = PoolInputs(
        pair_ids=[pair.id for pair in pairs],
        likely=_likely(session, sources, rows, len(bank)),
        mined=[sources.mined(row) for row in rows],
        own=[sources.own(row) for row in rows],
        observed=np.array([candidate.observed_count for candidate in bank], dtype=np.int64),
        judged=[session.ledger.asked(pair.id, index) for pair in pairs],
        preferred=_preferred(session, rows, index, before),
        n_rubrics=len(bank),
    )
    pools = choose_pools(inputs, session.config.pools, round_number=number)
    tasks = [
        PoolTask(pair, _rubrics(bank, pool, sources, row)) for pair, pool, row in zip(pairs, pools, rows, strict=True)
    ]
    await judge_tasks(session, stage, [task for task in tasks if task.rubrics])


def _rubrics(bank: Sequence[Candidate], pool: NDArray[np.int32], sources: Sources, row: int) -> list[Rubric]:
    """Return the rubrics of a pool without those that a dev prompt gave itself, whatever the policy."""
    barred = sources.held_out.get(row, ())
    return [bank[place].rubric for place in pool.tolist() if place not in barred]


async def judge_tasks(session: Session, stage: str, tasks: Sequence[PoolTask], ledger: Ledger | None = None) -> None:
    """Judge tasks, or read them back, and note every entry in the ledger given, or the session's."""
    ledger = session.ledger if ledger is None else ledger
    asked = [[rubric.id for rubric in task.rubrics] for task in tasks]
    digest = session.digest(*_questions(session, tasks), asked)
    z = session.stages.load(stage, digest, lambda _, arrays: _whole(arrays["z"], sum(map(len, asked))))
    if z is None:
        if tasks:
            session.say(f"judging {sum(map(len, asked)):,} entries of {len(tasks):,} pairs")
        found, outcomes = await judge_calls.judge_pools(session.crew, tasks)
        values, arrays = ledger_rows(asked, found)
        session.stages.save(stage, digest, {**values, "outcomes": dict(outcomes.outcomes)}, arrays)
        z = arrays["z"]
    borders = np.concatenate([[0], np.cumsum([len(row) for row in asked])])
    for number, (task, row) in enumerate(zip(tasks, asked, strict=True)):
        values_of = z[borders[number] : borders[number + 1]]
        entries = {
            rubric_id: float(value) for rubric_id, value in zip(row, values_of, strict=True) if not np.isnan(value)
        }
        ledger.note(task.pair.id, row, entries)


def _whole(z: NDArray[Any], count: int) -> NDArray[Any]:
    """Return z of so many entries as it is; ValueError where it cannot be theirs. What was not answered is NaN."""
    if z.shape != (count,) or z.dtype.kind != "f" or bool((np.abs(z) > LARGEST_Z).any()):
        raise ValueError(f"z is {z.dtype} of {z.shape}, not numbers up to ±{LARGEST_Z} of {count} entries")
    return z


def _questions(session: Session, tasks: Sequence[PoolTask]) -> tuple[Any, ...]:
    """Return what the judge is shown: texts, not only ids, since a probe keeps its id and a check its rubric's text."""
    rubrics = {rubric.id: rubric_to_json(rubric) for task in tasks for rubric in task.rubrics}
    pairs = [pair_to_json(task.pair) for task in tasks]
    return session.crew.judge.name, session.crew.rubrics_per_call, pairs, rubrics


def _likely(session: Session, sources: Sources, rows: Sequence[int], n_rubrics: int) -> list[NDArray[np.int32]]:
    """Return, for each pair, the rubrics that its kind of prompts gave, the most often first."""
    config, prompts = session.config, session.material.prompts
    if config.pools.policy is not PoolPolicy.CROSS:
        return [np.zeros(0, dtype=np.int32)] * len(rows)
    trained = sorted({prompts.row(pair) for pair in session.material.train})
    size = config.pools.size_for(len(rows))
    mined = sources.matrix(len(prompts.texts), n_rubrics)
    ranked = likely_rubrics(prompts.matrix(), mined, sources.worded(), trained, size)
    return [ranked[row] for row in rows]


def _preferred(
    session: Session, rows: Sequence[int], index: Mapping[str, int], before: Sequence[FittedRound]
) -> list[NDArray[np.int32]]:
    """Return the favourites of the last round's selector for each pair, as places in this round's bank."""
    nothing = np.zeros(0, dtype=np.int32)
    if not before or session.config.pools.policy is not PoolPolicy.CROSS:
        return [nothing] * len(rows)
    last = before[-1]
    table = np.array([index.get(candidate.rubric.id, -1) for candidate in last.bank], dtype=np.int32)
    best: dict[int, NDArray[np.int32]] = {}
    for row in set(rows):
        importance = alpha_numpy(last.selector, *session.material.prompts.features(row)) * last.selector.weight
        top = np.argsort(-importance, kind="stable")[: session.config.pools.size_for(len(rows))]
        places = table[top[importance[top] > 0]]
        best[row] = places[places >= 0]
    return [best[row] for row in rows]
