"""The boundary: support pairs, probes, hard negatives, and what is induced from them (paper `sec:adv`)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from svr_async.core.pair import PreferencePair
from svr_async.fit.arrays import FitArrays
from svr_async.fit.forward import Selector, alpha_numpy, hidden_matrix
from svr_async.training.bank.prune_redundant import redundancy_edges
from svr_async.training.rounds import judge_calls
from svr_async.training.rounds.induction import counted, induced
from svr_async.training.rounds.judge_calls import PoolTask
from svr_async.training.rounds.judgements import judge_tasks, sources_of
from svr_async.training.rounds.ledger import Ledger
from svr_async.training.rounds.problem import HardNegative, build_arrays
from svr_async.training.rounds.session import FittedRound, Growth, Session
from svr_async.training.rounds.state import pair_to_json
from svr_async.training.rounds.support import (
    alternatives,
    beside,
    hard_negatives,
    most_support,
    probed_pair,
    random_rows,
    support_rows,
    usable_probe,
)


async def grow(session: Session, number: int, fitted: FittedRound, growth: Growth) -> Growth:
    """Find the support pairs, probe them, pick hard negatives, and induce from both."""
    support = find_support(session, number, fitted)
    session.say(f"round {number}: {len(support)} support pairs")
    negatives = await find_negatives(session, number, fitted, support)
    session.say(f"round {number}: {len(negatives)} hard negatives")
    pairs = [*support, *(negative.pair for negative in negatives)]
    sources = {negative.pair.id: negative.of for negative in negatives}
    fresh = await induced(session, f"induce-{number + 1}", pairs, sources) if pairs else ()
    known = {candidate.rubric.id for candidate in growth.candidates}
    new = any(candidate.rubric.id not in known for candidate in fresh)
    candidates = counted([*growth.candidates, *fresh]) if new else growth.candidates
    held = growth.negatives if session.config.keep_negatives else ()
    kept = {negative.pair.id: negative for negative in (*held, *negatives)}
    return Growth(
        candidates=candidates,
        pruned=growth.pruned,
        negatives=tuple(kept.values()),
        support=tuple(pair.id for pair in support),
    )


def find_support(session: Session, number: int, fitted: FittedRound) -> list[PreferencePair]:
    """Return the support pairs of this round: all with margin <= tau, or as many as `max_support` and the share allow.

    Where support mining is ablated, as many drawn at random stand for them, or every training pair.
    """
    config, train = session.config, session.material.train
    if "support" in config.ablate and config.without_support == "every":
        return list(train)
    index = {candidate.rubric.id: place for place, candidate in enumerate(fitted.bank)}
    sources = sources_of(session, fitted.bank)
    edges = redundancy_edges([candidate.rubric.text for candidate in fitted.bank], config.redundancy_cutoff)
    arrays = build_arrays(train, (), session.material.prompts, session.ledger, index, sources, edges)
    margins = session.margins(fitted.selector, arrays)
    known = np.diff(arrays.z_indptr) > 0
    kinds = kinds_of(fitted.selector, arrays) if config.support_by_kind else None
    most = most_support(len(train), share=config.support_share, most=config.max_support)
    rows = support_rows(margins, known, margin=config.support_margin, most=most, kinds=kinds)
    if "support" in config.ablate:
        rows = random_rows(train, len(rows), round_number=number)
    return [train[row] for row in rows]


def kinds_of(selector: Selector, arrays: FitArrays) -> NDArray[np.float32] | None:
    """Return each pair's share in each kind of prompts (pair, kind); None where the selector tells no kinds apart."""
    if selector.kind != "topics" or not arrays.n_pairs:
        return None
    return hidden_matrix(selector, arrays, arrays.pair_prompt)


async def find_negatives(
    session: Session, number: int, fitted: FittedRound, support: Sequence[PreferencePair]
) -> list[HardNegative]:
    """Return each support pair's hard negatives: of its candidates, the nearest to the boundary or all near it.

    The pair's own response is none: the mean of a loss and itself is that loss (`sec:adv`). A response of the data is
    one only where the hardest alone is taken, as an additional triple; else it is trained on already.
    """
    options = await _candidates(session, number, support)
    index = {candidate.rubric.id: place for place, candidate in enumerate(fitted.bank)}
    active = {pair.id: _pool_for(session, fitted, pair) for pair in support if len(options[pair.id]) > 1}
    tasks = [
        PoolTask(option, [fitted.bank[place].rubric for place in places if place not in known])
        for pair_id, places in active.items()
        for option in options[pair_id]
        for known in [set(session.boundary.asked(option.id, index).tolist())]
        if any(place not in known for place in places)
    ]
    await judge_tasks(session, f"negatives-{number}", tasks, session.boundary)
    found = []
    trained_on = {pair.id for pair in session.material.train}
    near = session.config.support_margin if session.config.every_near else -math.inf
    for pair in support:
        if pair.id in active:
            importance = _importance(session, fitted, pair)
            margins = [
                (option, _margin(session.boundary, option, index, importance, active[pair.id]))
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
    as_its_own = not session.config.every_near
    options = {
        pair.id: [pair, *(beside(pair, other) if as_its_own else other for other in others.get(pair.id, ()))]
        for pair in support
    }
    if "probe" not in session.config.ablate:
        for pair, probe in zip(support, await probes(session, number, support), strict=True):
            if usable_probe(pair, probe, same=session.config.same_response) and probe is not None:
                options[pair.id].append(probed_pair(pair, probe, round_number=number))
    return options


async def probes(session: Session, number: int, support: Sequence[PreferencePair]) -> list[str | None]:
    """Ask for a probe of each support pair, or read them back."""
    stage = f"probe-{number}"
    digest = session.digest(session.crew.author.name, [pair_to_json(pair) for pair in support])
    held: list[str | None] | None = session.stages.load(
        stage, digest, lambda values, _: _whole(values["probes"], len(support))
    )
    if held is not None:
        return held
    if support:
        session.say(f"probing {len(support)} support pairs")
    found, asked = await judge_calls.probe(session.crew, support)
    session.stages.save(stage, digest, {"probes": found, "outcomes": dict(asked.outcomes)})
    return found


def _whole(held: Any, count: int) -> list[str | None]:
    """Return probes as they are; ValueError where they cannot be those of so many pairs."""
    if not isinstance(held, list) or len(held) != count or not all(isinstance(one, str | None) for one in held):
        raise ValueError(f"they are no probes of {count} pairs")
    return held


def _importance(session: Session, fitted: FittedRound, pair: PreferencePair) -> NDArray[np.float32]:
    features = session.material.prompts.features(session.material.prompts.row(pair))
    return alpha_numpy(fitted.selector, *features) * fitted.selector.weight


def _pool_for(session: Session, fitted: FittedRound, pair: PreferencePair) -> list[int]:
    """Return the places of the rubrics that candidates of this prompt are compared on: the selection pool."""
    importance = _importance(session, fitted, pair)
    best = np.argsort(-importance, kind="stable")[: session.config.selection_pool]
    return sorted(int(place) for place in best if importance[place] > 0)


def _all_judged(
    ledger: Ledger, option: PreferencePair, pair: PreferencePair, index: Mapping[str, int], places: Sequence[int]
) -> bool:
    """Whether an option has a verdict wherever its original has one: what was not answered is no low margin."""
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
