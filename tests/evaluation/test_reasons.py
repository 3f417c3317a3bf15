"""The reasons of a run: kept with its items and shown with the row that they belong to."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from made_item import build_item
from made_run import made_items, write_run
from rig import pairs

from svr_async.core.pair import Order, Side
from svr_async.core.rubric import Rubric
from svr_async.core.verdict import Contribution, Outcome, RubricComparison, Verdict
from svr_async.evaluation.items import Item, Reason, read_item
from svr_async.evaluation.run_folder import Run
from svr_async.reports.explain import explain, reason_of, why
from svr_async.scoring.decision import Decision

PAIR = pairs(1)[0]
RUBRIC = Rubric(text="Says why.")


def item_with(text: str, *, shown: Order = Order.AB, overall: str = "") -> Item:
    """Return the item of a decision on one rubric, of which the judge wrote a text."""
    row = RubricComparison(RUBRIC.id, Verdict.PASS, Verdict.FAIL, Side.A, text)
    part = Contribution(rubric=RUBRIC, comparison=row)
    decision = Decision(margin=1.25, outcome=Outcome.SCORED, contributions=(part,), shown=shown, reason=overall)
    return build_item(PAIR, decision, order=shown.value, shown=(decision,), rows=(decision,))


def with_texts(items: list[Item]) -> list[Item]:
    """Return made items with a reason for each rubric of every second one."""
    said = [
        tuple(Reason(rubric=row.id, shown=row.shown, judge="", text=f"{item.id}: {row.text}") for row in item.rubrics)
        for item in items
    ]
    return [replace(item, reasons=said[n] if n % 2 else ()) for n, item in enumerate(items)]


def test_reasons_are_written_with_their_item_and_read_back() -> None:
    """Written reasons are read back; an item without reasons has no such field."""
    items = with_texts(made_items(n=10))
    assert [read_item(item.to_line()) for item in items] == items
    assert b"reasons" not in item_with("  \n").to_line()
    assert [one.text for one in item_with("because", overall="all in all").reasons] == ["all in all", "because"]


def test_a_reason_tells_when_it_speaks_of_swapped_responses() -> None:
    """What was written with the two swapped says so, since its A is the B of all that stands around it."""
    kept, swapped = item_with("A is right"), item_with("B is right", shown=Order.BA)
    assert why(kept.reasons[0]) == "why"
    assert why(swapped.reasons[0]) == "why (its A is B here)"
    found = reason_of(swapped, swapped.rubrics[0])
    assert found is not None
    assert found.text == "B is right"
    assert reason_of(replace(swapped, reasons=kept.reasons), swapped.rubrics[0]) is None


def test_explanations_and_the_report_show_them_escaped(tmp_path: Path) -> None:
    """Each reason stands with its rubric, in the report as text and never as markup."""
    items = [
        replace(
            item,
            reasons=tuple(
                Reason(rubric=row.id, shown=row.shown, judge="", text=f"<i>{item.id}</i>") for row in item.rubrics[:1]
            ),
        )
        for item in made_items(n=40)
    ]
    write_run(tmp_path / "run", items=items)
    run = Run.load(tmp_path / "run")
    wrong = next(item for item in run.items if item.correct is False and item.margin)
    assert explain(run, wrong.id).item.reasons[0].text == f"<i>{wrong.id}</i>"
    page = explain(run, wrong.id)._repr_html_()
    assert f"&lt;i&gt;{wrong.id}&lt;/i&gt;" in page
    assert "<i>" + wrong.id not in page
