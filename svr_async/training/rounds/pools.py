"""Selects the rubrics to judge for each pair, and has them judged.

Prompts are clustered by their words and by what was mined from them (`fit.prompt_clusters`). Most of a pair's pool are
rubrics mined most often from its cluster; a fifth is drawn from the whole bank, often proposed and rarely judged first.
Each criterion gets places for two wordings before any gets a third: two show whether the author's grouping is right.

A rubric mined only from this pair's prompt is excluded: judging it there would be circular. One that other prompts gave
too may be in the pool; excluding it just where it holds would keep only the evidence against it. Pools are
deterministic in (pair id, round) and in how often the pairs before drew a rubric.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from svr_async.core.pair import Order, PreferencePair, hashed_order, present
from svr_async.core.rubric import Rubric
from svr_async.fit import prompt_clusters
from svr_async.fit.forward import importance
from svr_async.judges.protocol import Answer, Comparisons
from svr_async.training.rounds.session import NOTHING, FittedRound, Floats, IndexedBank, Ints, Ledger, Session
from svr_async.training.rounds.stages import TrainingJudges, ask, outcomes_of

WORDINGS = 2  # of a criterion, before other criteria get their places
REPEATED = 0.7  # worth of a criterion's next wording, relative to the one before
EXPLORED = 5  # a fifth of a pool is drawn from the whole bank
MOST_CLUSTERS = 64
Task = tuple[PreferencePair, Sequence[Rubric]]  # a pair and the rubrics to judge it on
BLOCK = 4096  # prompts that are compared at a time, to bound memory


def choose_pools(
    pair_ids: Sequence[str],
    *,
    wanted: Sequence[Ints],
    own: Sequence[Ints],
    judged: Sequence[Ints],
    observed: NDArray[np.int64],
    criteria: Ints,
    size: int,
    round_number: int,
) -> list[Ints]:
    """Return the rubrics to judge now for each pair, as places in the bank in rising order.

    Each pair has the rubrics to judge first, the best first (`wanted`), those from its own prompt alone (`own`), and
    those that are `judged` already. Each rubric has how often it was proposed (`observed`) and its criterion's number.
    """
    counts = np.bincount(np.concatenate([NOTHING, *judged]), minlength=len(observed))
    frequency = np.sqrt(np.maximum(1, observed))
    pools = []
    for pair_id, first, mined, known in zip(pair_ids, wanted, own, judged, strict=True):
        excluded = set(mined.tolist())
        chosen = _first(first.tolist(), excluded, size - -(-size // EXPLORED), criteria)
        drawn = _drawn(pair_id, (1.0 + counts) / frequency, round_number)
        pool = _first([*chosen, *drawn.tolist()], excluded, size, criteria)
        fresh = np.setdiff1d([*chosen, *pool], known).astype(np.int32)
        counts[fresh] += 1
        pools.append(fresh)
    return pools


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


def likely_rubrics(
    features: Any, mined: Any, words: Any, trained: Sequence[int], count: int, criteria: Ints
) -> list[Ints]:
    """Return the `count` likeliest rubrics of each prompt, the likeliest first; of equals the first in the bank.

    `features` (prompt, feature), `mined` (prompt, rubric) and `words` (rubric, word) are sparse; nothing is mined from
    prompts that are not in `trained`. The number of clusters is the one that best predicts the rubrics mined
    (`prompt_clusters.best_size`). What is ranked are `criteria` (rubric,); each gives its wordings in turn.
    """
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    home = _marks(np.arange(len(criteria) + 1), criteria, int(criteria.max()) + 1)
    given = prompt_clusters.marks_of(mined @ home)[trained]
    inside = features[trained]
    views: prompt_clusters.Views = {"rubrics": given, "words": prompt_clusters.marks_of(given @ home.T @ words)}
    with threadpool_limits(1):  # matrices here are small: more threads wait for each other
        size = prompt_clusters.best_size(inside, views, most=MOST_CLUSTERS, seed=0)
        view = views[size.view]
        clusters, _ = prompt_clusters.learn_clusters(prompt_clusters.associate(inside, view), inside, view, size, 0)
    shares = clusters.mixture_weights(features)
    shares[trained] = prompt_clusters.posterior(shares[trained], view)
    rate = prompt_clusters.rubric_rates(shares[trained], given)
    ranked: list[Ints] = []
    for first in range(0, len(shares), BLOCK):
        score = shares[first : first + BLOCK] @ rate
        order = np.argsort(-score, axis=1, kind="stable")[:, :count]
        ranked += _worded(order, np.take_along_axis(score, order, axis=1), criteria, count, first)
    return ranked


def _marks(borders: NDArray[np.integer], columns: Ints, width: int) -> Any:
    """Return a sparse matrix with 1 in these columns of each row."""
    return csr_matrix((np.ones(len(columns)), columns, borders), shape=(len(borders) - 1, width))


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


async def judge_pools(
    session: Session,
    stage: str,
    number: int,
    bank: IndexedBank,
    extra: Sequence[PreferencePair] = (),
    before: FittedRound | None = None,
) -> None:
    """Plan and judge the pools of all pairs, and of `extra` ones; entries go to the ledger."""
    pairs = [*session.material.pairs, *extra]
    rows = [session.material.row(pair) for pair in pairs]
    policy, size = session.config.pool, session.config.pool_size_for(len(pairs))
    judged = [session.ledger.asked(pair.id, bank.place) for pair in pairs]
    if policy == "cross":
        criteria = bank.arrays["criterion"]
        criteria = np.arange(len(bank.rubrics), dtype=np.int32) if criteria is None else criteria
        pools = choose_pools(
            [pair.id for pair in pairs],
            wanted=_wanted(session, bank, rows, size, criteria, before),
            own=[bank.own(row) for row in rows],
            judged=judged,
            observed=np.array([candidate.observed_count for candidate in bank.rubrics], dtype=np.int64),
            criteria=criteria,
            size=size,
            round_number=number,
        )
    elif policy == "own":
        mined = (bank.rubrics_of.get(row, ())[:size] for row in rows)
        pools = [np.setdiff1d(of, known) for of, known in zip(mined, judged, strict=True)]
    else:  # a dev prompt is not judged on what it gave
        left_out = ([*known, *bank.held_out.get(row, ())] for row, known in zip(rows, judged, strict=True))
        pools = [np.setdiff1d(np.arange(len(bank.rubrics)), places) for places in left_out]
    rubrics = ([bank.rubrics[place].rubric for place in pool.tolist()] for pool in pools)
    await judge_tasks(session, stage, list(zip(pairs, rubrics, strict=True)))


def _wanted(
    session: Session, bank: IndexedBank, rows: Sequence[int], size: int, criteria: Ints, before: FittedRound | None
) -> list[Ints]:
    """Return for each pair the favourites of the last round's selector, then what its prompt cluster often gave."""
    material, n_prompts = session.material, len(session.material.row_of)
    trained = sorted({material.row(pair) for pair in material.train})
    mined = _marks(bank.arrays["source_indptr"], bank.arrays["source_prompt"], n_prompts).T.tocsr()
    found = material.features
    parts = found["feature_value"].astype(np.float64), found["feature_index"], found["feature_indptr"]
    features = csr_matrix(parts, shape=(n_prompts, found["n_features"]))
    words = bank.arrays["word_number"]
    worded = _marks(bank.arrays["word_indptr"], words, int(words.max(initial=0)) + 1)
    likely = likely_rubrics(features, mined, worded, trained, size, criteria)
    best = dict.fromkeys(rows, NOTHING)
    if before is not None:
        table = np.array([bank.place.get(candidate.rubric.id, -1) for candidate in before.bank], dtype=np.int32)
        for row in best:
            value = importance(before.selector, *material.features_of(row))
            top = np.argsort(-value, kind="stable")[:size]
            places = table[top[value[top] > 0]]
            if value.min() < value.max():  # equals: no favourites
                best[row] = places[places >= 0][: size // 2]
    return [np.concatenate([best[row], likely[row]]) for row in rows]


async def judge_tasks(session: Session, stage: str, tasks: Sequence[Task], ledger: Ledger | None = None) -> None:
    """Judge tasks with rubrics, or read them back, and note every entry in the ledger given, or the session's."""
    judges, tasks = session.judges, [task for task in tasks if task[1]]

    async def judge() -> tuple[Floats, Counter[str]]:
        if tasks:
            count = sum(len(rubrics) for _, rubrics in tasks)
            session.say(f"judging {len(tasks):,} pairs: {count:,} judgements")
        return await judged_z(judges, tasks)

    ids = [[rubric.id for rubric in rubrics] for _, rubrics in tasks]
    whole = {one.id: one for _, rubrics in tasks for one in rubrics}  # a check may change, its id does not
    inputs = judges.judge.name, judges.rubrics_per_call, [pair for pair, _ in tasks], ids, whole
    z = await session.kept(stage, np.ndarray, inputs, judge)
    ledger, start = session.ledger if ledger is None else ledger, 0
    for (pair, _), named in zip(tasks, ids, strict=True):
        ledger.note(pair.id, named, z[start : start + len(named)].tolist())
        start += len(named)


async def judged_z(judges: TrainingJudges, tasks: Sequence[Task]) -> tuple[Floats, Counter[str]]:
    """Return z of all rubrics of all tasks in order, NaN without a verdict, and the outcomes of the questions.

    The parts of a pool are asked one after another, so that the first computes the prefix that the others share.
    """

    async def work(task: Task) -> list[Answer[Comparisons]]:
        pair, rubrics = task
        ordered, size = sorted(rubrics, key=lambda rubric: rubric.id), judges.rubrics_per_call
        shown = present(pair, hashed_order(pair.id))
        parts = [ordered[start : start + size] for start in range(0, len(ordered), size)]
        return [await judges.judge.compare(shown, part, overall=False) for part in parts]

    found = await ask(judges, "judging", tasks, work, [pair.prompt for pair, _ in tasks])
    z: list[float] = []
    for (pair, rubrics), answers in zip(tasks, found, strict=True):
        sign = sign_of(pair)
        deltas = {row.rubric_id: sign * row.delta for one in answers if one.value is not None for row in one.value.rows}
        z += [deltas.get(rubric.id, np.nan) for rubric in rubrics]
    return np.array(z, dtype=np.float32), outcomes_of([answer for answers in found for answer in answers])


def sign_of(pair: PreferencePair) -> float:
    """Return 1 if the chosen response is shown as A, else −1: z is Δ times this, so positive favours the chosen."""
    return 1.0 if pair.chosen_first == (hashed_order(pair.id) is Order.AB) else -1.0
