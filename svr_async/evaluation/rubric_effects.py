"""What each rubric did to the decisions of runs: how often used and right, pairs it saved, errors it caused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from svr_async.evaluation.items import Item
from svr_async.vocabulary.statistics import Interval, holm, sign_flip_exact, wilson_interval

ADDS_UP = 1e-6  # contributions are kept to nine digits
BEYOND_CHANCE = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """What a rubric did on some pairs, counted in pairs.

    `used`: the judge gave a verdict on it; `leaned`: it counted for a side; `right`: for the right one. `saved`: right
    with it and not without it; `errors`: the ids of those right without it and not with it.
    """

    used: int
    leaned: int
    right: int
    saved: int
    errors: tuple[str, ...]

    @property
    def net(self) -> int:
        """The net effect: pairs saved less errors caused."""
        return self.saved - len(self.errors)

    @property
    def accuracy(self) -> float | None:
        """The share of pairs on which it leaned to the right side, of those on which it leaned."""
        return self.right / self.leaned if self.leaned else None

    @property
    def ci95(self) -> Interval | None:
        """Wilson's 95 % interval of that share, over pairs."""
        return wilson_interval(self.right, self.leaned) if self.leaned else None


@dataclass(frozen=True, slots=True, kw_only=True)
class RubricEffect:
    """One rubric in all pairs, and by group: a domain of a run, or a run.

    `p_holm` is of the net effect: pairs of a prompt flip together, Holm over the rubrics; None where it decided none.
    """

    id: str
    text: str
    total: Tally
    groups: Mapping[str, Tally]
    p_holm: float | None

    @property
    def beyond_chance(self) -> bool:
        """Whether the adjusted p-value of the net effect is at most 0.05."""
        return self.p_holm is not None and self.p_holm <= BEYOND_CHANCE


@dataclass(frozen=True, slots=True, kw_only=True)
class RubricEffects:
    """The rubrics of runs, the best net effect first; `groups` are what they are told by.

    `n` pairs have rubrics, a margin and a right answer; on `unsummed` of them the margin is not what the contributions
    add up to (the judge named a winner itself), so that nothing can be left out there.
    """

    rubrics: tuple[RubricEffect, ...]
    groups: tuple[str, ...]
    n: int
    unsummed: int

    @property
    def summed(self) -> bool:
        """Whether the margins of most pairs are sums of contributions."""
        return 2 * self.unsummed < self.n

    def to_json(self) -> list[dict[str, Any]]:
        """Return plain JSON values: a row for each rubric, with its numbers over all pairs and by group."""
        return [
            {"id": one.id, "text": one.text, **self._told(one.total), "p_holm": one.p_holm}
            | {"by_group": {name: self._told(tally) for name, tally in one.groups.items()}}
            for one in self.rubrics
        ]

    def _told(self, tally: Tally) -> dict[str, Any]:
        counts = {"used": tally.used, "leaned": tally.leaned, "right": tally.right, "accuracy": tally.accuracy}
        effect = {"net": tally.net, "saved": tally.saved, "caused": len(tally.errors), "errors": list(tally.errors)}
        return counts | (effect if self.summed else dict.fromkeys(effect))


@dataclass(frozen=True, slots=True)
class _Use:
    """One rubric on one pair: `leans` is whether it counted for the right side, `effect` 1 saved, −1 caused, else 0."""

    group: str
    item: Item
    used: bool
    leans: bool | None
    effect: int


def rubric_effects(groups: Mapping[str, Sequence[Item]]) -> RubricEffects:
    """Count what each rubric did on the items of each group that have rubrics, a margin and a right answer.

    A rubric is left out by striking its contribution from the stored margin, everything else as it was: no other rubric
    takes its place. As in strict accuracy a tie is not right. Rubrics are those with the same id, in every order and of
    every judge of an item together.
    """
    told = [(name, item) for name, items in groups.items() for item in items if _counts(item)]
    uses: dict[str, list[_Use]] = {}
    texts: dict[str, str] = {}
    for name, item in told:
        texts.update((row.id, row.text) for row in item.rubrics)
        for key, use in _uses(name, item):
            uses.setdefault(key, []).append(use)
    unsummed = sum(not adds_up(item) for _, item in told)
    found = [_effect(key, texts[key], some) for key, some in uses.items()]
    return RubricEffects(
        rubrics=tuple(sorted(_adjusted(found), key=_best_first)),
        groups=tuple(dict.fromkeys(name for name, _ in told)),
        n=len(told),
        unsummed=unsummed,
    )


def by_domain(items: Sequence[Item]) -> dict[str, list[Item]]:
    """Return items by domain, in alphabetical order."""
    groups: dict[str, list[Item]] = {}
    for item in items:
        groups.setdefault(item.domain, []).append(item)
    return dict(sorted(groups.items()))


def adds_up(item: Item) -> bool:
    """Whether an item's margin is the sum of its contributions."""
    return item.margin is not None and abs(sum(row.contribution for row in item.rubrics) - item.margin) < ADDS_UP


def _counts(item: Item) -> bool:
    return bool(item.rubrics) and item.margin is not None and item.gold is not None


def _uses(group: str, item: Item) -> Iterator[tuple[str, _Use]]:
    """Yield each rubric of an item with what it did there."""
    own: dict[str, float] = {}
    judged: dict[str, bool] = {}
    for row in item.rubrics:
        own[row.id] = own.get(row.id, 0.0) + row.contribution
        judged[row.id] = judged.get(row.id, False) or row.delta is not None
    whole = adds_up(item)
    for key, value in own.items():
        effect = int(item.correct is True) - int(_right(item, (item.margin or 0.0) - value)) if whole else 0
        leans = _right(item, value) if abs(value) >= ADDS_UP else None
        yield key, _Use(group, item, judged[key], leans, effect)


def _right(item: Item, margin: float) -> bool:
    """Whether a margin prefers the right answer; one that is 0 as far as it is kept prefers none."""
    return abs(margin) >= ADDS_UP and (margin > 0) == (item.gold == "A")


def _effect(key: str, text: str, uses: Sequence[_Use]) -> RubricEffect:
    groups: dict[str, list[_Use]] = {}
    for use in uses:
        groups.setdefault(use.group, []).append(use)
    return RubricEffect(
        id=key,
        text=text,
        total=_tally(uses),
        groups={name: _tally(some) for name, some in groups.items()},
        p_holm=_p_value(uses),
    )


def _tally(uses: Sequence[_Use]) -> Tally:
    return Tally(
        used=sum(use.used for use in uses),
        leaned=sum(use.leans is not None for use in uses),
        right=sum(use.leans is True for use in uses),
        saved=sum(use.effect > 0 for use in uses),
        errors=tuple(use.item.id for use in uses if use.effect < 0),
    )


def _p_value(uses: Sequence[_Use]) -> float | None:
    """Return the p-value of a net effect before Holm: that of flipping each prompt's pairs together."""
    sums: Counter[str] = Counter()
    for use in uses:
        if use.effect:
            sums[use.item.item] += use.effect
    return sign_flip_exact(list(sums.values())) if sums else None


def _adjusted(found: Sequence[RubricEffect]) -> list[RubricEffect]:
    """Adjust the p-values of the rubrics that decided anything by Holm."""
    tested = [one for one in found if one.p_holm is not None]
    by_id = dict(zip((one.id for one in tested), holm([one.p_holm or 0.0 for one in tested]), strict=True))
    return [replace(one, p_holm=by_id.get(one.id)) for one in found]


def _best_first(one: RubricEffect) -> tuple[float, float, int, str]:
    """Sort by net effect, then by how much more often than not it was right, then by how often it was used."""
    return (-one.total.net, one.total.leaned - 2 * one.total.right, -one.total.used, one.id)
