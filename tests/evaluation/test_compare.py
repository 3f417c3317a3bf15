"""Runs are compared on what they share, and whatever makes the comparison doubtful is said."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from made_run import made_items, write_run

from svr_async.core.statistics import mcnemar_exact
from svr_async.errors import UsageError
from svr_async.evaluation.compare import compare_runs
from svr_async.evaluation.items import Item, Items
from svr_async.evaluation.run_folder import Run


def loaded(folder: Path, items: list[Item], **changes: Any) -> Run:
    """Write and load a run."""
    return Run.load(write_run(folder, items=items, **changes))


@pytest.fixture
def two(tmp_path: Path) -> list[Run]:
    """Give a weak and a strong run over the same pairs."""
    return [
        loaded(tmp_path / "weak", made_items(seed=1, skill=0.55), metrics={"method": "direct"}),
        loaded(tmp_path / "strong", made_items(seed=2, skill=0.75)),
    ]


def test_the_table_counts_every_shared_item(two: list[Run]) -> None:
    """Both, one and neither right add up, and the accuracies and the difference follow from them."""
    test = compare_runs(two).duels[0].overall

    first = [item.correct is True for item in two[0].items]
    second = [item.correct is True for item in two[1].items]
    assert test.n == 320
    assert test.both + test.only_first + test.only_second + test.neither == 320
    assert test.only_second == sum(b and not a for a, b in zip(first, second, strict=True))
    assert test.accuracy_first == pytest.approx(sum(first) / 320)
    assert test.difference == pytest.approx((sum(second) - sum(first)) / 320)
    assert test.ci95.low < test.difference < test.ci95.high
    assert test.p == mcnemar_exact(test.only_first, test.only_second)


def test_pairs_of_a_prompt_are_one_witness(two: list[Run]) -> None:
    """Ten prompts of 32 pairs each, all won or lost together, are ten witnesses: p is far larger than for 320."""
    runs = [
        replace(run, items=Items(replace(item, item=f"prompt-{n // 32}") for n, item in enumerate(run.items)))
        for run in two
    ]
    won = [replace(item, predicted=item.gold, correct=True) for item in runs[0].items]
    lost = [replace(item, correct=n // 32 >= 4) for n, item in enumerate(won)]
    runs = [replace(runs[0], items=Items(lost)), replace(runs[1], items=Items(won))]

    alone = [replace(run, items=Items(replace(item, item=item.id) for item in run.items)) for run in runs]
    apart, together = compare_runs(alone).duels[0].overall, compare_runs(runs).duels[0].overall
    assert apart.p == mcnemar_exact(0, 128)
    assert together.p == pytest.approx(2 * 0.5**4)
    assert apart.significant
    assert not together.significant


def test_different_data_is_said(two: list[Run], tmp_path: Path) -> None:
    """Other digests, benchmarks, marks and right answers are each named."""
    items = [replace(item, gold="B" if item.gold == "A" else "A") for item in two[1].items]
    other = loaded(
        tmp_path / "other",
        items,
        metrics={"benchmark": "rewardbench", "judge_label": "x (SIMULATED endpoint)"},
        manifest={"data": {"digest": "blake2b:0"}, "judge": {"marks": ["simulated"]}},
    )
    text = "\n".join(compare_runs([two[0], other]).warnings)

    assert "different benchmarks (RewardBench, RubricBench)" in text
    assert "data digests differ" in text
    assert "Only some runs are marked: svr · x (SIMULATED endpoint) SIMULATED" in text
    assert "320 shared pairs" in text


def test_runs_that_share_nothing_are_refused_or_only_shown(two: list[Run], tmp_path: Path) -> None:
    """No common item: an error for a comparison, a warning and no test where only a page was asked for."""
    items = [replace(item, id=f"other-{item.id}") for item in two[1].items]
    runs = [two[0], loaded(tmp_path / "other", items)]

    with pytest.raises(UsageError, match="share no item"):
        compare_runs(runs)
    found = compare_runs(runs, require_shared=False)
    assert found.duels == ()
    assert any("shares no pair" in warning for warning in found.warnings)


def test_disagreements_are_exactly_the_pairs_that_one_run_has_right(two: list[Run]) -> None:
    """Lost and won pairs are those with different results; the largest gap between margins comes first."""
    duel = compare_runs(two).duels[0]
    right = [{item.id for item in run.items if item.correct} for run in two]

    assert {one.id for one in duel.lost} == right[0] - right[1]
    assert {one.id for one in duel.won} == right[1] - right[0]
    gaps = [abs((one.first_margin or 0) - (one.second_margin or 0)) for one in duel.lost]
    assert gaps == sorted(gaps, reverse=True)
