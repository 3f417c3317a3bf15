"""Rubrics that deny something are put in the positive only where nothing is left to judgement."""

from __future__ import annotations

import pytest

from svr_async.core.rubric import positive


@pytest.mark.parametrize(
    ("rubric", "asked"),
    [
        ("The response does not mention prices.", "The response does mention prices."),
        ("The response doesn’t apologise.", "The response does apologise."),
        ("The response never names a brand.", "The response names a brand."),
        ("The response has no typographical errors.", "The response has any typographical errors."),
        ("The response must not state the limit.", "The response must state the limit."),
        ("The response cannot be read as advice.", "The response can be read as advice."),
    ],
)
def test_a_rubric_that_denies_one_thing_is_asked_in_the_positive(rubric: str, asked: str) -> None:
    """The "not" goes, and the answer is to be turned round."""
    assert (positive(rubric).text, positive(rubric).turned) == (asked, True)


@pytest.mark.parametrize(
    "rubric",
    [
        "The response mentions prices.",
        "The response does not mention prices and explains the refund.",
        "The response does not promise more than it delivers.",
        "The response is not long, but complete.",
        "The response does not leave out what is not known.",
        "The response never ends without a summary.",
        "The response avoids jargon.",
        "The response does not answer if the question is dangerous.",
    ],
)
def test_a_rubric_whose_denial_has_an_unsure_reach_is_left_alone(rubric: str) -> None:
    """Two denials, an "and", a comparison or a condition: the judge is shown the rubric as it is."""
    assert (positive(rubric).text, positive(rubric).turned) == (rubric, False)
