"""Judging pools: which rubrics each pair is judged on in a round, and the entries that come of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from svr_async.fit.forward import alpha_numpy
from svr_async.training import asking
from svr_async.training.asking import PoolTask
from svr_async.training.ledger import Ledger
from svr_async.training.merge import Candidate
from svr_async.training.pools import PoolInputs, PoolPolicy, plan_pools
from svr_async.training.problem import Sources
from svr_async.training.session import FittedRound, Growth, Session
from svr_async.training.stages import digest_of
from svr_async.training.state import ledger_rows


def sources_of(session: Session, bank: Sequence[Candidate]) -> Sources:
    """Return where rubrics came from; a fixed list of checks that every pair is judged on has no sources."""
    if session.config.pools.policy is PoolPolicy.ALL:
        return Sources.none(len(bank))
    rows = {pair.id: session.material.prompts.row(pair) for pair in session.material.train}
    return Sources.of(bank, rows)


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
        neighbours=material.neighbours[rows],
        mined=[sources.mined(row) for row in rows],
        own=[sources.own(row) for row in rows],
        mined_of=sources.mined,
        observed=np.array([candidate.observed_count for candidate in bank], dtype=np.int64),
        judged=[session.ledger.asked(pair.id, index) for pair in pairs],
        preferred=_preferred(session, rows, index, before),
        n_rubrics=len(bank),
    )
    pools = plan_pools(inputs, session.config.pools, round_number=number)
    tasks = [
        PoolTask(pair, [bank[place].rubric for place in pool])
        for pair, pool in zip(pairs, pools, strict=True)
        if len(pool)
    ]
    await judge_tasks(session, stage, tasks)


async def judge_tasks(session: Session, stage: str, tasks: Sequence[PoolTask], ledger: Ledger | None = None) -> None:
    """Judge tasks, or read them back, and note every entry in the ledger given, or the session's."""
    ledger = session.ledger if ledger is None else ledger
    asked = [[rubric.id for rubric in task.rubrics] for task in tasks]
    ids = [task.pair.id for task in tasks]
    digest = digest_of(session.material.digest, session.crew.judge.name, ids, asked)
    held = session.stages.load(stage, digest)
    if held is None:
        session.say(f"judging {sum(map(len, asked))} entries of {len(tasks)} pairs")
        found, outcomes = await asking.judge_pools(session.crew, tasks)
        values, arrays = ledger_rows(asked, found)
        session.stages.save(stage, digest, {**values, "outcomes": dict(outcomes.outcomes)}, arrays)
    else:
        arrays = held[1]
    borders = np.concatenate([[0], np.cumsum([len(row) for row in asked])])
    z = arrays["z"]
    for number, (pair_id, row) in enumerate(zip(ids, asked, strict=True)):
        values_of = z[borders[number] : borders[number + 1]]
        entries = {
            rubric_id: float(value) for rubric_id, value in zip(row, values_of, strict=True) if not np.isnan(value)
        }
        ledger.note(pair_id, row, entries)


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
        top = np.argsort(-importance, kind="stable")[: session.config.pools.size]
        places = table[top[importance[top] > 0]]
        best[row] = places[places >= 0]
    return [best[row] for row in rows]
