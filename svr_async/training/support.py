"""Support pairs and hard negatives: the pairs near the boundary, and the response nearest to crossing it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from rapidfuzz.distance import Indel

from svr_async.judges.rules.judge import view_of
from svr_async.judges.rules.safety import is_refusal
from svr_async.training.problem import HardNegative
from svr_async.vocabulary.pair import PreferencePair, hashed_fraction
from svr_async.vocabulary.similarity import normalised

COMPARED_CHARS = 4000


def support_rows(margins: NDArray[np.float32], known: NDArray[np.bool_], *, margin: float, most: int) -> list[int]:
    """Return the rows with margin <= `margin`, hardest first, ties in row order, at most `most` (paper `sec:adv`).

    Rows that are not `known` (no judged entry) have no margin and are left out.
    """
    near = np.flatnonzero(known & (margins <= margin))
    ordered = near[np.argsort(margins[near], kind="stable")]
    return [int(row) for row in ordered[:most]]


def random_rows(pairs: Sequence[PreferencePair], count: int, *, round_number: int) -> list[int]:
    """Return as many rows as there would be support pairs, drawn by a hash: the ablation without support mining."""
    draws = sorted(range(len(pairs)), key=lambda row: hashed_fraction("random", str(round_number), pairs[row].id))
    return draws[:count]


def usable_probe(pair: PreferencePair, probe: str | None, *, same: float) -> bool:
    """Whether a probe is another response: not empty, no refusal, and less similar to the chosen one than `same`.

    Similarity is 1 − (insertions and deletions) / (letters of both), over the first 4,000 letters and digits; a text
    that differs in its other characters alone, as code does by a bracket, is another response.
    """
    if probe is None or not probe.strip() or probe.strip() == pair.chosen.strip() or is_refusal(view_of(probe)):
        return False
    first, second = normalised(pair.chosen)[:COMPARED_CHARS], normalised(probe)[:COMPARED_CHARS]
    if first == second:
        return len(pair.chosen) != len(probe)
    return float(Indel.normalized_similarity(first, second)) < same


def probed_pair(pair: PreferencePair, probe: str, *, round_number: int) -> PreferencePair:
    """Return the triple (x, chosen, probe), with an id of its own and no fixed order."""
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


def hardest(original: PreferencePair, margins: Sequence[tuple[PreferencePair, float]]) -> HardNegative | None:
    """Return the candidate with the smallest margin, ties to the earlier; None where that is the pair itself."""
    if not margins:
        return None
    pair, _ = min(margins, key=lambda entry: entry[1])
    return None if pair.id == original.id else HardNegative(pair=pair, of=original.id)
