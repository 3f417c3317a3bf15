"""Juries: means and majorities, judges without a verdict, and contributions that add up."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from svr_async.core.pair import Side
from svr_async.core.rubric import Rubric
from svr_async.core.verdict import Contribution, Outcome, RubricComparison, Verdict
from svr_async.scoring.decision import INCOMPLETE, Decision, JuryRule, verdict

RUBRIC = Rubric(text="Says why")


def decision(margin: float | None, *requests: str, flags: tuple[str, ...] = ()) -> Decision:
    """Return what one judge decided: by one rubric that weighs as much as the margin says; None is no verdict."""
    if margin is None:
        return Decision(margin=None, outcome=Outcome.REFUSAL, requests=requests, detail="no")
    side = Side.A if margin > 0 else Side.B
    row = RubricComparison(RUBRIC.id, Verdict.PASS, Verdict.PASS, side)
    part = Contribution(rubric=RUBRIC, comparison=row, weight=4 * abs(margin))
    outcome = Outcome.SCORED if margin else Outcome.TIE
    return Decision(margin=margin, outcome=outcome, contributions=(part,), requests=requests, flags=flags)


MARGINS = st.lists(st.sampled_from([-1.5, -0.25, 0.0, 0.5, 2.0, None]), min_size=2, max_size=5)


@settings(deadline=None)
@given(MARGINS, st.sampled_from(JuryRule))
def test_more_than_half_of_the_jury_has_to_speak(margins: list[float | None], rule: JuryRule) -> None:
    """A pair is scored by those that have a verdict where they are more than half; all requests are kept."""
    found = verdict([decision(margin, str(place)) for place, margin in enumerate(margins)], rule)
    heard = [margin for margin in margins if margin is not None]
    assert (found.margin is not None) == (2 * len(heard) > len(margins))
    assert found.requests == tuple(str(place) for place in range(len(margins)))
    if found.margin is None:
        assert found.outcome is Outcome.REFUSAL
    else:
        assert (found.outcome is Outcome.TIE) == (found.margin == 0)
        assert (INCOMPLETE in found.flags) == (len(heard) < len(margins))


@settings(deadline=None)
@given(MARGINS.filter(lambda margins: None not in margins))
def test_with_the_mean_contributions_add_up_to_the_margin(margins: list[float]) -> None:
    """The jury's margin is the mean of its judges', and its rubrics add up to it."""
    found = verdict([decision(margin) for margin in margins], JuryRule.MEAN)
    assert found.margin == pytest.approx(sum(margins) / len(margins))
    assert sum(part.value for part in found.contributions) == pytest.approx(found.margin)


def test_a_majority_outvotes_a_large_margin() -> None:
    """Two judges by a little beat one by much; with the mean, they do not."""
    jury = [decision(0.1), decision(0.1), decision(-9.0)]
    assert verdict(jury, JuryRule.MAJORITY).margin == pytest.approx(1 / 3)
    assert verdict(jury, JuryRule.MEAN).preferred is Side.B
    assert verdict([decision(1.0), decision(-1.0)], JuryRule.MAJORITY).outcome is Outcome.TIE
