"""Items: one line of items.jsonl, and back."""

from __future__ import annotations

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_item import build_item

from svr_async.core.pair import PreferencePair, Side, user_prompt
from svr_async.core.rubric import Rubric
from svr_async.core.verdict import Contribution, Outcome, RubricComparison, Verdict
from svr_async.evaluation.items import Item, read_item
from svr_async.judges.protocol import Reasked
from svr_async.scoring.decision import Decision


def pair(*, chosen_first: bool = True, gold: bool = True) -> PreferencePair:
    """Return a pair."""
    return PreferencePair(
        id="p", prompt=user_prompt("q"), chosen="a", rejected="b", domain="d", subset="s",
        chosen_first=chosen_first, has_preference=gold,
    )  # fmt: skip


def item(margin: float | None, outcome: Outcome = Outcome.SCORED, **settings_: bool) -> Item:
    """Return the item of a decision with one judged and one unjudged rubric."""
    judged = RubricComparison("x", Verdict.PASS, Verdict.FAIL, Side.A)
    parts = (
        Contribution(rubric=Rubric(text="Is it?"), comparison=judged, alpha=1 / 3, weight=0.3, filler=True),
        Contribution(rubric=Rubric(text="Is it not?"), comparison=None),
    )
    made = Decision(margin=margin, outcome=outcome, contributions=parts, requests=("k",), flags=("f",), detail="why")
    return build_item(pair(**settings_), made, order="ab", shown=[made], rows=[made])


@pytest.mark.parametrize(
    ("margin", "outcome", "chosen_first", "predicted", "correct"),
    [
        (0.5, Outcome.SCORED, True, "A", True), (-0.5, Outcome.SCORED, True, "B", False),
        (0.5, Outcome.SCORED, False, "A", False), (-0.5, Outcome.SCORED, False, "B", True),
        (0.0, Outcome.TIE, True, None, False), (None, Outcome.REFUSAL, True, None, False),
    ],
)  # fmt: skip
def test_right_is_the_gold_side_and_nothing_else(
    margin: float | None, outcome: Outcome, chosen_first: bool, predicted: str | None, correct: bool
) -> None:
    """A tie and a failure are wrong, whichever response is listed first."""
    found = item(margin, outcome, chosen_first=chosen_first)
    assert (found.predicted, found.correct, found.gold) == (predicted, correct, "A" if chosen_first else "B")
    assert found.margins == ({} if margin is None else {"ab": margin})


def test_an_item_lists_the_questions_that_every_run_asks() -> None:
    """What was put again for rubrics that a reply left out depends on the reply: the bytes of an item do not."""
    made = Decision(margin=1.0, outcome=Outcome.SCORED, requests=("k", Reasked("again"), "other"))
    assert build_item(pair(), made, order="ab", shown=[made], rows=[made]).requests == ("k", "other")


def test_an_item_survives_its_line() -> None:
    """Reading a line back gives the same item; the line is one line of JSON."""
    for made in (item(1 / 3), item(None, Outcome.TRUNCATED), item(0.0, Outcome.TIE)):
        line = made.to_line()
        assert line.count(b"\n") == 1
        assert read_item(line) == made


def test_rows_show_what_the_judge_saw_of_each_rubric() -> None:
    """Judged rubrics carry their verdicts and contribution, unjudged ones say so by null."""
    judged, unjudged = item(1.0).rubrics
    assert (judged.a, judged.b, judged.better, judged.delta, judged.shown) == ("pass", "fail", "A", 1.25, "ab")
    assert judged.filler
    assert judged.contribution == pytest.approx(1.25 * 0.1)
    assert (unjudged.a, unjudged.better, unjudged.delta, unjudged.contribution) == (None, None, None, 0.0)


@settings(deadline=None, max_examples=100)
@given(st.floats(allow_nan=False, allow_infinity=False, width=32))
def test_margins_are_rounded_alike_everywhere(margin: float) -> None:
    """The last bits of a sum, which differ between machines, are not written; minus zero never is."""
    line = item(margin, Outcome.SCORED if margin else Outcome.TIE).to_line()
    assert b"-0.0," not in line
    assert abs(orjson.loads(line)["margin"] - margin) <= 1e-9 + abs(margin) * 1e-9
