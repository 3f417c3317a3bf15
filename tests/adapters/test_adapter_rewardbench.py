"""RewardBench: subsets, sections and weights, against hand-made numbers and a slow second reading of the rule."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from svr_async.adapters import PairResult, get_adapter
from svr_async.adapters.rewardbench import MATH_WEIGHT, SECTIONS
from svr_async.core.pair import PreferencePair, user_prompt
from svr_async.errors import DataError

ADAPTER = get_adapter("rewardbench")
SUBSETS = [subset for subsets in SECTIONS.values() for subset in subsets]


def row(subset: str = "hep-go", n: int = 1, **change: Any) -> dict[str, Any]:
    """Return one row in the official schema."""
    base = {"prompt": "p", "chosen": "good", "chosen_model": "m", "rejected": "bad", "rejected_model": "n"}
    return {**base, "subset": subset, "id": n, **change}


def judged(subset: str, n: int, margin: float | None) -> PairResult:
    """Return a judged pair of a subset."""
    pair = PreferencePair(id=f"{subset}/{n}", prompt=user_prompt("p"), chosen="a", rejected="b", subset=subset)
    return PairResult(pair, margin)


def scores(results: list[PairResult], tie_credit: float = 0.0) -> dict[str, Any]:
    """Return the official scores of results."""
    return ADAPTER.official_scores([r.pair for r in results], results, tie_credit=tie_credit)


def test_rows_become_pairs_with_section_and_subset(write: Callable[..., Path]) -> None:
    """The section is the domain, and ids carry the subset, since they repeat across subsets."""
    dataset = ADAPTER.load(write("a.parquet", [row("hep-go", 1), row("math-prm", 1), row("donotanswer", 1)]))
    assert [pair.id for pair in dataset.pairs] == ["hep-go/1", "math-prm/1", "donotanswer/1"]
    assert [pair.domain for pair in dataset.pairs] == ["Reasoning", "Reasoning", "Safety"]
    assert dataset.pairs[0].chosen == "good"
    assert dataset.notes[0] == "3 rows, not the official 2985: scores are not benchmark scores"


def test_the_order_of_the_responses_does_not_give_the_answer_away(write: Callable[..., Path]) -> None:
    """The data lists chosen first throughout, so the order of the two is drawn by a hash of the id: about half each."""
    path = write("a.jsonl", [row(n=n) for n in range(400)])
    first = [pair.chosen_first for pair in ADAPTER.load(path).pairs]
    assert 150 < sum(first) < 250
    assert first == [pair.chosen_first for pair in ADAPTER.load(path).pairs]


def test_an_unknown_subset_is_in_no_section(write: Callable[..., Path]) -> None:
    """A subset of neither section, such as the prior sets, is noted and does not enter the score."""
    dataset = ADAPTER.load(write("a.jsonl", [row("shp"), row("hep-go")]))
    assert "unknown subset 'shp' is in no section: 1 row" in dataset.notes
    result = ADAPTER.official_scores(dataset.pairs, [PairResult(dataset.pairs[1], 1.0)])
    assert result["overall"] == 1.0
    assert result["sections"] == {"Reasoning": 1.0}
    assert result["subsets"]["shp"] == 0.0


def test_math_weighs_as_much_as_all_code() -> None:
    """With all code right and all math wrong the section Reasoning is one half."""
    results = [
        judged(f"hep-{lang}", n, 1.0) for lang in ("cpp", "go", "java", "js", "python", "rust") for n in range(3)
    ]
    results += [judged("math-prm", n, -1.0) for n in range(2)]
    assert MATH_WEIGHT == 6 * 164
    assert scores(results)["sections"]["Reasoning"] == pytest.approx(0.5)


def test_sections_weigh_subsets_by_official_counts() -> None:
    """Chat with 100 easy ones right and 28 mt-bench ones wrong is 100/128, whatever number of pairs is present."""
    results = [judged("alpacaeval-easy", n, 1.0) for n in range(2)] + [judged("mt-bench-easy", 0, -1.0)]
    assert scores(results)["sections"] == {"Chat": pytest.approx(100 / 128)}


def test_the_overall_score_is_the_mean_of_sections() -> None:
    """Four sections of 1, 0, 1 and 0 give one half, whatever their sizes."""
    results = [judged("alpacaeval-easy", 0, 1.0), *(judged("donotanswer", n, 1.0) for n in range(9))]
    results += [judged("llmbar-natural", n, -1.0) for n in range(5)] + [judged("hep-js", 0, -1.0)]
    found = scores(results)
    assert found["sections"] == {"Chat": 1.0, "Chat Hard": 0.0, "Safety": 1.0, "Reasoning": 0.0}
    assert found["overall"] == 0.5
    assert not found["complete"]


def test_ties_and_missing_verdicts_get_the_tie_credit() -> None:
    """RewardBench gives half a point for a tie and for a reply without a verdict; the paper's code gives none."""
    results = [judged("hep-go", 0, 0.0), judged("hep-go", 1, None), judged("hep-go", 2, 1.0), judged("hep-go", 3, -1.0)]
    assert scores(results)["overall"] == pytest.approx(1 / 4)
    assert scores(results, tie_credit=0.5)["overall"] == pytest.approx(2 / 4)


def slow_overall(results: list[PairResult], credit: float) -> float:
    """Read the rule again: weights per subset, sections as weighted sums, their mean."""
    weights: dict[str, float] = {}
    for subsets in SECTIONS.values():
        weights.update(subsets)
    weights["math-prm"] = 984
    means = []
    for subsets in SECTIONS.values():
        numerator = denominator = 0.0
        for subset in subsets:
            judged_here = [r.margin for r in results if r.pair.subset == subset]
            points = [credit if not margin else float(margin > 0) for margin in judged_here]
            if points:
                numerator += sum(points) / len(points) * weights[subset]
                denominator += weights[subset]
        if denominator:
            means.append(numerator / denominator)
    return sum(means) / len(means)


@settings(deadline=None, max_examples=60)
@given(
    st.lists(
        st.tuples(st.sampled_from(SUBSETS), st.none() | st.sampled_from([-1.0, 0.0, 2.0])), min_size=1, max_size=60
    ),
    st.sampled_from([0.0, 0.5]),
)
def test_the_score_agrees_with_a_slow_second_reading(margins: list[tuple[str, float | None]], credit: float) -> None:
    """For any subsets and verdicts the score is what a plain double loop over the rule gives."""
    results = [judged(subset, n, margin) for n, (subset, margin) in enumerate(margins)]
    assert scores(results, credit)["overall"] == pytest.approx(slow_overall(results, credit))


def test_the_official_size_is_the_sum_of_the_subsets(write: Callable[..., Path]) -> None:
    """The subset counts add up to 2,985, and to the section sizes of the paper."""
    assert sum(ADAPTER.counts.groups.values()) == 2985
    assert [sum(subsets.values()) for subsets in SECTIONS.values()] == [358, 456, 740, 1431]
    rows = [row(subset, n) for subset, size in ADAPTER.counts.groups.items() for n in range(size)]
    assert ADAPTER.load(write("all.jsonl", rows), official=True).official
    rows[0]["subset"] = "hep-js"
    rows[0]["id"] = 9999
    with pytest.raises(DataError, match="rows by group differ"):
        ADAPTER.load(write("moved.jsonl", rows), official=True)
