"""Schedules: which responses are compared at which cost, and that the scores follow from the margins."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_bank import checked_bank
from test_serving_ranking import Lengthy

from svr_async import arank
from svr_async.serving.ranking import Schedule, pairs_of, potentials

EIGHT = ["x" * n for n in (3, 1, 8, 6, 2, 7, 5, 4)]


@pytest.mark.parametrize(("schedule", "calls"), [("all", 28), ("circle", 8), ("anchor", 7)])
async def test_every_schedule_finds_the_best_at_its_price(schedule: Schedule, calls: int) -> None:
    """Eight responses cost 28, 8 and 7 questions; each has a score, and the scores sum to zero."""
    judge = Lengthy()
    found = await arank("q", EIGHT, bank=checked_bank(), engine=judge, method="pairwise", schedule=schedule)
    assert found.questions == judge.asked == len(found.margins) == calls
    assert None not in found.scores
    assert sum(score or 0.0 for score in found.scores) == pytest.approx(0.0, abs=1e-6)


async def test_an_anchor_meets_all_and_equal_texts_once() -> None:
    """The anchor is a place in the given list; its copies are never asked about; `auto` is pairwise here."""
    judge = Lengthy()
    texts = ["a", "bb", "a", "cccc", "ddd"]
    found = await arank("q", texts, bank=checked_bank(), engine=judge, schedule="anchor", anchor=3)
    assert (judge.asked, found.method) == (3, "pairwise")
    assert {pair for pair in found.margins if 3 not in pair} == {(0, 2)}
    assert found.scores[0] == found.scores[2]


@settings(deadline=None, max_examples=40)
@given(st.sampled_from(["circle", "anchor"]), st.lists(st.floats(-2, 2), min_size=1, max_size=17))
def test_any_number_is_connected(schedule: Schedule, true: list[float]) -> None:
    """No pair is asked twice, and consistent margins give back the scores."""
    pairs = pairs_of(schedule, len(true))
    assert len(set(pairs)) == len(pairs)
    assert all(i < j for i, j in pairs)
    found = potentials(len(true), {(i, j): true[i] - true[j] for i, j in pairs})
    mean = sum(true) / len(true)
    assert [score or 0.0 for score in found] == pytest.approx([one - mean for one in true], abs=1e-6)
