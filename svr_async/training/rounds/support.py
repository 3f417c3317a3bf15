"""Support pairs and hard negatives: the pairs near the boundary, and the response nearest to crossing it."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from rapidfuzz.distance import Indel

from svr_async.core.pair import PreferencePair, hashed_fraction
from svr_async.core.similarity import normalised
from svr_async.judges.rules.judge import view_of
from svr_async.judges.rules.safety import is_refusal
from svr_async.training.rounds.problem import HardNegative

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
