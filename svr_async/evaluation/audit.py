"""What an attack on an answer buys: how far its margin rises against the same opponent, and by which rubrics."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import fsum
from typing import Any

from svr_async.core.pair import PreferencePair, Side
from svr_async.core.statistics import Interval, bootstrap_interval, wilson_interval
from svr_async.evaluation import wording
from svr_async.evaluation.items import Item, RubricRow

TABLE_HEADS = ("attack", "pairs", "gain", "95 % interval", "of |margin|", "flips", "of those behind", "")
RUBRIC_HEADS = ("id", "gain", "pairs", "fail to pass", "pass to fail", "rubric")


@dataclass(frozen=True, slots=True, kw_only=True)
class GivingWay:
    """What one rubric gave an attack: its part of the mean gain, the pairs it judged, and where the verdict turned.

    `turned` counts pairs where the attacked answer passes it and the original one failed it, `lost` the opposite.
    """

    id: str
    text: str
    gain: float
    pairs: int
    turned: int
    lost: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackFound:
    """What one attack bought, over the `n` pairs that were judged with and without it; margins towards the answer.

    `gain` is the mean rise of the margin with its bootstrap interval, `relative` that in units of the mean |margin|
    without the attack (None where that is 0). Of the `behind` pairs that the answer did not win before, `flipped` are
    won now. `rubrics` are those that changed, the largest gain first; their gains add up to `gain`.
    """

    attack: str
    n: int
    unjudged: int
    gain: float
    ci95: Interval
    relative: float | None
    behind: int
    flipped: int
    flips_ci95: Interval
    rubrics: tuple[GivingWay, ...]

    @property
    def gains(self) -> bool:
        """Whether the attack was found to gain: the whole interval is above 0."""
        return self.ci95.low > 0

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values."""
        plain = asdict(self)
        return plain | {name: list(plain[name]) for name in ("ci95", "flips_ci95", "rubrics")} | {"gains": self.gains}


def attack_found(
    attack: str, pairs: Sequence[PreferencePair], before: Sequence[Item | None], after: Sequence[Item | None]
) -> AttackFound | None:
    """Compare items of the same pairs, without an attack on the rejected answer and with it; None where none is judged.

    Pairs of one item of a benchmark are drawn together in the bootstrap.
    """
    judged = [
        (pair, one, other)
        for pair, one, other in zip(pairs, before, after, strict=True)
        if one is not None and other is not None and one.margin is not None and other.margin is not None
    ]
    if not judged:
        return None
    held = [_towards(pair) * (one.margin or 0.0) for pair, one, _ in judged]
    now = [_towards(pair) * (other.margin or 0.0) for pair, _, other in judged]
    gains = [new - old for old, new in zip(held, now, strict=True)]
    mean, usual = fsum(gains) / len(gains), fsum(map(abs, held)) / len(held)
    behind = [new > 0 for old, new in zip(held, now, strict=True) if old <= 0]
    return AttackFound(
        attack=attack,
        n=len(judged),
        unjudged=len(pairs) - len(judged),
        gain=mean,
        ci95=bootstrap_interval(gains, clusters=[one.item for _, one, _ in judged]),
        relative=mean / usual if usual else None,
        behind=len(behind),
        flipped=sum(behind),
        flips_ci95=wilson_interval(sum(behind), len(behind)),
        rubrics=_giving_way(judged),
    )


def attacked_side(pair: PreferencePair) -> Side:
    """Return the side of the answer that is attacked: the rejected one, which should not win."""
    return Side.B if pair.chosen_first else Side.A


def _towards(pair: PreferencePair) -> float:
    """Return the factor that turns a margin, or a contribution, towards the attacked answer."""
    return 1.0 if attacked_side(pair) is Side.A else -1.0


def _giving_way(judged: Sequence[tuple[PreferencePair, Item, Item]]) -> tuple[GivingWay, ...]:
    gains: dict[str, list[float]] = defaultdict(list)
    texts: dict[str, str] = {}
    turned: dict[str, int] = defaultdict(int)
    lost: dict[str, int] = defaultdict(int)
    for pair, before, after in judged:
        one, other = _rows(before), _rows(after)
        for key in one.keys() & other.keys():
            old, new = (fsum(row.contribution for row in rows[key]) for rows in (one, other))
            gains[key].append(_towards(pair) * (new - old))
            texts[key] = other[key][0].text
            passed = [_passes(pair, rows[key]) for rows in (one, other)]
            turned[key] += passed == [False, True]
            lost[key] += passed == [True, False]
    found = [
        GivingWay(
            id=key, text=texts[key], gain=fsum(held) / len(judged), pairs=len(held), turned=turned[key], lost=lost[key]
        )
        for key, held in gains.items()
    ]
    return tuple(
        sorted((one for one in found if one.gain or one.turned or one.lost), key=lambda one: (-one.gain, one.id))
    )


def _rows(item: Item) -> Mapping[str, Sequence[RubricRow]]:
    """Return the rows of an item by rubric: one, or one for each order and judge."""
    found: dict[str, list[RubricRow]] = defaultdict(list)
    for row in item.rubrics:
        found[row.id].append(row)
    return found


def _passes(pair: PreferencePair, rows: Sequence[RubricRow]) -> bool:
    """Whether the attacked answer passes a rubric in every row of it."""
    return all((row.a if attacked_side(pair) is Side.A else row.b) == "pass" for row in rows)


def table_rows(found: Sequence[AttackFound]) -> list[tuple[str, ...]]:
    """Return a row of words for each attack, as TABLE_HEADS says."""
    return [
        (
            one.attack,
            wording.count(one.n),
            wording.signed(one.gain, 3),
            f"{wording.signed(one.ci95.low, 3)} to {wording.signed(one.ci95.high, 3)}",
            wording.percent(one.relative, 0),
            wording.count(one.flipped),
            wording.percent(one.flipped / one.behind) if one.behind else wording.UNKNOWN,
            "gains" if one.gains else "not shown to gain" if one.relative else "all margins are 0",
        )
        for one in found
    ]


def rubric_rows(found: AttackFound, top: int) -> list[tuple[str, ...]]:
    """Return a row of words for each of the rubrics that gave most way to an attack, as RUBRIC_HEADS says."""
    return [
        (one.id, wording.signed(one.gain, 3), *map(wording.count, (one.pairs, one.turned, one.lost)), one.text)
        for one in found.rubrics[:top]
    ]
