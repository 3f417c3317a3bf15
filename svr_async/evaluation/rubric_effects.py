"""The effect of each rubric on the decisions of runs: its use and accuracy, pairs it saved, errors it caused."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from svr_async.core.statistics import Interval, holm, sign_flip_exact, wilson_interval
from svr_async.evaluation.items import Item

ADDS_UP = 1e-6  # contributions are kept to nine digits
BEYOND_CHANCE = 0.05


@dataclass(slots=True, kw_only=True)
class Tally:
    """Counts of pairs for one rubric.

    `used`: the judge gave a verdict on it; `leaned`: it favoured a side; `right`: the right one; `saved`: the pair is
    right with it and not without it; `errors`: ids of pairs that are right without it and not with it.
    """

    used: int = 0
    leaned: int = 0
    right: int = 0
    saved: int = 0
    errors: list[str] = field(default_factory=list)

    @property
    def net(self) -> int:
        """The net effect: pairs saved minus errors caused."""
        return self.saved - len(self.errors)

    @property
    def accuracy(self) -> float | None:
        """The share of pairs on which it favoured the right side, of those on which it favoured one."""
        return self.right / self.leaned if self.leaned else None

    @property
    def ci95(self) -> Interval | None:
        """Wilson's 95 % interval of that share, over pairs."""
        return wilson_interval(self.right, self.leaned) if self.leaned else None


@dataclass(frozen=True, slots=True, kw_only=True)
class RubricEffect:
    """One rubric in all pairs, and by group: a domain of a run, or a run.

    `p_holm` tests the net effect: pairs of a prompt flip together, Holm over the rubrics; None if it decided
    no pair.
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
    """The rubrics of runs, the best net effect first, counted by `groups`.

    `n` pairs have rubrics, a margin and a right answer. On `unsummed` of them the margin is not the sum of the
    contributions (the judge chose a winner directly), so no rubric can be left out there.
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
        """Return plain JSON values: a row for each rubric, with its counts over all pairs and by group."""
        return [
            {"id": one.id, "text": one.text, **self._counts(one.total), "p_holm": one.p_holm}
            | {"by_group": {name: self._counts(tally) for name, tally in one.groups.items()}}
            for one in self.rubrics
        ]

    def _counts(self, tally: Tally) -> dict[str, Any]:
        counts = {"used": tally.used, "leaned": tally.leaned, "right": tally.right, "accuracy": tally.accuracy}
        effect = {"net": tally.net, "saved": tally.saved, "caused": len(tally.errors), "errors": list(tally.errors)}
        return counts | (effect if self.summed else dict.fromkeys(effect))


@dataclass(slots=True)
class _Sums:
    """One rubric's counts so far, and its net effect by benchmark item, for the p-value."""

    text: str = ""
    total: Tally = field(default_factory=Tally)
    groups: dict[str, Tally] = field(default_factory=dict)
    flips: Counter[str] = field(default_factory=Counter)


def rubric_effects(groups: Mapping[str, Sequence[Item]]) -> RubricEffects:
    """Count the effect of each rubric on the items of each group that have rubrics, a margin and a right answer.

    A rubric is left out by removing its contribution from the stored margin; the others stay as they are. A tie is not
    right, as in strict accuracy. Rubrics are joined by id, over every order and judge of an item.
    """
    sums: defaultdict[str, _Sums] = defaultdict(_Sums)
    counted, unsummed = Counter[str](), 0
    for name, item in ((name, item) for name, items in groups.items() for item in items):
        if not item.rubrics or item.margin is None or item.gold is None:
            continue
        whole = abs(sum(row.contribution for row in item.rubrics) - item.margin) < ADDS_UP
        counted[name] += 1
        unsummed += not whole
        own: dict[str, float] = {}
        judged: dict[str, bool] = {}
        for row in item.rubrics:
            sums[row.id].text = row.text
            own[row.id] = own.get(row.id, 0.0) + row.contribution
            judged[row.id] = judged.get(row.id, False) or row.delta is not None
        for key, value in own.items():
            effect = int(item.correct is True) - int(_right(item, item.margin - value)) if whole else 0
            leans = _right(item, value) if abs(value) >= ADDS_UP else None
            for tally in (sums[key].total, sums[key].groups.setdefault(name, Tally())):
                tally.used += judged[key]
                tally.leaned += leans is not None
                tally.right += leans is True
                tally.saved += effect > 0
                tally.errors += [item.id] if effect < 0 else []
            if effect:
                sums[key].flips[item.item] += effect
    tested = {key: sign_flip_exact(list(one.flips.values())) for key, one in sums.items() if one.flips}
    adjusted = dict(zip(tested, holm(list(tested.values())), strict=True))
    found = [
        RubricEffect(id=key, text=one.text, total=one.total, groups=one.groups, p_holm=adjusted.get(key))
        for key, one in sums.items()
    ]
    return RubricEffects(
        rubrics=tuple(sorted(found, key=_best_first)), groups=tuple(counted), n=counted.total(), unsummed=unsummed
    )


def _right(item: Item, margin: float) -> bool:
    """Return whether a margin prefers the right answer; a margin of 0, to the stored digits, does not."""
    return abs(margin) >= ADDS_UP and (margin > 0) == (item.gold == "A")


def _best_first(one: RubricEffect) -> tuple[float, float, int, str]:
    """Return the key that sorts by net effect, then by right minus wrong, then by use."""
    return (-one.total.net, one.total.leaned - 2 * one.total.right, -one.total.used, one.id)
