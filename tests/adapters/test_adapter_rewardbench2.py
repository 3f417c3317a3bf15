"""RewardBench 2: three pairs an item, items won as a whole, and the Ties formula on cases worked out by hand."""

import math
import warnings
from collections.abc import Callable, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from svr_async.adapters import PairResult, get_adapter
from svr_async.adapters.rewardbench2 import SUBSETS
from svr_async.adapters.ties import bounded_ratio, completion_scores, raw_difference, ties_score
from svr_async.core.pair import PreferencePair, user_prompt
from svr_async.errors import DataError

ADAPTER = get_adapter("rewardbench2")


def row(
    subset: str = "Math",
    n: int | str = 1,
    chosen: tuple[str] | list[str] = ("good",),
    rejected: Sequence[str] = ("bad", "worse", "worst"),
) -> dict[str, Any]:
    """Return one row in the official schema."""
    return {
        "id": str(n),
        "prompt": f"p{n}",
        "chosen": list(chosen),
        "rejected": list(rejected),
        "num_correct": len(chosen),
        "num_incorrect": len(rejected),
        "total_completions": len(chosen) + len(rejected),
        "models": ["m"],
        "subset": subset,
    }


def ties_row(n: str, right: int, wrong: int) -> dict[str, Any]:
    """Return a Ties row with so many right and wrong completions."""
    return row("Ties", n, [f"r{i}" for i in range(right)], [f"w{i}" for i in range(wrong)])


def by_completion_scores(pairs: Sequence[PreferencePair], scores: dict[str, list[int]]) -> list[PairResult]:
    """Judge pairs by given scores of the completions: margin = score of the first minus score of the second."""
    return [PairResult(pair, scores[pair.item][pair.slot[0]] - scores[pair.item][pair.slot[1]]) for pair in pairs]


def scored(results: list[PairResult]) -> dict[str, float]:
    """Return the score of a ties set that has one."""
    found = ties_score(results)
    assert found is not None
    return found


def duel(item: str, slot: tuple[int, int], margin: float | None, *, equal: bool = False) -> PairResult:
    """Return one judged pair of a Ties item."""
    pair = PreferencePair(
        id=f"{item}/{slot[0]}-{slot[1]}",
        prompt=user_prompt("p"),
        chosen="a",
        rejected="b",
        subset="Ties",
        item=item,
        slot=slot,
        has_preference=not equal,
    )
    return PairResult(pair, margin)


def exact(item: str, scores: list[float], right: int) -> list[PairResult]:
    """Make results for an item of right + wrong completions from a full table of duels."""
    slots = [(i, j) for i in range(right) for j in range(right, len(scores))]
    equals = list(combinations(range(right), 2))
    made = [duel(item, s, scores[s[0]] - scores[s[1]]) for s in slots]
    return made + [duel(item, s, scores[s[0]] - scores[s[1]], equal=True) for s in equals]


def test_an_item_becomes_three_pairs(write: Callable[..., Path]) -> None:
    """One chosen response meets each of three rejected ones; item and slot say which."""
    dataset = ADAPTER.load(write("a.parquet", [row("Precise IF", 7)]))
    assert [pair.id for pair in dataset.pairs] == [f"Precise IF/7/0-{j}" for j in (1, 2, 3)]
    assert {pair.item for pair in dataset.pairs} == {"Precise IF/7"}
    assert [(pair.chosen, pair.rejected) for pair in dataset.pairs] == [("good", t) for t in ("bad", "worse", "worst")]
    assert all(pair.has_preference and pair.domain == "Precise IF" for pair in dataset.pairs)


def test_a_ties_item_becomes_a_round_robin(write: Callable[..., Path]) -> None:
    """Right answers meet every wrong one, and each other without a preference."""
    pairs = ADAPTER.load(write("a.jsonl", [ties_row("tied:3", 3, 2)])).pairs
    assert [pair.slot for pair in pairs if pair.has_preference] == [(i, j) for i in range(3) for j in (3, 4)]
    assert [pair.slot for pair in pairs if not pair.has_preference] == [(0, 1), (0, 2), (1, 2)]
    assert [pair.gold for pair in pairs][-3:] == [None] * 3


@pytest.mark.parametrize("change", [{"chosen": "text"}, {"chosen": []}, {"rejected": [1]}, {"rejected": None}])
def test_lists_of_texts_are_required(write: Callable[..., Path], change: dict[str, Any]) -> None:
    """A text instead of a list, an empty list or a number inside is refused."""
    with pytest.raises(DataError, match="expected a list of texts"):
        ADAPTER.load(write("a.jsonl", [{**row(), **change}]))


def test_ties_need_ids_that_say_which_kind_they_are(write: Callable[..., Path]) -> None:
    """A Ties item whose id is neither ref nor tied cannot be scored, and is refused."""
    with pytest.raises(DataError, match=r"called ref:<n> or tied:<n>, found '12'"):
        ADAPTER.load(write("a.jsonl", [ties_row("12", 1, 2)]))


def test_an_item_counts_only_if_all_its_pairs_are_won(write: Callable[..., Path]) -> None:
    """Two of three pairs won is no point at item level and two thirds at pair level."""
    pairs = ADAPTER.load(write("a.jsonl", [row("Math", 1), row("Math", 2), row("Focus", 1)])).pairs
    margins = [1, 1, 1, 1, 1, -1, 1, 1, 0]
    results = [PairResult(p, float(m)) for p, m in zip(pairs, margins, strict=True)]
    found = ADAPTER.official_scores(pairs, results)
    assert found["subsets"] == {"Focus": 0.0, "Math": 0.5}
    assert found["pair_level"] == {"Focus": pytest.approx(2 / 3), "Math": pytest.approx(5 / 6)}
    assert found["overall"] == found["overall_without_ties"] == 0.25
    assert found["ties"] is None
    half = ADAPTER.official_scores(pairs, results, tie_credit=0.5)
    assert half["subsets"] == {"Focus": 0.5, "Math": 0.5}


def test_a_missing_verdict_loses_the_item(write: Callable[..., Path]) -> None:
    """An item with an unscored pair does not count as won."""
    pairs = ADAPTER.load(write("a.jsonl", [row()])).pairs
    assert ADAPTER.official_scores(pairs, [PairResult(p, 1.0) for p in pairs[:2]])["overall"] == 0.0


@settings(deadline=None, max_examples=50)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["Math", "Focus", "Safety"]),
            st.lists(st.sampled_from([-1.0, 0.0, 1.0, None]), min_size=3, max_size=3),
        ),
        min_size=1,
        max_size=30,
    )
)
def test_item_and_pair_level_agree_with_a_slow_second_reading(cases: list[tuple[str, list[float | None]]]) -> None:
    """For any verdicts the two levels are what plain loops over items and pairs give."""
    results: list[PairResult] = []
    won: dict[str, list[bool]] = {}
    single: dict[str, list[bool]] = {}
    for n, (subset, margins) in enumerate(cases):
        for j, margin in enumerate(margins, 1):
            pair = PreferencePair(
                id=f"{n}/{j}",
                prompt=user_prompt("p"),
                chosen="a",
                rejected="b",
                subset=subset,
                item=f"{subset}/{n}",
                slot=(0, j),
            )
            results.append(PairResult(pair, margin))
        hits = [margin is not None and margin > 0 for margin in margins]
        won.setdefault(subset, []).append(all(hits))
        single.setdefault(subset, []).extend(hits)
    found = ADAPTER.official_scores([r.pair for r in results], results)
    assert found["subsets"] == pytest.approx({s: sum(v) / len(v) for s, v in won.items()})
    assert found["pair_level"] == pytest.approx({s: sum(v) / len(v) for s, v in single.items()})
    assert found["overall"] == pytest.approx(sum(sum(v) / len(v) for v in won.values()) / len(won))


def test_the_overall_score_is_the_mean_of_the_subsets_with_ties(write: Callable[..., Path]) -> None:
    """Ties enter the overall mean with their own formula, and `overall_without_ties` leaves them out."""
    pairs = ADAPTER.load(write("a.jsonl", [row("Math", 1), ties_row("ref:1", 1, 2), ties_row("tied:1", 2, 2)])).pairs
    scores = {"Math/1": [9, 0, 0, 0], "Ties/ref:1": [4, 0, 0], "Ties/tied:1": [4, 4, 0, 0]}
    found = ADAPTER.official_scores(pairs, by_completion_scores(pairs, scores))
    assert found["overall_without_ties"] == 1.0
    assert found["overall"] == pytest.approx((1.0 + found["subsets"]["Ties"]) / 2)
    assert not found["complete"]


def test_completion_scores_are_mean_signed_margins() -> None:
    """Each completion's score is the mean of its margins, with the sign turned where it stood second."""
    results = [
        duel("Ties/tied:1", (0, 2), 3.0),
        duel("Ties/tied:1", (1, 2), 1.0),
        duel("Ties/tied:1", (0, 1), 1.0, equal=True),
    ]
    assert completion_scores(results) == {0: 2.0, 1: 0.0, 2: -2.0}


def test_perfect_ties_score_just_above_one() -> None:
    """Equal right answers far above the wrong ones give 0.3 + 0.3 + 0.2 + 0.2 and the small last term."""
    found = scored(exact("Ties/ref:1", [5.0, 0.0], 1) + exact("Ties/tied:1", [5.0, 5.0, 0.0], 2))
    assert found["score"] == pytest.approx(1.01)  # x/0 gives the largest last term, 1
    assert found["accurate_ref"] == found["accurate_tied"] == found["hard_gap_above_diff"] == 1.0


def test_ties_worked_out_by_hand() -> None:
    """A tied prompt with scores 1.75, 0.75 and −2.5 and a ref prompt with ±2 give 1 + 0.01 · tanh(3.25/1 − 1)."""
    # tied: right 0 and 1, wrong 2; margins 0-2: 3, 1-2: 2, 0-1: 0.5
    tied = [
        duel("Ties/tied:1", (0, 2), 3.0),
        duel("Ties/tied:1", (1, 2), 2.0),
        duel("Ties/tied:1", (0, 1), 0.5, equal=True),
    ]
    # scores: 0: 1.75, 1: (2 − 0.5)/2 = 0.75, 2: −2.5; diff 1, gap 3.25
    ref = [duel("Ties/ref:1", (0, 1), 2.0)]  # scores 2 and −2; gap 4
    found = scored(tied + ref)
    assert found["score"] == pytest.approx(1.0 + 0.01 * math.tanh(3.25 / 1 - 1))
    assert found["score_raw_difference"] == pytest.approx(1.0 + 0.01 * (3.25 - 1))


def test_a_gap_below_the_spread_loses_forty_percent() -> None:
    """Right answers that differ more among themselves than from the wrong one keep the 0.6 for accuracy only."""
    results = exact("Ties/tied:1", [10.0, 1.0, 0.0], 2) + exact("Ties/ref:1", [1.0, 0.0], 1)
    found = scored(results)
    assert (found["gap_above_diff"], found["hard_gap_above_diff"]) == (0.0, 0.0)
    assert found["score"] == pytest.approx(0.6 + 0.01 * found["tanh_ratio"])
    assert -1 < found["tanh_ratio"] < 0


def test_the_hard_term_takes_the_smaller_gap() -> None:
    """A small gap in the ref prompt fails the harder of the two comparisons only."""
    results = exact("Ties/tied:1", [5.0, 4.0, 0.0], 2) + exact("Ties/ref:1", [0.1, 0.0], 1)
    found = scored(results)
    assert (found["gap_above_diff"], found["hard_gap_above_diff"]) == (1.0, 0.0)


@pytest.mark.parametrize(
    ("gap", "diff", "expected"), [(0, 0, 0.0), (2, 0, 1.0), (-2, 0, -1.0), (3, 3, 0.0), (-math.inf, math.inf, -1.0)]
)
def test_the_last_term_is_defined_everywhere(gap: float, diff: float, expected: float) -> None:
    """0/0 gives 0, x/0 gives ±1, a lost prompt −1."""
    assert bounded_ratio(gap, diff) == expected


def test_the_raw_difference_of_a_lost_prompt_is_finite() -> None:
    """The paper's last term has no finite value for a lost prompt; −1 stands in for it."""
    assert raw_difference(3.0, 1.0) == 2.0
    assert raw_difference(-math.inf, math.inf) == -1.0


def test_all_ties_by_the_judge_are_not_accurate() -> None:
    """A judge that never prefers anything gets nothing: all gaps are 0, and 0/0 counts 0."""
    found = scored(exact("Ties/tied:1", [0.0] * 4, 2) + exact("Ties/ref:1", [0.0] * 3, 1))
    assert found["score"] == 0.0


def test_a_completion_without_a_verdict_loses_its_prompt() -> None:
    """A prompt where some completion has no scored pair is lost in every term; nothing raises."""
    results = [
        duel("Ties/ref:1", (0, 1), 1.0),
        duel("Ties/ref:1", (0, 2), None),
        *exact("Ties/tied:1", [5.0, 5.0, 0.0], 2),
    ]
    found = scored(results)
    assert found["accurate_ref"] == 0.0
    assert found["accurate_tied"] == 1.0
    assert found["score"] == pytest.approx(0.3 + 0.2 - 0.01)


def test_half_a_ties_set_is_scored_on_what_there_is() -> None:
    """With tied prompts alone, or pairs cut off by a limit, the terms that need both are 0."""
    assert scored(exact("Ties/tied:1", [5.0, 5.0, 0.0], 2))["score"] == pytest.approx(0.3)
    assert scored([duel("Ties/tied:1", (0, 1), 1.0, equal=True)])["score"] == 0.0
    assert ties_score([]) is None


Levels = dict[int, tuple[list[float], list[float]]]  # by prompt: scores of the right answers, of the wrong ones


def slow_ties(ref: Levels, tied: Levels) -> float:
    """Read the official formula again with NumPy, from scores by prompt: {n: (right scores, wrong scores)}."""

    def gap(right: list[float], wrong: list[float]) -> float:
        return min(right) - max(wrong)

    both = [n for n in tied if n in ref]
    diff = np.array([max(tied[n][0]) - min(tied[n][0]) for n in both])
    gap_tied = np.array([gap(*tied[n]) for n in both])
    least = np.minimum(gap_tied, np.array([gap(*ref[n]) for n in both]))
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        last = np.nan_to_num(np.tanh(least / diff - 1), nan=0.0)
    accurate_tied = np.mean([gap(*v) > 0 for v in tied.values()])
    accurate_ref = np.mean([gap(*v) > 0 for v in ref.values()])
    terms = 0.2 * np.mean(gap_tied > diff) + 0.2 * np.mean(least > diff) + 0.01 * np.mean(last)
    return float(0.3 * accurate_tied + 0.3 * accurate_ref + terms)


LEVELS = st.integers(-4, 4).map(float)


@settings(deadline=None, max_examples=80)
@given(
    st.lists(
        st.tuples(
            st.lists(LEVELS, min_size=2, max_size=4),
            st.lists(LEVELS, min_size=1, max_size=3),
            LEVELS,
            st.lists(LEVELS, min_size=1, max_size=3),
        ),
        min_size=1,
        max_size=5,
    )
)
def test_ties_agree_with_a_slow_second_reading(
    prompts: list[tuple[list[float], list[float], float, list[float]]],
) -> None:
    """For any duels the score is the official formula applied to the mean margins of the completions."""
    results: list[PairResult] = []
    ref: Levels = {}
    tied: Levels = {}
    for n, (right, wrong, only, wrong_of_only) in enumerate(prompts):
        for kind, good, bad in (("tied", right, wrong), ("ref", [only], wrong_of_only)):
            levels = [*good, *bad]
            results += exact(f"Ties/{kind}:{n}", levels, len(good))
            means = []
            for i, level in enumerate(levels):
                others = range(len(levels)) if i < len(good) else range(len(good))
                means.append(sum(level - levels[k] for k in others if k != i) / len([k for k in others if k != i]))
            (tied if kind == "tied" else ref)[n] = (means[: len(good)], means[len(good) :])
    assert scored(results)["score"] == pytest.approx(slow_ties(ref, tied), abs=1e-6)


def test_the_official_size_is_the_sum_of_the_subsets() -> None:
    """Six subsets, 1,865 prompts."""
    assert sum(SUBSETS.values()) == 1865
    assert ADAPTER.counts.rows == (1865,)
