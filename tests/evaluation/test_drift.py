"""The drift report: one bank, several judgings of the same pairs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import orjson
import pytest
from made_run import made_items, made_manifest, write_run

from svr_async.commands.main import run as run_command
from svr_async.commands.main import svr as group
from svr_async.errors import UsageError
from svr_async.evaluation.compare import drift_of
from svr_async.evaluation.items import Item, Items
from svr_async.evaluation.run_folder import Run
from svr_async.reports.compare_tables import drift_tables


def turned(item: Item, rubric: str) -> Item:
    """Return an item in which another judge saw one rubric the other way round."""
    rows = tuple(
        replace(row, delta=-row.delta, contribution=-row.contribution) if row.id == rubric and row.delta else row
        for row in item.rubrics
    )
    margin = sum(row.contribution for row in rows) if item.margin else item.margin
    side = item.predicted if not margin else "A" if margin > 0 else "B"
    return replace(item, rubrics=rows, margin=margin, predicted=side, correct=side == item.gold)


def write_two(folder: Path, other: list[Item], **metrics: str) -> list[str]:
    """Write a run, and the items of another judge on the same pairs."""
    judge = {**made_manifest()["judge"], "name": "later", "models_seen": ["b"]}
    write_run(folder / "a")
    write_run(folder / "b", items=other, manifest={"judge": judge}, metrics={"judge": "later", **metrics})
    return [str(folder / name) for name in "ab"]


def test_the_rubric_that_a_judge_turned_round_is_found(tmp_path: Path) -> None:
    """All of its signs flip, the others agree in full, and margins move by what it counted."""
    items = made_items()
    name = items[0].rubrics[0].id
    paths = write_two(tmp_path, [turned(item, name) for item in items])
    found = drift_of([Run.load(path) for path in paths])

    shift = found.shifts[0]
    worst, *others = shift.rubrics
    assert (worst.id, worst.flips) == (name, 1.0)
    assert {(one.flips, one.shift) for one in others} == {(0.0, 0.0)}
    assert shift.margin_shift is not None
    assert shift.margin_shift == pytest.approx(
        0.62 * worst.shift * sum(map(_by_rubrics, items)) / _scored(items), rel=1e-6
    )
    assert any(line.startswith("judge: later, the baseline has gpt-oss-120b") for line in found.differs)
    for width, intervals in ((120, 1), (80, 0)):
        tables = list(drift_tables(found, width))
        assert sum(table.heads.count("95 % interval") for table in tables) == intervals
        assert all(len(row) == len(table.heads) for table in tables for row in table.rows)


def _by_rubrics(item: Item) -> bool:
    return bool(item.rubrics)


def _scored(items: list[Item]) -> int:
    return sum(item.margin is not None for item in items)


def test_only_one_bank_and_the_same_data_are_compared(tmp_path: Path) -> None:
    """Another bank, or other pairs, is refused; so is a single run."""
    paths = write_two(tmp_path, made_items(), bank="other")
    first, second = map(Run.load, paths)
    with pytest.raises(UsageError, match="--drift needs one bank: bank-three-rounds and other"):
        drift_of([first, second])
    with pytest.raises(UsageError, match="data: 10 pairs"):
        drift_of([first, replace(first, items=Items(first.items[:10]))])
    with pytest.raises(UsageError, match="at least two runs"):
        drift_of([first])


def test_the_command_prints_tables_or_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`svr compare --drift`: what differs, verdicts, shifts and the rubrics that flip most; --json has all of them."""
    items = made_items()
    paths = write_two(tmp_path, [turned(item, items[0].rubrics[0].id) for item in items])
    assert run_command(group, "svr", ["compare", *paths, "--drift"]) == 0
    out = capsys.readouterr().out
    for text in (
        "! judge: later",
        "rubrics that flip most, 6 of 6",
        "Answers the question that was asked",
    ):
        assert text in out
    assert run_command(group, "svr", ["compare", *paths, "--drift", "--json"]) == 0
    assert len(orjson.loads(capsys.readouterr().out)["shifts"][0]["rubrics"]) == 6
