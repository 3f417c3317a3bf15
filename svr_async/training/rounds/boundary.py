"""The boundary: support pairs, probes, hard negatives, and what is induced from them (paper `sec:adv`)."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rapidfuzz.distance import Indel

from svr_async.core.pair import PreferencePair, hashed_fraction
from svr_async.core.similarity import normalised
from svr_async.fit.forward import alpha_numpy, hidden_matrix
from svr_async.judges.rules.judge import view_of
from svr_async.judges.rules.safety import is_refusal
from svr_async.training.rounds import judge_calls
from svr_async.training.rounds.induction import counted, induced
from svr_async.training.rounds.judge_calls import PoolTask
from svr_async.training.rounds.pools import judge_tasks
from svr_async.training.rounds.session import FittedRound, HardNegative, Ledger, RoundCarryover, Session
from svr_async.training.rounds.stages import pair_to_json

COMPARED_CHARS = 4000
FEW = 64  # least support pairs: with fewer, a round of small data finds nothing new and training ends
_PROSE_MARKS = re.compile("[\\s.,;:!?…'\"’“”]+")


async def extend(session: Session, number: int, fitted: FittedRound, carryover: RoundCarryover) -> RoundCarryover:
    """Find the support pairs, probe them, pick hard negatives, and induce from both."""
    support = find_support(session, number, fitted)
    session.say(f"round {number}: {len(support)} support pairs")
    negatives = await find_negatives(session, number, fitted, support)
    session.say(f"round {number}: {len(negatives)} hard negatives")
    pairs = [*support, *(negative.pair for negative in negatives)]
    sources = {negative.pair.id: negative.of for negative in negatives}
    fresh = await induced(session, f"induce-{number + 1}", pairs, sources) if pairs else ()
    known = {candidate.rubric.id for candidate in carryover.candidates}
    is_new = any(candidate.rubric.id not in known for candidate in fresh)
    held = carryover.negatives if session.config.keep_negatives else ()
    kept = {negative.pair.id: negative for negative in (*held, *negatives)}
    return replace(
        carryover,
        candidates=counted([*carryover.candidates, *fresh]) if is_new else carryover.candidates,
        negatives=tuple(kept.values()),
        support=tuple(pair.id for pair in support),
    )


# ── support pairs ───────────────────────────────────────────────────────────────────────────────────────────────────


def find_support(session: Session, number: int, fitted: FittedRound) -> list[PreferencePair]:
    """Return the support pairs of this round: all with margin <= tau, or as many as `max_support` and the share allow.

    If support mining is ablated, the same number drawn at random replaces them, or every training pair.
    """
    config, train = session.config, session.material.train
    if "support" in config.ablate and config.without_support == "every":
        return list(train)
    arrays = session.arrays(session.indexed(fitted.bank), train)
    margins = session.margins(fitted.selector, arrays)
    shares = None
    if config.support_by_cluster and fitted.selector.kind == "topics":
        shares = hidden_matrix(fitted.selector, arrays, arrays.pair_prompt)
    most = most_support(len(train), share=config.support_share, most=config.max_support)
    known = np.diff(arrays.z_indptr) > 0
    rows = support_rows(margins, known, margin=config.support_margin, most=most, shares=shares)
    if "support" in config.ablate:
        rows = random_rows(train, len(rows), round_number=number)
    return [train[row] for row in rows]


def most_support(n_pairs: int, *, share: float, most: int) -> int:
    """Return how many support pairs there may be: a share of the training pairs (ours), at least 64, at most `most`."""
    return min(most, max(FEW, math.ceil(share * n_pairs)))


def support_rows(
    margins: NDArray[np.float32],
    known: NDArray[np.bool_],
    *,
    margin: float,
    most: int,
    shares: NDArray[np.float32] | None = None,
) -> list[int]:
    """Return the rows with margin <= `margin` (paper `sec:adv`), hardest first, ties in row order, at most `most`.

    The paper caps them (`app:hparams`) and does not say which are taken; that the hardest come first is ours. With
    `shares` (row, cluster), each row's share in each prompt cluster, pairs of the clusters that fail most often come
    first: many of the hardest pairs are labelled the wrong way round. Rows that are not `known` have no margin.
    """
    near = known & (margins <= margin)
    rows = np.flatnonzero(near)
    order = np.argsort(margins[rows], kind="stable")
    if shares is not None:
        weights = shares.astype(np.float64)
        failing = weights.T @ near / np.maximum(weights.sum(axis=0), 1e-12)
        order = np.lexsort((margins[rows], -(weights @ failing)[rows]))
    return [int(row) for row in rows[order][:most]]


def random_rows(pairs: Sequence[PreferencePair], count: int, *, round_number: int) -> list[int]:
    """Return `count` rows drawn by a hash: our ablation without support mining."""
    draws = sorted(range(len(pairs)), key=lambda row: hashed_fraction("random", str(round_number), pairs[row].id))
    return draws[:count]


# ── hard negatives ──────────────────────────────────────────────────────────────────────────────────────────────────


async def find_negatives(
    session: Session, number: int, fitted: FittedRound, support: Sequence[PreferencePair]
) -> list[HardNegative]:
    """Return each support pair's hard negatives: of its candidates, the nearest to the boundary or all near it.

    The pair's own response is no negative: the mean of a loss and itself is that loss (`sec:adv`). A response of the
    data is one only if just the hardest is taken, as an additional triple; else it is trained on already.
    """
    options = await _candidates(session, number, support)
    index = {candidate.rubric.id: place for place, candidate in enumerate(fitted.bank)}
    importances = {pair.id: _importance(session, fitted, pair) for pair in support if len(options[pair.id]) > 1}
    active = {pair_id: _pool_for(values, session.config.selection_pool) for pair_id, values in importances.items()}
    tasks = [
        PoolTask(option, [fitted.bank[place].rubric for place in places if place not in known])
        for pair_id, places in active.items()
        for option in options[pair_id]
        for known in [set(session.boundary.asked(option.id, index).tolist())]
        if any(place not in known for place in places)
    ]
    await judge_tasks(session, f"negatives-{number}", tasks, session.boundary)
    found: list[HardNegative] = []
    trained_on = {pair.id for pair in session.material.train}
    near = session.config.support_margin if session.config.every_near else -math.inf
    for pair in support:
        if pair.id in active:
            margins = [
                (option, _margin(session.boundary, option, index, importances[pair.id], active[pair.id]))
                for option in options[pair.id]
                if option is pair or _all_judged(session.boundary, option, pair, index, active[pair.id])
            ]
            negatives = hard_negatives(pair, margins, margin=near)
            found += [negative for negative in negatives if negative.pair.id not in trained_on]
    return found


async def _candidates(
    session: Session, number: int, support: Sequence[PreferencePair]
) -> dict[str, list[PreferencePair]]:
    """Return P(x) of each support pair as triples: the pair itself, the data's alternatives, a probe (`sec:adv`)."""
    others = alternatives(session.material.train)
    options: dict[str, list[PreferencePair]] = {}
    for pair in support:
        given = others.get(pair.id, ())
        if not session.config.every_near:  # a triple of this pair, with its own id
            given = tuple(replace(other, id=f"{pair.id}~{other.id}") for other in given)
        options[pair.id] = [pair, *given]
    if "probe" not in session.config.ablate:
        for pair, probe in zip(support, await probes(session, number, support), strict=True):
            if probe is not None and usable_probe(pair, probe, same=session.config.same_response):
                options[pair.id].append(probed_pair(pair, probe, round_number=number))
    return options


async def probes(session: Session, number: int, support: Sequence[PreferencePair]) -> list[str | None]:
    """Ask for a probe of each support pair, or read them back."""
    stage = f"probe-{number}"
    digest = session.digest(session.judges.author.name, [pair_to_json(pair) for pair in support])
    held = session.stages.load(stage, digest, lambda values, _: _probes_of(values["probes"], len(support)))
    if held is not None:
        return held
    if support:
        session.say(f"probing {len(support)} support pairs")
    found, outcomes = await judge_calls.probe(session.judges, support)
    session.stages.save(stage, digest, {"probes": found, "outcomes": dict(outcomes)})
    return found


def _probes_of(held: Any, count: int) -> list[str | None]:
    if not isinstance(held, list) or len(held) != count:
        raise ValueError(f"it does not hold the probes of {count} pairs")
    return held


def usable_probe(pair: PreferencePair, probe: str, *, same: float) -> bool:
    """Whether a probe is another response: not empty, no refusal, and less similar to the chosen one than `same`.

    Similarity is 1 − (insertions and deletions) / (letters of both), over the first 4,000 letters and digits. If those
    are equal, a text is another response if it differs further on, or in a symbol, as code does by a bracket; white
    space, case and punctuation of prose do not count.
    """
    if not probe.strip() or _bare(probe) == _bare(pair.chosen) or is_refusal(view_of(probe)):
        return False
    first, second = normalised(pair.chosen)[:COMPARED_CHARS], normalised(probe)[:COMPARED_CHARS]
    return first == second or float(Indel.normalized_similarity(first, second)) < same


def _bare(text: str) -> str:
    return _PROSE_MARKS.sub("", text).casefold()


def probed_pair(pair: PreferencePair, probe: str, *, round_number: int) -> PreferencePair:
    """Return the triple (x, chosen, probe), with its own id and no fixed order."""
    return replace(pair, id=f"{pair.id}~probe{round_number}", rejected=probe, chosen_first=True)


def alternatives(pairs: Sequence[PreferencePair]) -> Mapping[str, tuple[PreferencePair, ...]]:
    """Return, by pair id, the other pairs with the same prompt and chosen response: the data's own alternatives."""
    groups: dict[tuple[object, str], list[PreferencePair]] = {}
    for pair in pairs:
        groups.setdefault((pair.prompt, pair.chosen), []).append(pair)
    return {
        pair.id: tuple(other for other in group if other.rejected != pair.rejected)
        for group in groups.values()
        if len(group) > 1
        for pair in group
    }


def hard_negatives(
    original: PreferencePair, margins: Sequence[tuple[PreferencePair, float]], *, margin: float = -math.inf
) -> list[HardNegative]:
    """Return the candidate with the smallest margin, ties to the earlier, and all with one <= `margin`; never the pair.

    The paper takes the smallest alone. If a pair is decided wrongly, that is often the pair itself, and the near copy
    that shows what its two responses hide would be lost.
    """
    lowest = min(margins, key=lambda entry: entry[1], default=(original, 0.0))[0]
    taken = [pair for pair, value in margins if pair is lowest or value <= margin]
    return [HardNegative(pair=pair, of=original.id) for pair in taken if pair.id != original.id]


def _importance(session: Session, fitted: FittedRound, pair: PreferencePair) -> NDArray[np.float32]:
    features = session.material.prompts.features(session.material.prompts.row(pair))
    return alpha_numpy(fitted.selector, *features) * fitted.selector.weight


def _pool_for(importance: NDArray[np.float32], size: int) -> list[int]:
    """Return the rubrics that candidates of a prompt are compared on: the selection pool."""
    best = np.argsort(-importance, kind="stable")[:size]
    return sorted(int(place) for place in best if importance[place] > 0)


def _all_judged(
    ledger: Ledger, option: PreferencePair, pair: PreferencePair, index: Mapping[str, int], places: Sequence[int]
) -> bool:
    """Whether an option has a verdict wherever its original has one: an unanswered question is no low margin."""
    known, wanted = (set(ledger.entries(one.id, index)[0].tolist()) for one in (option, pair))
    return bool(known) and wanted.intersection(places) <= known


def _margin(
    ledger: Ledger,
    pair: PreferencePair,
    index: Mapping[str, int],
    importance: NDArray[np.float32],
    places: Sequence[int],
) -> float:
    rubric, z = ledger.entries(pair.id, index)
    wanted = np.isin(rubric, np.array(places, dtype=np.int32))
    return float((importance[rubric[wanted]] * z[wanted]).sum())
