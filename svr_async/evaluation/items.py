"""One line of items.jsonl: what was decided about one pair, in the data set's order of A and B."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import orjson

from svr_async.scoring.decision import Decision
from svr_async.vocabulary.pair import Order, PreferencePair, Side
from svr_async.vocabulary.verdict import Contribution, Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class RubricRow:
    """One rubric of one item. `a`, `b`, `better`, `delta` are None where the judge gave no verdict.

    `text` is the rubric's own text, `rephrased` the wording that the judge saw where it was rewritten for the prompt.
    """

    id: str
    text: str
    alpha: float
    weight: float
    importance: float
    filler: bool
    a: str | None
    b: str | None
    better: str | None
    delta: float | None
    contribution: float
    shown: str
    rephrased: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One judged pair. `order` is `ab`, `ba` or `both`; `margin` > 0 favours response A of the data set.

    `item` is the benchmark's item that the pair belongs to (its own id where that is one pair).
    `gold` is None for pairs without a right answer; then `correct` is None too and the pair is in no accuracy.
    `margins` holds the margin of each order shown (`ab`, `ba`), both in the data set's A and B.
    """

    id: str
    item: str
    domain: str
    subset: str
    order: str
    outcome: str
    predicted: str | None
    gold: str | None
    correct: bool | None
    margin: float | None
    margins: dict[str, float]
    rubrics: tuple[RubricRow, ...]
    flags: tuple[str, ...]
    detail: str
    requests: tuple[str, ...]

    def to_line(self) -> bytes:
        """Return the item as one JSON line, keys in the order of the fields."""
        return orjson.dumps(asdict(self)) + b"\n"

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Item:
        """Read one parsed line; TypeError or KeyError where it is not an item."""
        rubrics = tuple(RubricRow(**row) for row in value["rubrics"])
        lists = {name: tuple(value[name]) for name in ("flags", "requests")}
        return cls(**{**value, **lists, "rubrics": rubrics})


def build_item(
    pair: PreferencePair, decision: Decision, *, order: str, shown: Sequence[Decision], rows: Sequence[Decision]
) -> Item:
    """Join a pair and its decision (data order) to an item.

    `shown` are the decisions of each order that was shown, `rows` those whose rubrics are listed.
    """
    preferred = decision.preferred
    scored = decision.outcome in {Outcome.SCORED, Outcome.TIE}
    gold = pair.gold
    return Item(
        id=pair.id,
        item=pair.item or pair.id,
        domain=pair.domain,
        subset=pair.subset,
        order=order,
        outcome=decision.outcome.value,
        predicted=None if preferred is None else preferred.value,
        gold=None if gold is None else gold.value,
        correct=None if gold is None else (scored and preferred is gold),
        margin=_rounded(decision.margin),
        margins={one.shown.value: _rounded(one.margin) or 0.0 for one in shown if one.margin is not None},
        rubrics=tuple(_row(entry, one.shown) for one in rows for entry in one.contributions),
        flags=decision.flags,
        detail=decision.detail,
        requests=decision.requests,
    )


def rephrased_counts(items: Sequence[Item]) -> tuple[int, int]:
    """Return how many rubrics were shown in runs that rephrase, and how many of them in their own words."""
    rows = [row for item in items for row in item.rubrics]
    return len(rows), sum(row.rephrased is None for row in rows)


def _row(entry: Contribution, shown: Order) -> RubricRow:
    made = entry.comparison
    return RubricRow(
        id=entry.rubric.id,
        text=entry.rubric.text,
        alpha=_rounded(entry.alpha) or 0.0,
        weight=_rounded(entry.weight) or 0.0,
        importance=_rounded(entry.importance) or 0.0,
        filler=entry.filler,
        a=None if made is None else made.a.value,
        b=None if made is None else made.b.value,
        better=None if made is None or made.better is None else Side(made.better).value,
        delta=entry.delta,
        contribution=_rounded(entry.value) or 0.0,
        shown=shown.value,
        rephrased=entry.rephrased,
    )


def _rounded(value: float | None) -> float | None:
    """Round to nine digits, so that the last bits of a sum do not differ between machines; never −0."""
    return None if value is None else round(value, 9) + 0.0
