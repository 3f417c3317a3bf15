"""Selects the rubrics to judge for each pair, and has them judged.

Prompts are clustered by their words and by what was mined from them (`fit.prompt_clusters`). Most of a pair's pool are
rubrics mined most often from its cluster; a fifth is drawn from the whole bank, often proposed and rarely judged first.
With the rubrics that matter to a pair judged together, what one of them explains is not noise to the others. Each
criterion gets places for two wordings before any gets a third: two show whether the author's grouping is right, and
the likeliest criteria are judged twice as well.

A rubric mined only from this pair's prompt is excluded: judging it there would be circular. One that other prompts gave
too may be in the pool; excluding it just where it holds would keep only the evidence against it. Pools are
deterministic in (pair id, round) and in how often the pairs before drew a rubric.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from svr_async.core.pair import PreferencePair
from svr_async.fit.arrays import LARGEST_Z
from svr_async.fit.forward import alpha_numpy
from svr_async.fit.prompt_clusters import (
    Views,
    associate,
    best_size,
    learn_clusters,
    marks_of,
    posterior,
    rubric_rates,
)
from svr_async.training.bank.merge import criterion_numbers
from svr_async.training.rounds import judge_calls
from svr_async.training.rounds.config import PoolConfig, PoolPolicy
from svr_async.training.rounds.judge_calls import PoolTask
from svr_async.training.rounds.session import NOTHING, FittedRound, IndexedBank, Ints, Ledger, Session
from svr_async.training.rounds.stages import pair_to_json, rubric_to_json

WORDINGS = 2  # of a criterion, before other criteria get their places
REPEATED = 0.7  # worth of a criterion's next wording, relative to the one before
EXPLORED = 5  # a fifth of a pool is drawn from the whole bank
MOST_CLUSTERS = 64
BLOCK = 4096  # prompts that are compared at a time, to bound memory


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolInputs:
    """What pools are planned from, one entry a pair; rubrics are places in the bank.

    `likely` lists the rubrics of the pair's prompt cluster, the most often mined first; `mined` are those from the
    pair's own prompt, `own` those from it alone. `observed` counts how often each rubric was proposed, `judged` are
    those judged already, `preferred` the selector's favourites, best first. `criteria` numbers each rubric's criterion.
    """

    pair_ids: Sequence[str]
    likely: Sequence[Ints]
    mined: Sequence[Ints]
    own: Sequence[Ints]
    observed: NDArray[np.int64]
    judged: Sequence[Ints]
    preferred: Sequence[Ints]
    criteria: Ints

    @property
    def n_rubrics(self) -> int:
        """Number of rubrics of the bank."""
        return len(self.observed)


def choose_pools(inputs: PoolInputs, config: PoolConfig, *, round_number: int) -> list[Ints]:
    """Return the rubrics to judge now for each pair, in rising order, without those judged already."""
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


def _pool_of(inputs: PoolInputs, config: PoolConfig, row: int, counts: NDArray[np.int64], round_number: int) -> Ints:
    if config.policy is PoolPolicy.ALL:
        return np.arange(inputs.n_rubrics, dtype=np.int32)
    size = config.size_for(len(inputs.pair_ids))
    if config.policy is PoolPolicy.OWN:
        return np.unique(inputs.mined[row])[:size].astype(np.int32)
    excluded = set(inputs.own[row].tolist())
    wanted = [*inputs.preferred[row][: size // 2].tolist(), *inputs.likely[row].tolist()]
    chosen = _first(wanted, excluded, size - -(-size // EXPLORED), inputs.criteria)
    rarity = (1.0 + counts) / np.sqrt(np.maximum(1, inputs.observed))
    drawn = _drawn(inputs.pair_ids[row], rarity, round_number)
    explored = _first([*chosen, *drawn.tolist()], excluded, size, inputs.criteria)
    return np.array(sorted({*chosen, *explored}), dtype=np.int32)


def _first(wanted: Iterable[int], excluded: set[int], count: int, criteria: Ints) -> list[int]:
    """Return the first different rubrics, of each criterion `WORDINGS` before further ones."""
    first: dict[int, None] = {}
    further: dict[int, None] = {}
    seen = Counter[int]()
    for rubric in wanted:
        if rubric in excluded or rubric in first:
            continue
        criterion = int(criteria[rubric])
        seen[criterion] += 1
        (first if seen[criterion] <= WORDINGS else further)[rubric] = None
        if len(first) == count:
            break
    return [*first, *further][:count]


def _drawn(pair_id: str, slowness: NDArray[np.float64], round_number: int) -> NDArray[np.intp]:
    """Return all rubrics in a random order with odds 1 / `slowness`, by exponential clocks."""
    digest = hashlib.blake2b(f"pool\x1f{round_number}\x1f{pair_id}".encode("utf-8", "replace"), digest_size=8).digest()
    clocks = np.random.default_rng(int.from_bytes(digest, "big")).exponential(size=len(slowness)) * slowness
    return np.argsort(clocks, kind="stable")


# ── what a cluster of prompts gives ─────────────────────────────────────────────────────────────────────────────────


def likely_rubrics(
    features: Any, mined: Any, words: Any, trained: Sequence[int], count: int, criteria: Ints | None = None
) -> list[Ints]:
    """Return the `count` likeliest rubrics of each prompt, the likeliest first; of equals the first in the bank.

    `features` (prompt, feature), `mined` (prompt, rubric) and `words` (rubric, word; or None) are sparse; nothing is
    mined from prompts that are not in `trained`. There are as many clusters as predict best what is mined
    (`prompt_clusters.best_size`). With `criteria` (rubric,) criteria are ranked, and each gives its wordings in turn.
    """
    from scipy.sparse import csr_matrix
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    if criteria is not None:
        shape = (len(criteria), int(criteria.max()) + 1)
        home = csr_matrix((np.ones(len(criteria)), criteria, np.arange(len(criteria) + 1)), shape=shape)
        mined, words = marks_of(mined @ home), None if words is None else marks_of(home.T @ words)
    inside, given = features[trained], mined[trained]
    views: Views = {"rubrics": given} if words is None else {"rubrics": given, "words": marks_of(given @ words)}
    with threadpool_limits(1):  # matrices here are small: more threads wait for each other
        size = best_size(inside, views, most=MOST_CLUSTERS, seed=0)
        view = views[size.view]
        clusters, _ = learn_clusters(associate(inside, view), inside, view, size, 0)
    shares = clusters.mixture_weights(features)
    shares[trained] = posterior(shares[trained], view)
    rate = rubric_rates(shares[trained], given)
    most = min(count, mined.shape[1])
    ranked: list[Ints] = []
    for first in range(0, len(shares), BLOCK):
        score = shares[first : first + BLOCK] @ rate
        order = np.argsort(-score, axis=1, kind="stable")[:, :most]
        values = np.take_along_axis(score, order, axis=1)
        if criteria is None:
            ranked += [row[value > 0].astype(np.int32) for row, value in zip(order, values, strict=True)]
        else:
            ranked += _worded(order, values, criteria, count, first)
    return ranked


def _worded(ranked: NDArray[Any], rates: NDArray[np.float64], criteria: Ints, count: int, turn: int) -> list[Ints]:
    """Return rubrics for criteria (prompt, place) by their rates: wording j of a criterion counts rate · `REPEATED`^j.

    Prompts begin with different wordings: row n with the one at `turn` + n.
    """
    order = np.argsort(criteria, kind="stable")
    wordings = np.split(order, np.cumsum(np.bincount(criteria))[:-1])
    found = []
    for row, (numbers, values) in enumerate(zip(ranked, rates, strict=True), turn):
        turns = [np.roll(wordings[number], -row) for number in numbers[values > 0]]
        worth = [value * REPEATED ** np.arange(len(each)) for value, each in zip(values, turns, strict=False)]
        best = np.argsort(-np.concatenate([[], *worth]), kind="stable")[:count]
        found.append(np.concatenate([NOTHING, *turns])[best].astype(np.int32))
    return found


# ── judging ─────────────────────────────────────────────────────────────────────────────────────────────────────────


async def judge_pools(
    session: Session,
    stage: str,
    number: int,
    bank: IndexedBank,
    extra: Sequence[PreferencePair] = (),
    before: FittedRound | None = None,
) -> None:
    """Plan and judge the pools of all pairs, and of `extra` ones; entries go to the ledger."""
    pairs, prompts = [*session.material.pairs, *extra], session.material.prompts
    rows, sources = [prompts.row(pair) for pair in pairs], bank.sources
    criteria = criterion_numbers(bank.rubrics)
    inputs = PoolInputs(
        pair_ids=[pair.id for pair in pairs],
        likely=_likely(session, bank, rows, criteria),
        mined=[sources.mined(row) for row in rows],
        own=[sources.own(row) for row in rows],
        observed=np.array([candidate.observed_count for candidate in bank.rubrics], dtype=np.int64),
        judged=[session.ledger.asked(pair.id, bank.place) for pair in pairs],
        preferred=_preferred(session, rows, bank, before),
        criteria=np.arange(len(bank.rubrics), dtype=np.int32) if criteria is None else criteria,
    )
    pools = choose_pools(inputs, session.config.pools, round_number=number)
    tasks = []
    for pair, pool, row in zip(pairs, pools, rows, strict=True):
        held_out = sources.held_out.get(row, ())  # whatever the policy, a dev prompt is not judged on what it gave
        tasks.append(PoolTask(pair, [bank.rubrics[place].rubric for place in pool.tolist() if place not in held_out]))
    await judge_tasks(session, stage, [task for task in tasks if task.rubrics])


async def judge_tasks(session: Session, stage: str, tasks: Sequence[PoolTask], ledger: Ledger | None = None) -> None:
    """Judge tasks, or read them back, and note every entry in the ledger given, or the session's."""
    ledger = session.ledger if ledger is None else ledger
    asked = [[rubric.id for rubric in task.rubrics] for task in tasks]
    count = sum(map(len, asked))
    rubrics = {rubric.id: rubric_to_json(rubric) for task in tasks for rubric in task.rubrics}
    questions = session.judges.judge.name, session.judges.rubrics_per_call, [pair_to_json(task.pair) for task in tasks]
    digest = session.digest(*questions, rubrics, asked)  # texts too: a probe keeps its id, a check its rubric's text
    z = session.stages.load(stage, digest, lambda _, arrays: _whole(arrays["z"], count))
    if z is None:
        if tasks:
            session.say(f"judging {count:,} entries of {len(tasks):,} pairs")
        found, outcomes = await judge_calls.judge_pools(session.judges, tasks)
        values = [row.get(rubric, np.nan) for rubrics, row in zip(asked, found, strict=True) for rubric in rubrics]
        z = np.array(values, dtype=np.float32)  # NaN: no verdict
        session.stages.save(stage, digest, {"entries": count, "outcomes": dict(outcomes)}, {"z": z})
    borders = np.cumsum([len(row) for row in asked])[:-1]
    for task, row, values_of in zip(tasks, asked, np.split(z, borders)[: len(tasks)], strict=True):
        entries = {rubric: value for rubric, value in zip(row, values_of.tolist(), strict=True) if not np.isnan(value)}
        ledger.note(task.pair.id, row, entries)


def _whole(z: NDArray[Any], count: int) -> NDArray[Any]:
    """Return z of `count` entries; ValueError if it cannot be theirs."""
    if z.shape != (count,) or z.dtype.kind != "f" or bool((np.abs(z) > LARGEST_Z).any()):
        raise ValueError(f"z is {z.dtype} of {z.shape}, not numbers up to ±{LARGEST_Z} of {count} entries")
    return z


def _likely(session: Session, bank: IndexedBank, rows: Sequence[int], criteria: Ints | None) -> list[Ints]:
    """Return, for each pair, the rubrics that its prompt cluster gave, the most often first."""
    config, prompts = session.config, session.material.prompts
    if config.pools.policy is not PoolPolicy.CROSS:
        return [NOTHING] * len(rows)
    trained = sorted({prompts.row(pair) for pair in session.material.train})
    size, mined = config.pools.size_for(len(rows)), bank.sources.matrix(len(prompts.row_of))
    ranked = likely_rubrics(prompts.matrix(), mined, bank.sources.worded(), trained, size, criteria)
    return [ranked[row] for row in rows]


def _preferred(session: Session, rows: Sequence[int], bank: IndexedBank, last: FittedRound | None) -> list[Ints]:
    """Return the favourites of the last round's selector for each pair, as places in this round's bank."""
    if last is None or session.config.pools.policy is not PoolPolicy.CROSS:
        return [NOTHING] * len(rows)
    table = np.array([bank.place.get(candidate.rubric.id, -1) for candidate in last.bank], dtype=np.int32)
    best: dict[int, Ints] = {}
    for row in set(rows):
        importance = alpha_numpy(last.selector, *session.material.prompts.features(row)) * last.selector.weight
        top = np.argsort(-importance, kind="stable")[: session.config.pools.size_for(len(rows))]
        places = table[top[importance[top] > 0]]
        best[row] = places[places >= 0] if importance.min() < importance.max() else NOTHING  # equals: no favourites
    return [best[row] for row in rows]
