"""From candidates to a bank's rubrics: near-identical ones become one, which keeps all that they knew."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import chain
from math import fsum

import numpy as np
from numpy.typing import NDArray

from svr_async.core.rubric import FACETS, IMPORTANCES, Check, Rubric, rubric_id
from svr_async.core.similarity import normalised
from svr_async.training.bank.distinct import Profile, checks_differ, differ, predicate, profile
from svr_async.training.bank.near_duplicates import exact_similarity, possible_pairs

MERGE_CUTOFF = 0.88  # app:hparams
BANK_CAP = 1024  # the size of the paper's trained bank (app:bank); its table of settings has no cap
ROWS_AT_ONCE = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A proposed rubric, or several merged into one: `observed_count` proposals from the pairs in `source_pair_ids`.

    `aliases` are the other texts that it was proposed with, in alphabetical order. Candidates with the same
    `criterion`, the id of the first of them, are one criterion in other words; empty for a criterion of one wording.
    """

    rubric: Rubric
    source_pair_ids: tuple[str, ...] = ()
    observed_count: int = 1
    aliases: tuple[str, ...] = ()
    criterion: str = ""

    @property
    def texts(self) -> tuple[str, ...]:
        """The text and its aliases."""
        return (self.rubric.text, *self.aliases)


def merge(
    candidates: Iterable[Candidate],
    *,
    cutoff: float = MERGE_CUTOFF,
    cap: int | None = BANK_CAP,
    by_text_alone: bool = False,
) -> tuple[Candidate, ...]:
    """Return the candidates with near-identical ones merged, the most observed first, at most `cap` of them.

    Candidates with the same rubric id become one. Then, in the order (most observed, most sources, shortest,
    alphabetical), each joins an earlier one that says the same of "the answer" as it of "a good response"
    (`distinct.predicate`), or the most similar one with similarity >= cutoff (ties: the earlier), or stands for itself.
    Two never merge where any of their texts are different criteria (`distinct.differ`) or their checks differ,
    unless `by_text_alone`, where similarity decides as in the paper; of two checks the better candidate's is kept then.
    The text of a group is its most central one; where that brings two groups within the cutoff, they are merged in
    turn, so no two rubrics of the result are both similar and mergeable, and merging the result again changes nothing.
    The order of the candidates does not matter.
    """
    groups = _grouped(candidates)
    near = _Nearness(sorted({text for group in groups for text in group.texts}), cutoff, by_text_alone)
    before = -1
    while len(groups) != before:
        before = len(groups)
        groups = _pass(groups, near)
    ranked = sorted((group.candidate() for group in groups), key=_rank)
    return tuple(ranked if cap is None else ranked[:cap])


def criterion_numbers(bank: Sequence[Candidate]) -> NDArray[np.int32] | None:
    """Return the number of each rubric's criterion, in order of first appearance; None if each has its own."""
    labels = [candidate.criterion or candidate.rubric.id for candidate in bank]
    number = {label: place for place, label in enumerate(dict.fromkeys(labels))}
    return np.array([number[label] for label in labels], dtype=np.int32) if len(number) < len(labels) else None


def without(candidates: Iterable[Candidate], pruned: Iterable[Candidate]) -> tuple[Candidate, ...]:
    """Return the candidates that are not, under any of their texts, among the pruned (Algorithm 1, BuildBank)."""
    gone = {rubric_id(text) for candidate in pruned for text in candidate.texts}
    return tuple(c for c in candidates if not any(rubric_id(text) in gone for text in c.texts))


def _rank(candidate: Candidate) -> tuple[int, int, int, str]:
    text = candidate.rubric.text
    return -candidate.observed_count, -len(candidate.source_pair_ids), len(text), text


class _Group:
    """Candidates on their way to being one: their counts and sources, and all texts by rubric id."""

    def __init__(self, same: Sequence[Candidate]) -> None:
        spellings = Counter[str]()
        for one in same:
            spellings[one.rubric.text] += one.observed_count
        self.text = min(spellings, key=lambda text: (-spellings[text], text))
        self.changed = True
        self.texts = [self.text]
        self.count = sum(one.observed_count for one in same)
        self.sources = {pair for one in same for pair in one.source_pair_ids}
        self.importances = {one.rubric.importance for one in same}
        self.facets = Counter[str]()
        for one in same:
            self.facets[one.rubric.facet] += one.observed_count
        self.check = _agreed([one.rubric.check for one in same])
        self.checked = {self.text} if self.check else set[str]()
        self.groundings = {self.text: min((one.rubric.grounding for one in same), key=lambda text: (not text, text))}

    def rank(self) -> tuple[int, int, int, str]:
        """Return the place in the order of leaders: most observed, most sources, shortest, alphabetical."""
        return -self.count, -len(self.sources), len(self.text), self.text

    def may_take(self, other: _Group, profiles: Mapping[str, Profile]) -> bool:
        """Tell whether no two texts of the groups are different criteria, and their checks agree."""
        if checks_differ(self.check, other.check):
            return False
        return not any(differ(profiles[mine], profiles[theirs]) for mine in self.texts for theirs in other.texts)

    def take(self, other: _Group) -> None:
        """Make the other group a part of this one."""
        self.texts += other.texts
        self.count += other.count
        self.sources |= other.sources
        self.importances |= other.importances
        self.facets += other.facets
        if not checks_differ(self.check, other.check):
            self.checked |= other.checked
        self.check = self.check or other.check
        self.groundings |= other.groundings
        self.changed = True

    def settle(self) -> None:
        """Choose the most central text, among those that came with the check if there is one; ties: the one it has."""
        eligible = sorted(self.checked or self.texts, key=lambda text: (text != self.text, len(text), text))
        self.text = most_central(eligible, self.texts)

    def candidate(self) -> Candidate:
        """Return the group as one candidate."""
        named = [facet for facet in self.facets if facet]
        rubric = Rubric(
            text=self.text,
            facet=min(named, key=lambda facet: (-self.facets[facet], *_place(facet, FACETS)), default=""),
            importance=min(self.importances, key=lambda importance: _place(importance, IMPORTANCES)),
            grounding=self.groundings.get(self.text, ""),
            check=self.check,
        )
        return Candidate(
            rubric=rubric,
            source_pair_ids=tuple(sorted(self.sources)),
            observed_count=self.count,
            aliases=tuple(sorted(text for text in self.texts if text != self.text)),
        )


def _place(value: str, order: Sequence[str]) -> tuple[int, str]:
    """Return the place of a value in an order; unknown values come last but for the empty one, alphabetically."""
    if not value:
        return len(order) + 1, value
    return (order.index(value), value) if value in order else (len(order), value)


def _agreed(checks: Sequence[Check | None]) -> Check | None:
    """Return the check that all who have one agree on; None where they do not."""
    found = {check for check in checks if check is not None}
    return found.pop() if len(found) == 1 else None


def _grouped(candidates: Iterable[Candidate]) -> list[_Group]:
    """Return one group for each rubric id, the best first; each alias goes to the first that has it, if it is free."""
    same: dict[str, list[Candidate]] = {}
    for candidate in candidates:
        same.setdefault(candidate.rubric.id, []).append(candidate)
    groups = {key: _Group(members) for key, members in same.items()}
    taken = set(groups)
    for key, group in sorted(groups.items(), key=lambda item: item[1].rank()):
        for alias in sorted({alias for member in same[key] for alias in member.aliases}):
            if rubric_id(alias) not in taken:
                taken.add(rubric_id(alias))
                group.texts.append(alias)
    return list(groups.values())


def most_central(eligible: Sequence[str], texts: Sequence[str]) -> str:
    """Return the eligible text with the largest sum of LCS ratios to all texts; ties: the first."""
    from rapidfuzz.distance import Indel
    from rapidfuzz.process import cdist

    if len(eligible) == 1 or len(texts) < 3:
        return eligible[0]
    plain = [normalised(text) for text in texts]
    sums: list[float] = []
    for start in range(0, len(eligible), ROWS_AT_ONCE):
        rows = [normalised(text) for text in eligible[start : start + ROWS_AT_ONCE]]
        ratios = cdist(rows, plain, scorer=Indel.normalized_similarity, dtype=np.float64, workers=1)
        sums += [fsum(row) for row in ratios.tolist()]  # exact, so that the order of the texts does not matter
    return eligible[sums.index(max(sums))]


class _Nearness:
    """Which texts may be within the cutoff of which, by a bound that loses none; exact where it is asked for."""

    def __init__(self, texts: Sequence[str], cutoff: float, by_text_alone: bool) -> None:
        self._texts, self._cutoff, self._by_text_alone = texts, cutoff, by_text_alone
        self._place = {text: place for place, text in enumerate(texts)}
        found = possible_pairs(texts, cutoff)
        one = np.concatenate([found.first, found.second])
        order = np.argsort(one, kind="stable")
        self._other = np.concatenate([found.second, found.first])[order]
        self._bound = np.concatenate([found.similarity, found.similarity])[order]
        self._start = np.searchsorted(one[order], np.arange(len(texts) + 1))
        self._exact: dict[tuple[str, str], float] = {}
        self._profiles = {} if by_text_alone else {text: profile(text) for text in texts}

    def one_criterion(self, host: _Group, group: _Group) -> bool:
        """Tell whether two groups that are near may be one: always where texts alone decide."""
        return self._by_text_alone or host.may_take(group, self._profiles)

    def key(self, group: _Group) -> str:
        """Return what groups that say the same have in common."""
        return group.text if self._by_text_alone else predicate(group.text)

    def leaders(self, text: str, leaders: Mapping[str, _Group]) -> Iterator[_Group]:
        """Yield the leaders within the cutoff of a text, the most similar first; ties in the order of rank."""
        row = slice(self._start[self._place[text]], self._start[self._place[text] + 1])
        texts = (self._texts[place] for place in self._other[row].tolist())
        bounded = [
            (-b, leaders[t].rank(), t) for t, b in zip(texts, self._bound[row].tolist(), strict=True) if t in leaders
        ]
        waiting: list[tuple[float, tuple[int, int, int, str], str]] = []
        for bound, rank, other in sorted(bounded):
            while waiting and waiting[0][0] < bound:  # nothing that comes can be more similar
                yield leaders[heappop(waiting)[2]]
            value = self._similarity(text, other)
            if value >= self._cutoff:
                heappush(waiting, (-value, rank, other))
        while waiting:
            yield leaders[heappop(waiting)[2]]

    def _similarity(self, first: str, second: str) -> float:
        key = (first, second) if first < second else (second, first)
        if key not in self._exact:
            self._exact[key] = exact_similarity(first, second)
        return self._exact[key]


def _pass(groups: Sequence[_Group], near: _Nearness) -> list[_Group]:
    """Let each group, the best first, join a better one that says the same or the most similar that it may join."""
    for group in groups:
        if group.changed:
            group.settle()
            group.changed = False
    leaders: dict[str, _Group] = {}
    same: dict[str, list[_Group]] = {}
    for group in sorted(groups, key=_Group.rank):
        hosts = chain(same.get(near.key(group), ()), near.leaders(group.text, leaders))
        host = next((host for host in hosts if near.one_criterion(host, group)), None)
        if host is None:
            leaders[group.text] = group
            same.setdefault(near.key(group), []).append(group)
        else:
            host.take(group)
    return list(leaders.values())
