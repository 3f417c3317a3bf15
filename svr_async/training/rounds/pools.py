"""Which rubrics are judged for a pair: those that its kind of prompts gave, and a few of all.

A judgement tells most where the rubric sets responses apart. Prompts are grouped by their words and by what was mined
from them (`fit.prompt_clusters`); a pool takes what the pair's groups gave most often, and draws the rest from the
whole bank, the often proposed and little judged first. With the rubrics that matter to a pair judged together, what
one of them explains is not noise to the others: the same number of judgements drawn from all over the bank teaches half
as much.

A rubric that no other prompt gave is left out of the pool of the pair that gave it: judging it there is no evidence.
One that both this prompt and others gave may be in it; leaving it out just where it holds would keep only the evidence
against it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from svr_async.core.rubric import Rubric
from svr_async.fit.arrays import LARGEST_Z
from svr_async.fit.forward import alpha_numpy
from svr_async.fit.prompt_clusters import Views, associate, best_size, learn_clusters, marks_of, posterior, rubric_rates
from svr_async.training.bank.merge import Candidate
from svr_async.training.rounds import judge_calls
from svr_async.training.rounds.config import PoolConfig, PoolPolicy
from svr_async.training.rounds.judge_calls import PoolTask
from svr_async.training.rounds.session import FittedRound, Growth, Ledger, Session, Sources
from svr_async.training.rounds.stages import ledger_rows, pair_to_json, rubric_to_json

Indices = NDArray[np.int32]
EXPLORED = 5  # a fifth of a pool is drawn from the whole bank


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolInputs:
    """What pools are planned from, one entry a pair. Indices are those of the bank.

    `likely` lists the rubrics that the pair's kind of prompts gives, the most often first; `mined` are those from the
    pair's own prompt, `own` those from it alone. `observed` counts how often each rubric was proposed, `judged` are the
    rubrics that are judged already, `preferred` the selector's favourites, best first.
    """

    pair_ids: Sequence[str]
    likely: Sequence[Indices]
    mined: Sequence[Indices]
    own: Sequence[Indices]
    observed: NDArray[np.int64]
    judged: Sequence[Indices]
    preferred: Sequence[Indices]
    n_rubrics: int


def choose_pools(inputs: PoolInputs, config: PoolConfig, *, round_number: int) -> list[Indices]:
    """Return the rubrics to judge now for each pair, in rising order; those judged already are left out.

    Deterministic: draws depend on (pair id, round) and on how often the pairs before it drew a rubric.
    """
    counts = np.zeros(inputs.n_rubrics, dtype=np.int64)
    for known in inputs.judged:
        counts[known] += 1
    pools = []
    for row in range(len(inputs.pair_ids)):
        pool = _pool_of(inputs, config, row, counts, round_number)
        fresh = np.setdiff1d(pool, inputs.judged[row]).astype(np.int32)
        counts[fresh] += 1
        pools.append(fresh)
    return pools


def _pool_of(inputs: PoolInputs, config: PoolConfig, row: int, counts: NDArray[np.int64], round_number: int) -> Indices:
    if config.policy is PoolPolicy.ALL:
        return np.arange(inputs.n_rubrics, dtype=np.int32)
    size = config.size_for(len(inputs.pair_ids))
    if config.policy is PoolPolicy.OWN:
        return np.unique(inputs.mined[row])[:size].astype(np.int32)
    barred = {int(index) for index in inputs.own[row]}
    drawn = -(-size // EXPLORED)
    chosen = _taken([*_halves(inputs.preferred[row], inputs.likely[row], size)], barred, size - drawn)
    rarity = (1.0 + counts) / np.sqrt(np.maximum(1, inputs.observed))
    explored = _explore(inputs.pair_ids[row], rarity, barred | set(chosen), size - len(chosen), round_number)
    return np.array(sorted({*chosen, *explored}), dtype=np.int32)


def _halves(preferred: Indices, likely: Indices, size: int) -> Sequence[int]:
    """Return the selector's favourites, up to half a pool of them, then what the kind of prompts gives."""
    return [*preferred[: size // 2].tolist(), *likely.tolist()]


def _taken(wanted: Sequence[int], barred: set[int], count: int) -> list[int]:
    """Return the first different ones that are not barred."""
    return list(dict.fromkeys(index for index in wanted if index not in barred))[:count]


def _explore(pair_id: str, slowness: NDArray[np.float64], taken: set[int], wanted: int, round_number: int) -> list[int]:
    """Draw rubrics without replacement with odds 1 / `slowness`, by exponential clocks."""
    if wanted <= 0:
        return []
    digest = hashlib.blake2b(f"pool\x1f{round_number}\x1f{pair_id}".encode("utf-8", "replace"), digest_size=8).digest()
    clocks = np.random.default_rng(int.from_bytes(digest, "big")).exponential(size=len(slowness)) * slowness
    clocks[list(taken)] = np.inf
    wanted = min(wanted, len(slowness) - len(taken))
    if wanted <= 0:
        return []
    return [int(index) for index in np.argpartition(clocks, wanted - 1)[:wanted]]


MOST_KINDS = 64
BLOCK = 4096  # prompts that are compared at a time, to bound memory
SEED = 0


def likely_rubrics(
    features: Any, mined: Any, words: Any, trained: Sequence[int], count: int
) -> list[NDArray[np.int32]]:
    """Return the `count` likeliest rubrics of each prompt, the likeliest first; of equals the first in the bank.

    `features` (prompt, feature), `mined` (prompt, rubric) and `words` (rubric, word; or None) are sparse, and nothing
    is mined from prompts that are not in `trained`. There are as many kinds as tell best what is mined
    (`fit.prompt_clusters`).
    """
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    inside, given = features[trained], mined[trained]
    views: Views = {"rubrics": given} if words is None else {"rubrics": given, "words": marks_of(given @ words)}
    with threadpool_limits(1):  # matrices here are small: more threads wait for each other
        size = best_size(inside, views, most=MOST_KINDS, seed=SEED)
        view = views[size.view]
        clusters, _ = learn_clusters(associate(inside, view), inside, view, size, SEED)
    held = clusters.mixture_weights(features)
    held[trained] = posterior(held[trained], view)
    rate = rubric_rates(held[trained], given)
    most = min(count, mined.shape[1])
    ranked: list[NDArray[np.int32]] = []
    for first in range(0, len(held), BLOCK):
        score = held[first : first + BLOCK] @ rate
        order = np.argsort(-score, axis=1, kind="stable")[:, :most]
        ranked += [row[score[place, row] > 0].astype(np.int32) for place, row in enumerate(order)]
    return ranked


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
