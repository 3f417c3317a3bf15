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
from svr_async.fit.arrays import FitArrays
from svr_async.fit.forward import Selector, alpha_numpy, hidden_matrix
from svr_async.judges.rules.judge import view_of
from svr_async.judges.rules.safety import is_refusal
from svr_async.training.bank.near_duplicates import redundancy_edges
from svr_async.training.rounds import judge_calls
from svr_async.training.rounds.induction import counted, induced
from svr_async.training.rounds.judge_calls import PoolTask
from svr_async.training.rounds.pools import judge_tasks, sources_of
from svr_async.training.rounds.session import FittedRound, Growth, HardNegative, Ledger, Session, build_arrays
from svr_async.training.rounds.stages import pair_to_json


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


COMPARED_CHARS = 4000
FEW = 64  # least support pairs: with fewer, a round of small data finds nothing new and training ends
_PROSE_MARKS = re.compile("[\\s.,;:!?…'\"’“”]+")


def most_support(n_pairs: int, *, share: float, most: int) -> int:
    """Return how many support pairs there may be: a share of the training pairs, 64 at least, `most` at most.

    `most` is the paper's (`app:hparams`), the share ours.
    """
    return min(most, max(FEW, math.ceil(share * n_pairs)))


def support_rows(
    margins: NDArray[np.float32],
    known: NDArray[np.bool_],
    *,
    margin: float,
    most: int,
    kinds: NDArray[np.float32] | None = None,
) -> list[int]:
    """Return the rows with margin <= `margin` (paper `sec:adv`), hardest first, ties in row order, at most `most`.

    The paper caps them (`app:hparams`) and does not say which are taken; that the hardest come first is ours.
    With `kinds` (row, kind), each row's share in each kind of prompts, pairs of the kinds that fail most often come
    first, and the hardest first among equals: of the hardest pairs of all, many are labelled the wrong way round. Rows
    that are not `known` (no judged entry) have no margin and are left out.
    """
    near = known & (margins <= margin)
    rows = np.flatnonzero(near)
    hardest_first = margins[rows]
    order = np.argsort(hardest_first, kind="stable")
    if kinds is not None:
        order = np.lexsort((hardest_first, -failing(kinds, near)[rows]))
    return [int(row) for row in rows[order][:most]]


def failing(kinds: NDArray[np.float32], near: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return, for each row, the share of its kind that is near the boundary; `kinds` (row, kind) has rows of sum 1."""
    shares = kinds.astype(np.float64)
    failing_share: NDArray[np.float64] = shares.T @ near / np.maximum(shares.sum(axis=0), 1e-12)
    of_rows: NDArray[np.float64] = shares @ failing_share
    return of_rows


def random_rows(pairs: Sequence[PreferencePair], count: int, *, round_number: int) -> list[int]:
    """Return as many rows as there would be support pairs, drawn by a hash: our ablation without support mining."""
    draws = sorted(range(len(pairs)), key=lambda row: hashed_fraction("random", str(round_number), pairs[row].id))
    return draws[:count]


def usable_probe(pair: PreferencePair, probe: str | None, *, same: float) -> bool:
    """Whether a probe is another response: not empty, no refusal, and less similar to the chosen one than `same`.

    Similarity is 1 − (insertions and deletions) / (letters of both), over the first 4,000 letters and digits. Where
    those are the same, a text is another response if it differs further on, or in a symbol, as code does by a bracket;
    white space, case and the marks of prose alone make none.
    """
    if probe is None or not probe.strip() or _bare(probe) == _bare(pair.chosen) or is_refusal(view_of(probe)):
        return False
    first, second = normalised(pair.chosen)[:COMPARED_CHARS], normalised(probe)[:COMPARED_CHARS]
    return first == second or float(Indel.normalized_similarity(first, second)) < same


def _bare(text: str) -> str:
    return _PROSE_MARKS.sub("", text).casefold()


def probed_pair(pair: PreferencePair, probe: str, *, round_number: int) -> PreferencePair:
    """Return the triple (x, chosen, probe), with an id of its own and no fixed order."""
    return replace(pair, id=f"{pair.id}~probe{round_number}", rejected=probe, chosen_first=True)


def beside(pair: PreferencePair, other: PreferencePair) -> PreferencePair:
    """Return an alternative of the data as a further triple of `pair`, with an id of its own."""
    return replace(other, id=f"{pair.id}~{other.id}")


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

    The paper takes the smallest alone. Where a pair is decided wrongly, that is often the pair itself, and the near
    copy that shows what its two responses hide would be lost.
    """
    lowest = min(margins, key=lambda entry: entry[1], default=(original, 0.0))[0]
    taken = [pair for pair, value in margins if pair is lowest or value <= margin]
    return [HardNegative(pair=pair, of=original.id) for pair in taken if pair.id != original.id]
