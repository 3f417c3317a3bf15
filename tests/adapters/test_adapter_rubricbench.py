"""RubricBench: both forms of label and rubrics, groups whatever the case, strict micro accuracy."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from stand_ins import official_scores

from svr_async.adapters import PairResult, get_adapter
from svr_async.adapters.records import Dataset
from svr_async.adapters.rubricbench import GROUPS
from svr_async.core.pair import Side
from svr_async.errors import DataError
from svr_async.training.settings import refuse_benchmark_for_training

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


@pytest.mark.parametrize(
    ("change", "gold"),
    [
        ({"label": 1}, Side.B), ({"label": None, "chosen_candidate": "a"}, Side.A),
        ({"label": None, "chosen_candidate": "B"}, Side.B), ({"chosen_candidate": "a"}, Side.A),
        *(({"label": label}, "label") for label in (2, -1, "C", None, 0.5, True)),
        ({"chosen_candidate": "b"}, "contradict each other"),
    ],
)  # fmt: skip
def test_a_label_or_a_letter_names_the_chosen_response(
    write: Callable[..., Path], change: dict[str, Any], gold: Side | str
) -> None:
    """0 and 1, or a and b of the exported form, which must agree; anything else is refused, not guessed."""
    if isinstance(gold, Side):
        assert load(write, case(**change)).pairs[0].gold is gold
        return
    with pytest.raises(DataError, match=gold):
        load(write, case(**change))


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


def test_domains_are_grouped_whatever_their_case(write: Callable[..., Path]) -> None:
    """Every fine domain belongs to one group; an unknown one is kept apart and reported."""
    for group, domains in GROUPS.items():
        forms = [form for domain in domains for form in (domain, domain.upper(), f" {domain.title()} ")]
        assert {pair.domain for pair in load(write, *(case(domain=form) for form in forms)).pairs} == {group}
    dataset = load(write, case(domain="astrology"), case(2, domain="astrology"))
    assert dataset.pairs[0].domain == "OTHER"
    assert "unknown domain 'astrology' put into OTHER: 2 rows" in dataset.notes


def test_the_score_is_micro_accuracy_and_no_verdict_is_wrong(write: Callable[..., Path]) -> None:
    """Correct over total, overall and by group; ties and missing verdicts are wrong; coverage is reported."""
    pairs = load(
        write, *[case(n, domain=d) for n, d in enumerate(["general", "general", "general", "code", "math"])]
    ).pairs
    margins = [1.0, -0.5, 0.0, 2.0, None]
    results = [PairResult(pair, margin) for pair, margin in zip(pairs, margins, strict=True)]
    scores = official_scores(ADAPTER, pairs, results)
    assert scores["overall"] == pytest.approx(2 / 5)
    assert scores["by_group"] == {"CHAT": pytest.approx(1 / 3), "CODE": 1.0, "STEM": 0.0}
    assert scores["coverage"] == pytest.approx(4 / 5)
    assert official_scores(ADAPTER, pairs, results, tie_credit=0.5)["overall"] == pytest.approx(2.5 / 5)
    assert official_scores(ADAPTER, pairs, results[:1])["overall"] == pytest.approx(1 / 5)  # a result is missing


NAMED = {
    "RubricBench": ("data/rubricbench.json", "RubricBench/train.jsonl", "rubric-bench_v2.parquet", "rubric_bench"),
    "RewardBench": ("reward-bench/filtered.parquet", "rewardbench", "rewardbench_2024.json"),
    "RewardBench 2": ("RewardBench2/test.jsonl", "reward-bench-2/x.jsonl", "rewardbench2"),
    "RM-Bench": ("rmbench", "RM-Bench/total_dataset.json", "data/rm_bench.json.gz"),
    "": ("helpsteer3/train.jsonl.gz", "rmb", "RMB/Pairwise_set/a.json", "rmb/bench.jsonl", "pairs", "formbench.jsonl"),
}


@pytest.mark.parametrize(("title", "path"), [(title, path) for title, paths in NAMED.items() for path in paths])
def test_a_benchmark_is_never_trained_on(title: str, path: str) -> None:
    """A path or format that names one of the four benchmarks is refused for training; RMB is not RM-Bench."""
    if not title:
        refuse_benchmark_for_training(path)
        return
    with pytest.raises(DataError, match=f"is {title}, and that is for evaluation only"):
        refuse_benchmark_for_training(path)
