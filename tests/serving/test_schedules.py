"""Schedules: who meets whom at which cost, that all are connected, and what rounds spend their calls on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_bank import checked_bank
from test_serving_ranking import Lengthy

from svr_async import rank
from svr_async.errors import UsageError
from svr_async.serving.potentials import connected, potentials, standings
from svr_async.serving.schedules import Pair, Schedule, most_pairs, pairs_at_once, scheduled, swiss_round

BOUNDED: tuple[Schedule, ...] = ("circle", "anchor", "swiss")
EIGHT = ["x" * n for n in (3, 1, 8, 6, 2, 7, 5, 4)]


@pytest.mark.parametrize(("schedule", "calls"), [("all", 28), ("circle", 8), ("anchor", 7), ("swiss", 12)])
async def test_every_schedule_finds_the_best_at_its_price(schedule: Schedule, calls: int) -> None:
    """Eight responses cost 28, 8, 7 and 12 questions; each has a score, and the sum of scores is zero."""
    judge = Lengthy()
    found = await rank("q", EIGHT, bank=checked_bank(), engine=judge, method="pairwise", schedule=schedule)
    assert found.questions == judge.asked == len(found.margins) == most_pairs(schedule, 8) == calls
    assert None not in found.scores
    assert sum(score or 0.0 for score in found.scores) == pytest.approx(0.0, abs=1e-6)
    again = await rank("q", EIGHT, bank=checked_bank(), engine=Lengthy(), schedule=schedule, method="pairwise")
    assert again == found


async def test_an_anchor_is_met_by_all_and_equal_texts_once() -> None:
    """The anchor is a place in the list as given; its copies are never asked about; `auto` is pairwise here."""
    judge = Lengthy()
    found = await rank(
        "q", ["a", "bb", "a", "cccc", "ddd"], bank=checked_bank(), engine=judge, schedule="anchor", anchor=3
    )
    assert (judge.asked, found.method) == (3, "pairwise")
    assert {pair for pair in found.margins if 3 not in pair} == {(0, 2)}
    assert found.scores[0] == found.scores[2]


@settings(deadline=None, max_examples=40)
@given(st.sampled_from(BOUNDED), st.lists(st.floats(-2, 2), min_size=1, max_size=17), st.integers(1, 6))
async def test_any_number_is_connected_within_its_bound(schedule: Schedule, true: list[float], rounds: int) -> None:
    """No pair is asked for twice, none in a round shares a response, and consistent margins give back the scores."""
    asked: list[Pair] = []
    n, most = len(true), rounds if schedule == "swiss" else None

    async def judge(pairs: Sequence[Pair]) -> Mapping[Pair, float]:
        assert schedule != "swiss" or len({place for pair in pairs for place in pair}) == 2 * len(pairs)
        asked.extend(pairs)
        return {(i, j): true[i] - true[j] for i, j in pairs}

    margins = await scheduled(schedule, n, judge, rounds=most)
    assert len(set(asked)) == len(asked) <= most_pairs(schedule, n, rounds=most)
    assert all(i < j for i, j in asked)
    assert connected(n, margins) == [list(range(n))]
    mean = sum(true) / n
    assert [score or 0.0 for score in potentials(n, margins)] == pytest.approx([one - mean for one in true], abs=1e-6)


async def test_rounds_pair_near_scores_and_let_another_rest() -> None:
    """The first round goes by place, the next by score; with five one rests, and not the same one twice."""
    assert swiss_round(4, {}, ()) == [(0, 1), (2, 3)]
    assert swiss_round(4, {(0, 1): -1.0, (2, 3): 1.0}, {(0, 1), (2, 3)}) == [(0, 3), (1, 2)]
    rests: list[int] = []
    met: set[Pair] = set()
    for _ in range(4):
        now = swiss_round(5, dict.fromkeys(met, 0.0), met)
        rests += set(range(5)) - {place for pair in now for place in pair}
        met.update(now)
    assert len(set(rests)) > 2
    assert swiss_round(4, dict.fromkeys(combinations(range(4), 2), 0.0), set(combinations(range(4), 2))) == []


async def test_a_failed_judgement_is_not_asked_again_and_others_go_on() -> None:
    """A round that cannot connect two by one pair takes another pair for it."""

    async def judge(pairs: Sequence[Pair]) -> Mapping[Pair, float]:
        return {pair: 1.0 for pair in pairs if pair != (0, 1)}

    margins = await scheduled("swiss", 4, judge, rounds=4)
    assert (0, 1) not in margins
    assert connected(4, margins) == [[0, 1, 2, 3]]


def test_standings_are_there_before_anything_is_connected() -> None:
    """What was not judged yet stands at 0, between those that won and those that lost."""
    assert standings(3, {(0, 1): 3.0}) == [1.0, -1.0, 0.0]
    assert pairs_at_once("circle", 2) == [(0, 1)]
    with pytest.raises(UsageError, match="anchor 3 is none of 3"):
        pairs_at_once("anchor", 3, anchor=3)
