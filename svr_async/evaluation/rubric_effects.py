"""What each rubric did to the decisions of runs: how often used and right, pairs it saved, errors it caused."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from svr_async.core.statistics import Interval, holm, sign_flip_exact, wilson_interval
from svr_async.evaluation.items import Item, RubricRow

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


class _Use(NamedTuple):
    """One rubric on one pair: `leans` is whether it counted for the right side, `effect` 1 saved, −1 caused, else 0."""

    used: bool
    leans: bool | None
    effect: int


@dataclass(slots=True)
class _Count:
    """What a rubric did in a group so far: the numbers of a `Tally`, so that nothing is held of each pair."""

    used: int = 0
    leaned: int = 0
    right: int = 0
    saved: int = 0
    errors: list[str] = field(default_factory=list)

    def add(self, item: Item, use: _Use) -> None:
        self.used += use.used
        self.leaned += use.leans is not None
        self.right += use.leans is True
        self.saved += use.effect > 0
        if use.effect < 0:
            self.errors.append(item.id)


@dataclass(slots=True)
class _Sums:
    """What a rubric did so far, by group, and its net effect by benchmark item, for the p-value."""

    text: str = ""
    groups: dict[str, _Count] = field(default_factory=dict)
    flips: Counter[str] = field(default_factory=Counter)

    def add(self, group: str, item: Item, use: _Use) -> None:
        self.groups.setdefault(group, _Count()).add(item, use)
        if use.effect:
            self.flips[item.item] += use.effect


def rubric_effects(groups: Mapping[str, Sequence[Item]]) -> RubricEffects:
    """Count what each rubric did on the items of each group that have rubrics, a margin and a right answer.

    A rubric is left out by striking its contribution from the stored margin, everything else as it was: no other rubric
    takes its place. As in strict accuracy a tie is not right. Rubrics are those with the same id, in every order and of
    every judge of an item together.
    """
    sums: defaultdict[str, _Sums] = defaultdict(_Sums)
    told, unsummed = Counter[str](), 0
    for name, item in ((name, item) for name, items in groups.items() for item in items if _counts(item)):
        rows = tuple(item.rubrics)
        whole = _adds_up(item, rows)
        told[name] += 1
        unsummed += not whole
        for row in rows:
            sums[row.id].text = row.text
        for key, use in _uses(item, rows, whole=whole):
            sums[key].add(name, item, use)
    found = [_effect(key, one) for key, one in sums.items()]
    return RubricEffects(
        rubrics=tuple(sorted(_adjusted(found), key=_best_first)),
        groups=tuple(told),
        n=told.total(),
        unsummed=unsummed,
    )


def by_domain(items: Sequence[Item]) -> dict[str, list[Item]]:
    """Return items by domain, in alphabetical order."""
    groups: dict[str, list[Item]] = {}
    for item in items:
        groups.setdefault(item.domain, []).append(item)
    return dict(sorted(groups.items()))


def _adds_up(item: Item, rows: Sequence[RubricRow]) -> bool:
    """Whether an item's margin is the sum of its contributions."""
    return item.margin is not None and abs(sum(row.contribution for row in rows) - item.margin) < ADDS_UP


def _counts(item: Item) -> bool:
    return bool(item.rubrics) and item.margin is not None and item.gold is not None


def _uses(item: Item, rows: Sequence[RubricRow], *, whole: bool) -> Iterator[tuple[str, _Use]]:
    """Yield each rubric of an item with what it did there; its effect where the margin is the `whole` of them."""
    own: dict[str, float] = {}
    judged: dict[str, bool] = {}
    for row in rows:
        own[row.id] = own.get(row.id, 0.0) + row.contribution
        judged[row.id] = judged.get(row.id, False) or row.delta is not None
    for key, value in own.items():
        effect = int(item.correct is True) - int(_right(item, (item.margin or 0.0) - value)) if whole else 0
        leans = _right(item, value) if abs(value) >= ADDS_UP else None
        yield key, _Use(judged[key], leans, effect)


def _right(item: Item, margin: float) -> bool:
    """Whether a margin prefers the right answer; one that is 0 as far as it is kept prefers none."""
    return abs(margin) >= ADDS_UP and (margin > 0) == (item.gold == "A")


def _effect(key: str, sums: _Sums) -> RubricEffect:
    groups = {name: _tally([count]) for name, count in sums.groups.items()}
    return RubricEffect(
        id=key,
        text=sums.text,
        total=_tally(list(sums.groups.values())),
        groups=groups,
        p_holm=_p_value(sums.flips),
    )


def _tally(counts: Sequence[_Count]) -> Tally:
    return Tally(
        used=sum(one.used for one in counts),
        leaned=sum(one.leaned for one in counts),
        right=sum(one.right for one in counts),
        saved=sum(one.saved for one in counts),
        errors=tuple(error for one in counts for error in one.errors),
    )


def _p_value(flips: Mapping[str, int]) -> float | None:
    """Return the p-value of a net effect before Holm: that of flipping each prompt's pairs together."""
    return sign_flip_exact(list(flips.values())) if flips else None


def _adjusted(found: Sequence[RubricEffect]) -> list[RubricEffect]:
    """Adjust the p-values of the rubrics that decided anything by Holm."""
    tested = [one for one in found if one.p_holm is not None]
    by_id = dict(zip((one.id for one in tested), holm([one.p_holm or 0.0 for one in tested]), strict=True))
    return [replace(one, p_holm=by_id.get(one.id)) for one in found]


def _best_first(one: RubricEffect) -> tuple[float, float, int, str]:
    """Sort by net effect, then by how much more often than not it was right, then by how often it was used."""
    return (-one.total.net, one.total.leaned - 2 * one.total.right, -one.total.used, one.id)
