"""Items of decisions, for tests."""

from __future__ import annotations

from collections.abc import Sequence

from svr_async.core.pair import PreferencePair
from svr_async.evaluation.items import Item, item_from
from svr_async.evaluation.plan import PairDecision, Rows
from svr_async.scoring.decision import Decision


def build_item(
    pair: PreferencePair, decision: Decision, *, order: str, shown: Sequence[Decision], rows: Sequence[Decision]
) -> Item:
    """Join a pair and its decision (data order) to an item.

    `shown` are the decisions of each order that was shown, `rows` those whose rubrics are listed.
    """
    judged = PairDecision(
        decision=decision,
        judge="",
        order=order,
        margins={one.shown.value: one.margin for one in shown if one.margin is not None},
        rows=tuple(Rows(judge="", decision=one) for one in rows),
        votes=(),
    )
    return item_from(pair, judged)
