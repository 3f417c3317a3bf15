"""All pairs of similar texts among very many: the same pairs and values as the plain double loop, without its cost.

`vocabulary.similarity` defines the measure: the larger of the Jaccard overlap J of content tokens and difflib's ratio
R = 2·M/T of the normalised texts (M letters in matching blocks, T letters in both). Two searches find every pair that
can reach the cutoff, by bounds that never lose one, and only those pairs are measured, by the definition itself.

R. The matching blocks are common to both texts and follow each other in both, so together they spell a common
subsequence: M ≤ LCS, hence R ≤ 2·LCS/T. Division is monotone in floats too, so a pair with fl(2·LCS/T) < cutoff
cannot have R ≥ cutoff. A pair that can needs M ≥ m(T), the least integer with fl(2·m/T) ≥ cutoff, so at most
d(T) = T − 2·m(T) letters may be inserted or deleted to turn one text into the other. From this budget follow
- lengths: they differ by at most d;
- letters: an insertion or deletion changes the count of one letter by one, so the counts differ by at most d in
  total; one bit per (letter, level) that says "at least so many" makes this the distance of two bit strings, and
  leaving bits out only lowers it.
Texts sorted by length are compared row by row on the most telling 128 bits, then on the others; what is left
meets the LCS (rapidfuzz) and at last the ratio itself (cdifflib where it is installed, which counts as difflib does).

J. With tokens in one order, rarest first, two sets whose overlap reaches the least that the cutoff allows share a
token among their first |set| − least + 1 ones (prefix filtering): only sets listed under such a token meet, within
the sizes that the cutoff allows, if 64 parity bits of their tokens do not differ too much.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import combinations
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from svr_async.core.similarity import content_tokens, jaccard, normalised
from svr_async.training.bank.text_bits import LetterBits, letter_bits, token_bits

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Key = TypeVar("Key", bound=Hashable)

_Measure = Callable[[Sequence[str], "Ints", "Ints", "Ints", float], "SimilarPairs"]
BLOCK_ROWS = 256
FEW = 12  # lists shorter than this meet pair by pair: cheaper than calling NumPy


@dataclass(frozen=True, slots=True, eq=False)
class SimilarPairs:
    """Pairs first < second of positions with their similarity, in ascending order: a sparse matrix above a cutoff."""

    first: Ints
    second: Ints
    similarity: Floats

    def __len__(self) -> int:
        return len(self.first)

    def above(self, cutoff: float) -> SimilarPairs:
        """Return the pairs with similarity >= cutoff."""
        keep = self.similarity >= cutoff
        return SimilarPairs(self.first[keep], self.second[keep], self.similarity[keep])

    def neighbours(self, size: int) -> list[list[tuple[int, float]]]:
        """Return, for each of `size` positions, its (other position, similarity), in order of position."""
        found: list[list[tuple[int, float]]] = [[] for _ in range(size)]
        for one, other, value in zip(self.first.tolist(), self.second.tolist(), self.similarity.tolist(), strict=True):
            found[one].append((other, value))
            found[other].append((one, value))
        for row in found:
            row.sort()
        return found


NO_PAIRS = SimilarPairs(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.float64))


def similar_pairs(texts: Sequence[str], cutoff: float, *, workers: int | None = None) -> SimilarPairs:
    """Return every pair of texts with similarity >= cutoff, exactly as a double loop over `similarity` would.

    `cutoff` in (0, 1]. `workers` threads share the search (default: the cores at hand); the result does not depend on
    them. Time and memory grow with the pairs found.
    """
    return _search(texts, cutoff, workers or _cores(), _with_ratio)


def possible_pairs(texts: Sequence[str], cutoff: float, *, workers: int | None = None) -> SimilarPairs:
    """Return every pair that `similar_pairs` finds, and some more, with upper bounds in the place of similarities.

    The bound is max(J, 2·LCS/T). Where few of the pairs are looked at, this spares the costly part, difflib's ratio.
    """
    return _search(texts, cutoff, workers or _cores(), _with_bound)


def exact_similarity(first: str, second: str) -> float:
    """Return `vocabulary.similarity.similarity` of two texts, by a faster matcher where there is one."""
    if first == second:
        return 1.0
    shorter, longer = sorted((normalised(first), normalised(second)), key=lambda text: (len(text), text))
    overlap = jaccard(content_tokens(first), content_tokens(second))
    return max(overlap, _matcher()(None, shorter, longer, autojunk=False).ratio()) if shorter else overlap


def _search(texts: Sequence[str], cutoff: float, workers: int, measure: _Measure) -> SimilarPairs:
    """Find pairs among the distinct normalised texts, on which the similarity depends alone, then among all."""
    if not 0 < cutoff <= 1:
        raise ValueError(f"cutoff must be > 0 and <= 1 (got {cutoff})")
    plain = [normalised(text) for text in texts]
    places = _places(plain)
    blank = places.pop("", [])
    distinct = sorted(places, key=lambda text: (len(text), text))
    by_letters = _pairs_by_letters(distinct, cutoff, workers, measure)
    by_tokens = _pairs_by_tokens([content_tokens(text) for text in distinct], cutoff)
    found = _spread(_joined(by_letters, by_tokens), [places[text] for text in distinct])
    return _joined(found, _equal_pairs([texts[place] for place in blank], blank))


def _matcher() -> type[SequenceMatcher[str]]:
    """Return difflib's matcher, or the one in C that gives the same numbers: the extra `fast`, built by a compiler."""
    try:
        from cdifflib import CSequenceMatcher
    except ImportError:
        return SequenceMatcher
    return CSequenceMatcher  # type: ignore[no-any-return]


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _places(values: Iterable[Key]) -> dict[Key, list[int]]:
    """Return where each value occurs."""
    places: dict[Key, list[int]] = defaultdict(list)
    for place, value in enumerate(values):
        places[value].append(place)
    return dict(places)


def _equal_pairs(values: Sequence[str], places: Sequence[int]) -> SimilarPairs:
    """Return the pairs of equal values, at their places: texts without letters or digits are alike only if equal."""
    rows = [(places[i], places[j]) for same in _places(values).values() for i, j in combinations(same, 2)]
    return _pairs_of([(i, j, 1.0) for i, j in rows])


def _pairs_of(rows: Sequence[tuple[int, int, float]]) -> SimilarPairs:
    if not rows:
        return NO_PAIRS
    first, second, values = zip(*rows, strict=True)
    return SimilarPairs(
        np.array(first, dtype=np.int64), np.array(second, dtype=np.int64), np.array(values, dtype=np.float64)
    )


def _joined(*parts: SimilarPairs) -> SimilarPairs:
    """Return all pairs in ascending order; one that occurs twice has the larger value."""
    first = np.concatenate([part.first for part in parts])
    second = np.concatenate([part.second for part in parts])
    values = np.concatenate([part.similarity for part in parts])
    low, high = np.minimum(first, second), np.maximum(first, second)
    order = np.lexsort((-values, high, low))
    low, high, values = low[order], high[order], values[order]
    fresh = np.ones(len(low), dtype=bool)
    fresh[1:] = (low[1:] != low[:-1]) | (high[1:] != high[:-1])
    return SimilarPairs(low[fresh], high[fresh], values[fresh])


def _spread(found: SimilarPairs, places: Sequence[list[int]]) -> SimilarPairs:
    """Replace each distinct value by all of its places; the places of one value are pairs of similarity 1."""
    counts = np.array([len(group) for group in places], dtype=np.int64)
    flat = np.array([place for group in places for place in group], dtype=np.int64)
    starts = np.cumsum(counts) - counts
    many = counts[found.first] * counts[found.second]
    pair = np.repeat(np.arange(len(found)), many)
    within = np.arange(len(pair)) - np.repeat(np.cumsum(many) - many, many)
    first, second = found.first[pair], found.second[pair]
    spread = SimilarPairs(
        flat[starts[first] + within // counts[second]],
        flat[starts[second] + within % counts[second]],
        found.similarity[pair],
    )
    copies = [(i, j, 1.0) for group in places if len(group) > 1 for i, j in combinations(group, 2)]
    return _joined(spread, _pairs_of(copies))


# ── letters: the ratio ──────────────────────────────────────────────────────────────────────────────────────────────


def edit_budgets(longest: int, cutoff: float) -> Ints:
    """Return d(T) for T = 0 … 2·longest: how many insertions and deletions a pair with ratio >= cutoff can have.

    Negative where no pair with T letters reaches the cutoff.
    """
    letters = np.arange(2 * longest + 1)
    least = np.maximum(np.ceil(cutoff * letters / 2).astype(np.int64) - 2, 0)
    for _ in range(4):
        least += 2.0 * least / np.maximum(letters, 1) < cutoff
    budgets: Ints = letters - 2 * least
    return budgets


def _pairs_by_letters(texts: Sequence[str], cutoff: float, workers: int, measure: _Measure) -> SimilarPairs:
    """Return the pairs of distinct normalised texts, sorted by length, whose ratio or its bound reaches the cutoff."""
    if len(texts) < 2:
        return NO_PAIRS
    scan = _Scan.over(texts, cutoff)
    starts = range(0, len(texts), BLOCK_ROWS)
    with ThreadPoolExecutor(workers) as threads:
        near = list(threads.map(scan.survivors, starts))
    rows, columns, edits = (np.concatenate(parts) for parts in zip(*near, strict=True))
    return measure(texts, rows, columns, edits, cutoff)


@dataclass(frozen=True, slots=True, eq=False)
class _Scan:
    """Everything that the threads read while they look for pairs within the edit budget."""

    texts: Sequence[str]
    lengths: Ints
    bits: LetterBits
    budgets: Ints
    stops: dict[int, int]
    limits: dict[int, tuple[int, NDArray[np.uint8]]]

    @classmethod
    def over(cls, texts: Sequence[str], cutoff: float) -> _Scan:
        """Prepare bits, and per length where the window ends and how many bits may differ in each of its columns."""
        lengths = np.array([len(text) for text in texts], dtype=np.int64)
        budgets = edit_budgets(int(lengths[-1]), cutoff)
        stops: dict[int, int] = {}
        limits: dict[int, tuple[int, NDArray[np.uint8]]] = {}
        for length in np.unique(lengths).tolist():
            others = np.arange(length, int(lengths[-1]) + 1)
            reach = int(others[budgets[length + others] >= others - length].max())
            begin, stops[length] = (int(i) for i in np.searchsorted(lengths, [length, reach + 1]))
            allowed = budgets[length + lengths[begin : stops[length]]]
            limits[length] = begin, np.clip(allowed, 0, 255).astype(np.uint8)
        return cls(texts, lengths, letter_bits(texts), budgets, stops, limits)

    def survivors(self, start: int) -> tuple[Ints, Ints, Ints]:
        """Return rows, columns and edits of the pairs within the budget, for a block of rows."""
        rows = range(start, min(start + BLOCK_ROWS, len(self.texts)))
        found = [self._within_budget(row, self._near(row)) for row in rows]
        repeated = np.repeat(np.array(rows, dtype=np.int64), [len(columns) for columns, _ in found])
        return repeated, np.concatenate([c for c, _ in found]), np.concatenate([e for _, e in found])

    def _near(self, row: int) -> Ints:
        """Return the columns after `row` whose letter counts allow a pair within the budget."""
        length = int(self.lengths[row])
        stop, (begin, limits) = self.stops[length], self.limits[length]
        apart = np.zeros(stop - row - 1, dtype=np.uint8)
        for word in self.bits.telling:
            apart += np.bitwise_count(word[row + 1 : stop] ^ word[row])
        found = np.flatnonzero(apart <= limits[row + 1 - begin :]) + row + 1
        letters = np.bitwise_count(self.bits.rows[found] ^ self.bits.rows[row]).sum(axis=1)
        kept: Ints = found[letters <= self._allowed(row, found)]
        return kept

    def _within_budget(self, row: int, columns: Ints) -> tuple[Ints, Ints]:
        """Return the columns whose LCS with the row is long enough, and the edits between each and the row."""
        from rapidfuzz.distance import Indel
        from rapidfuzz.process import cdist

        if not len(columns):
            return columns, columns
        allowed = self._allowed(row, columns)
        others = [self.texts[column] for column in columns.tolist()]
        most = int(allowed.max())
        edits = cdist([self.texts[row]], others, scorer=Indel.distance, score_cutoff=most, dtype=np.int32, workers=1)
        keep = edits[0] <= allowed
        return columns[keep], edits[0][keep].astype(np.int64)

    def _allowed(self, row: int, columns: Ints) -> Ints:
        allowed: Ints = self.budgets[self.lengths[row] + self.lengths[columns]]
        return allowed


def _with_bound(texts: Sequence[str], rows: Ints, columns: Ints, edits: Ints, cutoff: float) -> SimilarPairs:  # noqa: ARG001
    """Bound the ratio by 2·LCS/T; the edits between two texts are T − 2·LCS."""
    lengths = np.array([len(text) for text in texts], dtype=np.int64)
    total = lengths[rows] + lengths[columns]
    return SimilarPairs(rows, columns, (total - edits) / total)


def _with_ratio(texts: Sequence[str], rows: Ints, columns: Ints, edits: Ints, cutoff: float) -> SimilarPairs:  # noqa: ARG001
    """Measure the pairs with difflib's own ratio; the longer text stays in place while shorter ones meet it."""
    order = np.lexsort((rows, columns))
    found: list[tuple[int, int, float]] = []
    matcher, held = _matcher()(None, "", "", autojunk=False), -1
    for row, column in zip(rows[order].tolist(), columns[order].tolist(), strict=True):
        if column != held:
            matcher.set_seq2(texts[column])
            held = column
        matcher.set_seq1(texts[row])
        ratio = matcher.ratio()
        if ratio >= cutoff:
            found.append((row, column, ratio))
    return _pairs_of(found)


# ── tokens: the Jaccard overlap ─────────────────────────────────────────────────────────────────────────────────────


def _pairs_by_tokens(sets: Sequence[frozenset[str]], cutoff: float) -> SimilarPairs:
    """Return the pairs of token sets whose Jaccard overlap reaches the cutoff; empty sets overlap nothing."""
    places = _places(sets)
    places.pop(frozenset(), None)
    distinct = sorted(places, key=lambda tokens: (len(tokens), sorted(tokens)))
    found = _pairs_of(_prefix_join(distinct, cutoff))
    return _spread(found, [places[tokens] for tokens in distinct])


def _prefix_join(sets: Sequence[frozenset[str]], cutoff: float) -> list[tuple[int, int, float]]:
    """Return (first, second, Jaccard) of distinct sets, sorted by size, by looking under their rarest tokens."""
    sizes = np.array([len(tokens) for tokens in sets], dtype=np.int64)
    bits, slack = token_bits(sets), _Slack(int(sizes[-1]) if len(sets) else 0, cutoff)
    found: dict[tuple[int, int], float] = {}
    for members in _postings(sets, cutoff):
        for one, other in _close(members, sizes, bits, slack):
            if (one, other) not in found:
                found[one, other] = jaccard(sets[one], sets[other])
    return [(one, other, value) for (one, other), value in found.items() if value >= cutoff]


def _postings(sets: Sequence[frozenset[str]], cutoff: float) -> list[list[int]]:
    """Return, for each token, the sets that have it in their prefix, in the order of `sets`."""
    counts = Counter(token for tokens in sets for token in tokens)
    postings: dict[str, list[int]] = defaultdict(list)
    for place, tokens in enumerate(sets):
        ranked = sorted(tokens, key=lambda token: (counts[token], token))
        for token in ranked[: len(tokens) - least_overlap(len(tokens), cutoff) + 1]:
            postings[token].append(place)
    return [members for members in postings.values() if len(members) > 1]


def least_overlap(size: int, cutoff: float) -> int:
    """Return the least o with o / size >= cutoff: no set of this size reaches the cutoff with a smaller overlap."""
    least = max(int(cutoff * size) - 1, 1)
    while least / size < cutoff:
        least += 1
    return least


class _Slack:
    """How many tokens two sets of given sizes may differ by and still reach the cutoff; negative where they cannot."""

    def __init__(self, largest: int, cutoff: float) -> None:
        self._largest, self._cutoff = largest, cutoff
        self._rows: dict[int, Ints] = {}

    def row(self, size: int) -> Ints:
        """Return the slack against every size from 0 to the largest."""
        if size not in self._rows:
            self._rows[size] = self._computed(size)
        return self._rows[size]

    def _computed(self, size: int) -> Ints:
        total = size + np.arange(self._largest + 1)
        overlap = np.maximum(np.ceil(self._cutoff * total / (1 + self._cutoff)).astype(np.int64) - 2, 0)
        for _ in range(4):
            overlap += overlap / np.maximum(total - overlap, 1) < self._cutoff
        slack: Ints = total - 2 * overlap
        return slack


def _close(members: Sequence[int], sizes: Ints, bits: NDArray[np.uint64], slack: _Slack) -> Iterable[tuple[int, int]]:
    """Yield the pairs of a posting list whose sizes and parity bits allow the cutoff."""
    if len(members) < FEW:
        yield from combinations(members, 2)
        return
    listed = np.array(members, dtype=np.int64)
    listed_sizes, listed_bits = sizes[listed], bits[listed]
    for place, one in enumerate(members):
        size = int(listed_sizes[place])
        row = slack.row(size)
        allowed = row[listed_sizes[place + 1 :]]
        apart = np.bitwise_count(listed_bits[place + 1 :] ^ listed_bits[place])
        near = (apart <= allowed) & (listed_sizes[place + 1 :] - size <= allowed)
        for other in listed[place + 1 :][near].tolist():
            yield one, other
