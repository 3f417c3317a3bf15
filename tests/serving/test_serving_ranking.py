"""Best-of-N: scores that explain the margins, their cost in calls, and ties in the order given."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from endpoint import SimConfig
from hypothesis import given, settings
from hypothesis import strategies as st
from rig import name_judge, pairs, serving
from small_bank import checked_bank, planted_bank
from stand_ins import UnaskedJudge

from svr_async import Engine, arank
from svr_async.core.pair import Presentation, Prompt, Side
from svr_async.core.rubric import Rubric
from svr_async.core.verdict import Outcome, RubricComparison, Verdict
from svr_async.errors import BudgetError, UsageError
from svr_async.judges.protocol import Answer, Comparisons
from svr_async.serving.ranking import How, Schedule, pairs_of, potentials


class Lengthy(UnaskedJudge):
    """A judge for which longer is better; it counts its questions and gives no verdict on `silent` texts."""

    name = label = "lengthy"

    def __init__(self, *, silent: Sequence[str] = ()) -> None:
        self.asked = 0
        self.silent = set(silent)

    async def compare(
        self, shown: Presentation, rubrics: Sequence[Rubric], *, overall: bool, note: str = ""
    ) -> Answer[Comparisons]:
        self.asked += 1
        if self.silent & {shown.response_a, shown.response_b}:
            return Answer(value=None, outcome=Outcome.API_ERROR)
        a, b = len(shown.response_a), len(shown.response_b)
        side = None if a == b else Side.A if a > b else Side.B
        of_a, of_b = (Verdict.PASS if size >= 3 else Verdict.FAIL for size in (a, b))
        rows = tuple(RubricComparison(r.id, of_a, of_b, side) for r in rubrics)
        return Answer(value=Comparisons(rows=rows), requests=(f"{shown.response_a}|{shown.response_b}",))

    async def score(self, prompt: Prompt, response: str, rubrics: Sequence[Rubric]) -> Answer[Mapping[str, float]]:
        self.asked += 1
        if response in self.silent:
            return Answer(value=None, outcome=Outcome.API_ERROR)
        value: Mapping[str, float] = {rubric.id: min(1.0, len(response) / 10) for rubric in rubrics}
        return Answer(value=value, requests=(response,))


RESPONSES = ("bbbb", "a", "cccccc", "dd")


async def test_ties_stand_in_the_order_given_and_equal_texts_are_judged_once() -> None:
    """Equal responses share a score and are judged once."""
    judge = Lengthy()
    found = await arank("q", ["aa", "bb", "aa", "ccc", "bb"], bank=checked_bank(), engine=judge)
    assert found.order == (3, 0, 1, 2, 4)
    assert found.scores[0] == found.scores[1] == found.scores[2] == found.scores[4]
    assert (judge.asked, found.margins[0, 2]) == (3, 0.0)
    assert found.margins[0, 3] == found.margins[2, 3] < 0
    alone = await arank("q", ["only", "only"], bank=checked_bank(), engine=judge)
    assert (alone.order, alone.scores, alone.best, judge.asked) == ((0, 1), (0.0, 0.0), 0, 3)


@pytest.mark.parametrize("method", ["pairwise", "pointwise"])
async def test_a_response_without_a_verdict_stands_last_without_a_score(method: How) -> None:
    """A score is never invented; without any verdict, no response is best."""
    bank = checked_bank()
    judge = Lengthy(silent=["cccccc"])
    found = await arank("q", RESPONSES, bank=bank, engine=judge, method=method)
    assert (found.order, found.scores[2]) == ((0, 3, 1, 2), None)
    assert (0, 2) not in found.margins
    dumb = Lengthy(silent=RESPONSES)
    empty = await arank("q", RESPONSES, bank=bank, engine=dumb, method=method)
    assert (empty.order, empty.best, empty.scores) == ((0, 1, 2, 3), None, (None,) * 4)


async def test_invalid_settings_are_one_line() -> None:
    """No response, unknown values, and settings that exclude each other."""
    async with Engine("rules") as engine:
        for responses, options, says in (
            ((), {}, "at least one text"),
            (("a", "b"), {"method": "magic"}, "method must be"),
            (("a", "b"), {"method": "pointwise", "rephrase": True}, "no rephrasing"),
            (("a", "b"), {"method": "pointwise", "order": "both"}, "no order"),
            (("a", "b"), {"rephrase": True}, "cannot rephrase"),
            (("a", "b"), {"bank": None, "method": "pointwise"}, "needs a bank"),
            (("a", "b"), {"schedule": "round"}, "schedule must be one of all, circle"),
            (("a", "b"), {"method": "pointwise", "schedule": "circle"}, "no schedule"),
        ):
            how: dict[str, Any] = {"bank": checked_bank(), "engine": engine, **options}
            with pytest.raises(UsageError, match=says) as caught:
                await arank("q", responses, **how)
            assert "\n" not in caught.value.one_line()


async def test_a_cap_ends_a_ranking_and_what_was_paid_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With too few calls allowed a BudgetError is raised; calls under way end first, and are in the cache."""
    monkeypatch.chdir(tmp_path)
    one, other = pairs(2)
    responses = [one.chosen, one.rejected, other.chosen, other.rejected]
    with serving(SimConfig(latency_ms=20.0)) as server:
        name_judge(tmp_path, server.base_url)
        async with Engine("sim", cache="cache", max_calls=4) as engine:
            with pytest.raises(BudgetError, match="--max-calls 4"):
                await arank(one.prompt, responses, bank=planted_bank(), engine=engine)
        async with Engine("sim", cache="cache", max_calls=2) as engine:
            assert (await arank(one.prompt, responses, bank=planted_bank(), engine=engine)).best is not None
        assert server.stats()["paid"] == 6


@settings(deadline=None, max_examples=60)
@given(st.integers(2, 7), st.randoms(use_true_random=False))
def test_with_every_margin_a_score_is_a_mean_margin(n: int, random: random.Random) -> None:
    """Also where margins contradict each other: the least-squares scores of a whole table are its row means."""
    table = np.zeros((n, n))
    for i, j in combinations(range(n), 2):
        table[i, j] = random.uniform(-1, 1)
        table[j, i] = -table[i, j]
    found = potentials(range(n), {(i, j): float(table[i, j]) for i, j in combinations(range(n), 2)})
    assert np.allclose([*found.values()], table.mean(axis=1), atol=1e-8)


def test_what_no_margin_connects_has_no_score() -> None:
    """Only the largest connected group has scores; of equal ones the first."""
    assert potentials(range(5), {(0, 1): 1.0, (2, 3): 1.0, (3, 4): 1.0}) == {2: 1.0, 3: 0.0, 4: -1.0}
    assert potentials(range(4), {(0, 1): 2.0, (2, 3): 1.0}) == {0: 1.0, 1: -1.0}
    assert potentials(range(2), {}) == {}
    assert potentials([7], {}) == {7: 0.0}


async def test_responses_that_nothing_tells_apart_are_undecided() -> None:
    """Equal scores are not a choice; one that differs is."""
    async with Engine("rules") as engine:
        alike = await arank("What is the capital of France?", ["Paris.", "Lyon.", "Nice."], engine=engine)
        apart = await arank(
            "In one sentence, what is bread?", ["Baked dough.", "It is food. It is baked."], engine=engine
        )
        many = await arank("Say much.", [f"Answer {'word ' * n}" for n in range(8)], engine=engine)
    assert (alike.undecided, apart.undecided) == (True, False)
    assert many.method == "pairwise", "without a bank no response is scored alone"


EIGHT = ["x" * n for n in (3, 1, 8, 6, 2, 7, 5, 4)]


@pytest.mark.parametrize(
    ("n", "how", "method", "calls"),
    [
        (6, {}, "pairwise", 15),
        (7, {}, "pointwise", 7),
        (8, {"method": "pairwise"}, "pairwise", 28),
        (8, {"schedule": "circle"}, "pairwise", 8),
        (4, {"method": "pointwise"}, "pointwise", 4),
    ],
)
async def test_every_method_finds_the_best_at_its_price(n: int, how: dict[str, Any], method: str, calls: int) -> None:
    """Each response has a score, the scores sum to zero, the longest is the best; `auto` compares up to six."""
    judge = Lengthy()
    found = await arank("q", EIGHT[:n], bank=checked_bank(), engine=judge, **how)
    assert (found.questions, judge.asked, found.method) == (calls, calls, method)
    assert None not in found.scores
    assert sum(score or 0.0 for score in found.scores) == pytest.approx(0.0, abs=1e-6)
    assert found.best == 2 or how == {"schedule": "circle"}


@settings(deadline=None, max_examples=40)
@given(st.sampled_from(["all", "circle"]), st.lists(st.floats(-2, 2), min_size=1, max_size=17))
def test_any_number_is_connected(schedule: Schedule, true: list[float]) -> None:
    """No pair is asked twice, and consistent margins give back the scores."""
    pairs = pairs_of(schedule, len(true))
    assert len(set(pairs)) == len(pairs)
    assert all(i < j for i, j in pairs)
    found = potentials(range(len(true)), {(i, j): true[i] - true[j] for i, j in pairs})
    mean = sum(true) / len(true)
    assert [*found.values()] == pytest.approx([one - mean for one in true], abs=1e-6)
