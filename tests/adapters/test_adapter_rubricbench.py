"""RubricBench: both forms of label and rubrics, groups whatever the case, strict micro accuracy."""

import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from svr_async.adapters import ADAPTERS, PairResult, get_adapter, refuse_benchmark_for_training
from svr_async.adapters.records import Dataset
from svr_async.adapters.rubricbench import GROUPS, domain_group
from svr_async.core.pair import Side
from svr_async.errors import DataError

ADAPTER = get_adapter("rubricbench")


def case(n: int | str = 1, **change: Any) -> dict[str, Any]:
    """Return one row in the official schema."""
    row = {
        "case_id": f"rubric_eval_{n}",
        "instruction": "Say hello.",
        "response_a": "hello",
        "response_b": "no",
        "label": 0,
        "rubrics": "- Does the response greet?\n2. Is it polite?",
        "source": "made up",
        "domain": "general",
    }
    return {**row, **change}


def load(write: Callable[..., Path], *rows: dict[str, Any]) -> Dataset:
    """Load rows as a JSON array."""
    return ADAPTER.load(write("cases.json", list(rows)))


def test_a_case_becomes_a_pair_in_its_own_order(write: Callable[..., Path]) -> None:
    """Label 0 means that response A is chosen; the group is the domain, the fine domain the subset."""
    (pair,) = load(write, case()).pairs
    assert (pair.chosen, pair.rejected, pair.gold) == ("hello", "no", Side.A)
    assert (pair.id, pair.domain, pair.subset) == ("rubric_eval_1", "CHAT", "general")
    assert pair.rubrics == ("Does the response greet?", "Is it polite?")


def test_label_one_means_that_response_b_is_chosen(write: Callable[..., Path]) -> None:
    """Label 1, also as digits in a csv file, makes B the chosen response and leaves it second."""
    (pair,) = ADAPTER.load(write("cases.csv", [case(label=1)])).pairs
    assert (pair.chosen, pair.response_a, pair.gold) == ("no", "hello", Side.B)


@pytest.mark.parametrize(("value", "gold"), [("a", Side.A), ("B", Side.B), ("b", Side.B)])
def test_chosen_candidate_may_stand_for_the_label(write: Callable[..., Path], value: str, gold: Side) -> None:
    """The re-exported form names the chosen candidate by letter."""
    row = case(chosen_candidate=value)
    del row["label"]
    assert load(write, row).pairs[0].gold is gold


@pytest.mark.parametrize("label", [2, -1, "C", None, 0.5, True])
def test_other_labels_are_refused(write: Callable[..., Path], label: str | float | bool | None) -> None:
    """Labels of three kinds, missing ones and flags are errors, not guesses."""
    with pytest.raises(DataError, match="label"):
        load(write, case(label=label))


def test_a_label_and_a_candidate_that_contradict_each_other_are_refused(write: Callable[..., Path]) -> None:
    """Where both forms are given they must agree."""
    assert load(write, case(chosen_candidate="a")).pairs[0].gold is Side.A
    with pytest.raises(DataError, match="contradict each other"):
        load(write, case(chosen_candidate="b"))


@pytest.mark.parametrize(
    "value",
    [
        "Is it short?\nIs it kind?",
        ["Is it short?", " Is it kind? "],
        [{"rubric": "Is it short?", "facet": "style"}, {"text": "Is it kind?"}],
        [{"criterion": "Is it short?"}, "Is it kind?", ""],
        json.dumps(["Is it short?", {"rubric": "Is it kind?"}]),
        "1. Is it short?\n\n(2) Is it kind?\n",
    ],
)
@pytest.mark.parametrize("column", ["rubrics", "reference_rubrics", "oracle_rubrics", "benchmark_rubrics"])
def test_rubrics_come_in_several_forms_and_columns(write: Callable[..., Path], column: str, value: object) -> None:
    """A block of lines, a list of texts, a list of objects and a JSON list in a text give the same criteria."""
    row = case()
    del row["rubrics"]
    assert load(write, {**row, column: value}).pairs[0].rubrics == ("Is it short?", "Is it kind?")


def test_a_bracket_does_not_make_a_text_a_list(write: Callable[..., Path]) -> None:
    """A block of criteria that happens to start with a bracket is still a block of criteria."""
    assert load(write, case(rubrics="[Critical] Is it short?\nIs it kind?")).pairs[0].rubrics == (
        "[Critical] Is it short?",
        "Is it kind?",
    )


def test_cases_without_rubrics_are_loaded_and_noted(write: Callable[..., Path]) -> None:
    """Reference rubrics are needed only by the oracle, so a case without them is noted."""
    row = case()
    del row["rubrics"]
    dataset = load(write, row)
    assert dataset.pairs[0].rubrics == ()
    assert "no reference rubrics: 1 row" in dataset.notes


def test_domains_are_grouped_whatever_their_case() -> None:
    """Every fine domain belongs to one group, and its case does not matter."""
    for group, domains in GROUPS.items():
        for domain in domains:
            assert {domain_group(domain), domain_group(domain.upper()), domain_group(f" {domain.title()} ")} == {group}
    assert domain_group("MBPP") == "CODE"
    assert domain_group("astrology") == "OTHER"


def test_an_unknown_domain_goes_to_other_with_a_note(write: Callable[..., Path]) -> None:
    """A fine domain in no group is kept apart and pointed out."""
    dataset = load(write, case(domain="astrology"), case(2, domain="astrology"))
    assert dataset.pairs[0].domain == "OTHER"
    assert "unknown domain 'astrology' put into OTHER: 2 rows" in dataset.notes


def test_the_score_is_micro_accuracy_and_no_verdict_is_wrong(write: Callable[..., Path]) -> None:
    """Correct over total, overall and by group; ties and missing verdicts are wrong; coverage is beside it."""
    pairs = load(
        write, *[case(n, domain=d) for n, d in enumerate(["general", "general", "general", "code", "math"])]
    ).pairs
    margins = [1.0, -0.5, 0.0, 2.0, None]
    results = [PairResult(pair, margin) for pair, margin in zip(pairs, margins, strict=True)]
    scores = ADAPTER.official_scores(pairs, results)
    assert scores["overall"] == pytest.approx(2 / 5)
    assert scores["by_group"] == {"CHAT": pytest.approx(1 / 3), "CODE": 1.0, "STEM": 0.0}
    assert scores["coverage"] == pytest.approx(4 / 5)
    assert ADAPTER.official_scores(pairs, results, tie_credit=0.5)["overall"] == pytest.approx(2.5 / 5)


def test_pairs_without_a_result_stay_in_the_denominator(write: Callable[..., Path]) -> None:
    """A pair that no result mentions counts as unscored, not as absent."""
    pairs = load(write, case(1), case(2)).pairs
    assert ADAPTER.official_scores(pairs, [PairResult(pairs[0], 1.0)])["overall"] == 0.5
    assert ADAPTER.official_scores(pairs, [])["overall"] == 0.0


def test_margins_must_be_numbers_and_tie_credit_one_of_two(write: Callable[..., Path]) -> None:
    """NaN is no margin, and a tie is worth 0 or 0.5."""
    pairs = load(write, case()).pairs
    with pytest.raises(ValueError, match="is NaN"):
        PairResult(pairs[0], float("nan"))
    with pytest.raises(ValueError, match=r"tie_credit must be 0 or 0\.5 \(got 0\.3\)"):
        ADAPTER.official_scores(pairs, [], tie_credit=0.3)


def test_the_official_size_and_groups_are_recognised(write: Callable[..., Path]) -> None:
    """1,147 rows in the official groups make the data set official; one row less does not."""
    rows = [case(f"{g}{n}", domain=GROUPS[g][0]) for g, size in ADAPTER.counts.groups.items() for n in range(size)]
    for row in rows[584:]:
        row.update(label=1, response_a="no", response_b="hello")
    dataset = ADAPTER.load(write("all.jsonl", rows), official=True)
    assert dataset.official
    assert dataset.notes == ()
    assert not ADAPTER.load(write("fewer.jsonl", rows[1:])).official
    flipped = [{**row, "label": 1 - row["label"]} for row in rows]
    assert "the labels may be flipped" in ADAPTER.load(write("flipped.jsonl", flipped)).notes[0]


@pytest.mark.parametrize(
    ("path", "title"),
    [
        ("data/rubricbench.json", "RubricBench,"),
        ("RubricBench/train.jsonl", "RubricBench,"),
        ("rubric-bench_v2.parquet", "RubricBench,"),
        ("rubric_bench", "RubricBench,"),
        ("reward-bench/filtered.parquet", "RewardBench,"),
        ("rewardbench", "RewardBench,"),
        ("rewardbench_2024.json", "RewardBench,"),
        ("RewardBench2/test.jsonl", "RewardBench 2,"),
        ("reward-bench-2/x.jsonl", "RewardBench 2,"),
        ("rmbench", "RM-Bench,"),
        ("RM-Bench/total_dataset.json", "RM-Bench,"),
        ("data/rm_bench.json.gz", "RM-Bench,"),
    ],
)
def test_a_benchmark_is_never_trained_on(path: str, title: str) -> None:
    """A path or format that names one of the four benchmarks is refused for training, by its name."""
    with pytest.raises(DataError, match="for evaluation only") as caught:
        refuse_benchmark_for_training(path)
    assert f"is {title}" in str(caught.value)


@pytest.mark.parametrize(
    "path",
    ["helpsteer3/train.jsonl.gz", "rmb", "RMB/Pairwise_set/a.json", "rmb/bench.jsonl", "pairs", "formbench.jsonl"],
)
def test_training_sets_are_not_taken_for_benchmarks(path: str) -> None:
    """RMB is no RM-Bench, and a word that only ends like one is none."""
    refuse_benchmark_for_training(path)


def test_every_benchmark_is_for_evaluation_only() -> None:
    """The names that are refused are those of the adapters that are not for training."""
    refused = set()
    for name in ADAPTERS:
        with contextlib.suppress(DataError):
            refuse_benchmark_for_training(name)
            continue
        refused.add(name)
    assert refused == {"rubricbench", "rewardbench", "rewardbench2", "rmbench"}
    assert refused == {name for name, adapter in ADAPTERS.items() if not adapter.training}
