"""From proposed rubrics to a bank's: near-duplicates become one, with the counts and sources of all.

`core.similarity` defines the measure: the larger of the Jaccard overlap of content tokens and difflib's ratio.
rapidfuzz sorts out, in blocks, the pairs that cannot reach the cutoff; the measure itself decides about the others.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import chain
from math import fsum
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rapidfuzz.distance import Indel
from rapidfuzz.process import cdist

from svr_async.core.pair import PreferencePair
from svr_async.core.rubric import FACETS, IMPORTANCES, Rubric, rubric_id
from svr_async.core.similarity import REDUNDANCY_CUTOFF, content_tokens, normalised, redundancy, similarity
from svr_async.errors import UsageError
from svr_async.scoring.bank import MAX_ALIASES, MAX_NOTE_CHARS, MAX_SOURCES, BankRubric
from svr_async.training.bank.criteria import checks_differ, differ, predicate

MERGE_CUTOFF = 0.88  # app:hparams
BANK_CAP = 1024  # the size of the paper's trained bank (app:bank); its table of settings has no cap
BLOCK_ROWS = 512
SLACK = 1e-4  # bounds round otherwise than the similarity
EXAMPLES = 5
DOMAIN_SHARE = 0.5  # a rubric belongs to a domain that more than half of its source pairs come from


# ── near-duplicates ─────────────────────────────────────────────────────────────────────────────────────────────────


def similar_pairs(texts: Sequence[str], cutoff: float) -> list[tuple[int, int, float]]:
    """Return (i, j, similarity) for every i < j with similarity >= cutoff, in order: what a double loop would find."""
    measured = ((i, j, similarity(texts[i], texts[j])) for i, j in possible_pairs(texts, cutoff))
    return [row for row in measured if row[2] >= cutoff]


def near_duplicates(
    rubrics: Sequence[Rubric], cutoff: float = MERGE_CUTOFF, *, by_text_alone: bool = False
) -> list[tuple[int, int, float]]:
    """Return the similar pairs that ask for the same: neither their texts (`criteria.differ`) nor checks differ."""
    similar = similar_pairs([rubric.text for rubric in rubrics], cutoff)
    if by_text_alone:
        return similar
    pairs = ((row, rubrics[row[0]], rubrics[row[1]]) for row in similar)
    return [row for row, a, b in pairs if not checks_differ(a.check, b.check) and not differ(a.text, b.text)]


def possible_pairs(texts: Sequence[str], cutoff: float) -> list[tuple[int, int]]:
    """Return, in order, all i < j whose similarity may reach the cutoff in (0, 1], and few others.

    Two bounds lose no pair. difflib's matching blocks form a common subsequence, so the ratio is at most the Indel
    similarity. That of sorted distinct tokens is Dice's coefficient, 2J / (1 + J) with J the Jaccard overlap.
    """
    if not 0 < cutoff <= 1:
        raise ValueError(f"cutoff must be > 0 and <= 1 (got {cutoff})")
    letters = _alike([normalised(text) for text in texts], cutoff)
    tokens = _alike([sorted(content_tokens(text)) for text in texts], 2 * cutoff / (1 + cutoff))
    return sorted(letters | tokens)


def _alike(sequences: Sequence[Sequence[str]], cutoff: float) -> set[tuple[int, int]]:
    """Return the pairs whose Indel similarity reaches the cutoff, block by block of sequences sorted by length."""
    order = sorted(range(len(sequences)), key=lambda place: len(sequences[place]))
    lengths = np.array([len(sequences[place]) for place in order])
    pairs: set[tuple[int, int]] = set()
    for start in range(0, len(order), BLOCK_ROWS):
        rows = order[start : start + BLOCK_ROWS]
        longest = len(sequences[rows[-1]]) * (2 - cutoff) / cutoff + 1  # 2·short / (short + long) >= cutoff
        columns = order[start : int(np.searchsorted(lengths, longest, side="right"))]
        ratios = cdist(
            [sequences[place] for place in rows],
            [sequences[place] for place in columns],
            scorer=Indel.normalized_similarity,
            score_cutoff=cutoff - SLACK,
            dtype=np.float32,
            workers=-1,
        )
        near = np.argwhere(np.triu(ratios, 1)).tolist()
        places = ((rows[row], columns[column]) for row, column in near)
        pairs |= {(min(pair), max(pair)) for pair in places}
    return pairs


def redundancy_edges(
    texts: Sequence[str], cutoff: float = REDUNDANCY_CUTOFF
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.float32]]:
    """Return which rubrics i < j of a bank repeat each other, and how much (paper `app:hparams`), as three arrays.

    redundancy_ij = max(0, similarity_ij − cutoff) / (1 − cutoff), zero diagonal; only positive entries, each once.
    After merging at 0.88 only texts that read alike and are different criteria are left above the cutoff, as "at most
    50 words" and "at most 100 words". The paper preset merges by text alone, so nothing is left and the term is 0.
    """
    similar = similar_pairs(texts, max(cutoff, np.finfo(np.float64).tiny))
    edges = [(i, j, above) for i, j, alike in similar if (above := redundancy(alike, cutoff)) > 0]
    first, second, value = np.array(edges, dtype=np.float64).reshape(-1, 3).T
    return first.astype(np.int32), second.astype(np.int32), value.astype(np.float32)


def drop_redundant(order: Sequence[int], similar: Iterable[tuple[int, int, float]]) -> list[int]:
    """Sweep positions, most relevant first, and return those similar to no kept one before (paper `sec:prune`)."""
    near: dict[int, set[int]] = defaultdict(set)
    for one, other, _ in similar:
        near[one].add(other)
        near[other].add(one)
    kept: dict[int, None] = {}
    for place in order:
        if near[place].isdisjoint(kept):
            kept[place] = None
    return list(kept)


# ── merging ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def merge(
    candidates: Iterable[BankRubric],
    *,
    cutoff: float = MERGE_CUTOFF,
    cap: int | None = BANK_CAP,
    by_text_alone: bool = False,
) -> tuple[BankRubric, ...]:
    """Return the candidates with near-identical ones merged, the most observed first, at most `cap` of them.

    Candidates with the same rubric id become one. Then, in the order (most observed, most sources, shortest,
    alphabetical), each joins an earlier one with the same statement about "the answer" (`criteria.predicate`), or the
    most similar one with similarity >= cutoff (ties: the earlier). Two never merge if any of their texts are different
    criteria (`criteria.differ`) or their checks differ, unless `by_text_alone`, where similarity decides as in the
    paper; of two checks the better candidate's is kept then. The text of a group is its most central one. If that
    brings two groups within the cutoff, they are merged in turn. The order of the candidates does not matter.
    """
    groups = _by_id(candidates)
    texts = sorted({text for group in groups for text in group.texts})
    near: dict[str, list[str]] = defaultdict(list)
    for i, j in possible_pairs(texts, cutoff):
        near[texts[i]].append(texts[j])
        near[texts[j]].append(texts[i])
    before = -1
    while len(groups) != before:
        before = len(groups)
        groups = _joined(groups, near, cutoff, by_text_alone=by_text_alone)
    return tuple(group.candidate() for group in sorted(groups, key=_Group.rank)[:cap])


def _joined(
    groups: Sequence[_Group], near: Mapping[str, Sequence[str]], cutoff: float, *, by_text_alone: bool
) -> list[_Group]:
    """Let each group, the best first, join a better one with the same predicate or the most similar one, if it may."""
    for group in groups:
        group.text = group.most_central()
    leaders: dict[str, _Group] = {}
    same: dict[str, list[_Group]] = defaultdict(list)
    for group in sorted(groups, key=_Group.rank):
        key = group.text if by_text_alone else predicate(group.text)
        hosts = chain(same[key], _most_similar(group, leaders, near, cutoff))
        host = next((host for host in hosts if by_text_alone or host.may_take(group)), None)
        if host is None:
            leaders[group.text] = group
            same[key].append(group)
        else:
            host.take(group)
    return list(leaders.values())


def _most_similar(
    group: _Group, leaders: Mapping[str, _Group], near: Mapping[str, Sequence[str]], cutoff: float
) -> Iterator[_Group]:
    """Yield the leaders within the cutoff of a group's text, the most similar first; ties by rank."""
    hosts = [leaders[text] for text in near.get(group.text, ()) if text in leaders]
    ranked = sorted((-_similarity(*sorted((group.text, host.text))), *host.rank()) for host in hosts)
    yield from (leaders[row[-1]] for row in ranked if -row[0] >= cutoff)


_similarity = lru_cache(maxsize=65_536)(similarity)  # a merge of several passes asks again


class _Group:
    """Candidates that become one; the check of the group, and in `checked` the texts that were proposed with it."""

    def __init__(self, same: Sequence[BankRubric]) -> None:
        spellings = Counter[str]()
        for one in same:
            spellings[one.rubric.text] += one.observed_count
        self.text = min(spellings, key=lambda text: (-spellings[text], text))
        self.texts = [self.text]
        self.members = list(same)
        self.count = sum(one.observed_count for one in same)
        self.sources = {pair for one in same for pair in one.source_pair_ids}
        checks = {one.rubric.check for one in same if one.rubric.check}
        self.check = checks.pop() if len(checks) == 1 else None  # two checks of one text: trust neither
        self.checked = {self.text} if self.check else set[str]()

    def rank(self) -> tuple[int, int, int, str]:
        """Return the place in the order of leaders: most observed, most sources, shortest, alphabetical."""
        return -self.count, -len(self.sources), len(self.text), self.text

    def may_take(self, other: _Group) -> bool:
        """Return whether no two texts of the groups are different criteria, and their checks agree."""
        if checks_differ(self.check, other.check):
            return False
        return not any(differ(mine, theirs) for mine in self.texts for theirs in other.texts)

    def take(self, other: _Group) -> None:
        """Make the other group a part of this one."""
        self.texts += other.texts
        self.members += other.members
        self.count += other.count
        self.sources |= other.sources
        if not checks_differ(self.check, other.check):
            self.checked |= other.checked
        self.check = self.check or other.check

    def most_central(self) -> str:
        """Return the text with the largest sum of Indel similarities to all, among those that had the check, if any.

        Ties: the text it has, then the shortest.
        """
        eligible = sorted(self.checked or self.texts, key=lambda text: (text != self.text, len(text), text))
        if len(eligible) == 1 or len(self.texts) < 3:
            return eligible[0]
        plain = [normalised(text) for text in self.texts]
        rows = [normalised(text) for text in eligible]
        ratios = cdist(rows, plain, scorer=Indel.normalized_similarity, dtype=np.float64)
        sums = [fsum(row) for row in ratios.tolist()]  # exact, so that the order of the texts does not matter
        return eligible[sums.index(max(sums))]

    def candidate(self) -> BankRubric:
        """Return the group as one candidate: most frequent facet, strongest importance, its text's grounding."""
        facets = Counter[str]()
        for one in self.members:
            facets[one.rubric.facet] += one.observed_count
        facets.pop("", None)
        same = [one.rubric.grounding for one in self.members if one.rubric.id == rubric_id(self.text)]
        rubric = Rubric(
            text=self.text,
            facet=min(facets, key=lambda facet: (-facets[facet], *_place(facet, FACETS)), default=""),
            importance=min((one.rubric.importance for one in self.members), key=lambda word: _place(word, IMPORTANCES)),
            grounding=min(filter(None, same), default=""),
            check=self.check,
        )
        return BankRubric(
            rubric=rubric,
            source_pair_ids=tuple(sorted(self.sources)),
            observed_count=self.count,
            aliases=tuple(sorted(text for text in self.texts if text != self.text)),
        )


def _place(word: str, order: Sequence[str]) -> tuple[int, bool, str]:
    """Return the place of a word in an order: unknown words after it, the empty one last."""
    return order.index(word) if word in order else len(order), not word, word


def _by_id(candidates: Iterable[BankRubric]) -> list[_Group]:
    """Return one group for each rubric id; each alias goes to the best group that has it, unless it is a rubric."""
    same: dict[str, list[BankRubric]] = defaultdict(list)
    for candidate in candidates:
        same[candidate.rubric.id].append(candidate)
    groups = [_Group(members) for members in same.values()]
    taken = set(same)
    for group in sorted(groups, key=_Group.rank):
        for alias in sorted({alias for member in group.members for alias in member.aliases}):
            if rubric_id(alias) not in taken:
                taken.add(rubric_id(alias))
                group.texts.append(alias)
    return groups


def without(candidates: Iterable[BankRubric], pruned: Iterable[BankRubric]) -> tuple[BankRubric, ...]:
    """Return the candidates that are not, under any of their texts, among the pruned (Algorithm 1, BuildBank)."""
    gone = {rubric_id(text) for candidate in pruned for text in candidate.texts}
    return tuple(one for one in candidates if gone.isdisjoint(map(rubric_id, one.texts)))


# ── candidates and a bank's rubrics ─────────────────────────────────────────────────────────────────────────────────


def criterion_numbers(bank: Sequence[BankRubric]) -> NDArray[np.int32] | None:
    """Return the number of each rubric's criterion, in order of first appearance; None if each has a separate one."""
    labels = [candidate.criterion or candidate.rubric.id for candidate in bank]
    number = {label: place for place, label in enumerate(dict.fromkeys(labels))}
    return np.array([number[label] for label in labels], dtype=np.int32) if len(number) < len(labels) else None


def bank_rubric(candidate: BankRubric, **fields: Any) -> BankRubric:
    """Return a candidate with the results of its fit, and no more aliases and sources than a bank holds."""
    aliases = tuple(alias for alias in candidate.aliases if len(alias) <= MAX_NOTE_CHARS)[:MAX_ALIASES]
    return replace(candidate, aliases=aliases, source_pair_ids=candidate.source_pair_ids[:MAX_SOURCES], **fields)


def main_domain(pair_ids: Iterable[str], domains: Mapping[str, str]) -> str:
    """Return the domain of more than half of these pairs; empty for a rubric of several domains."""
    counts = Counter(domains[pair] for pair in pair_ids if pair in domains)
    name, count = min(counts.items(), key=lambda item: (-item[1], item[0]), default=("", 0))
    return name if count > DOMAIN_SHARE * counts.total() else ""


def refuse_long_names(pairs: Iterable[PreferencePair]) -> None:
    """Raise UsageError if a pair's id or domain is longer than a bank holds."""
    long = next((pair for pair in pairs if max(len(pair.id), len(pair.domain)) > MAX_NOTE_CHARS), None)
    if long is not None:
        raise UsageError(
            f"the pair {long.id[:40]}… has an id of {len(long.id):,} characters and a domain of {len(long.domain):,}",
            hint=f"a bank holds ids and domains of at most {MAX_NOTE_CHARS:,}; shorten them",
        )
