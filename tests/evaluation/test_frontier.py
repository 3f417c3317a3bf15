"""The frontier: points are what plans would give, and the page says that they are chosen and measured on one set."""

from __future__ import annotations

import csv
import io
import random
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import orjson
import pytest
from hostile_run import ATTACK
from made_run import made_items, made_manifest, write_run

from svr_async.evaluation.frontier import Frontier, Point, frontier_of, thresholds
from svr_async.evaluation.items import Item
from svr_async.evaluation.run_folder import Run
from svr_async.reports.frontier import OPTIMISM, as_csv, as_json, flags_of, render_frontier


def judged(folder: Path, name: str, skill: float, usd: float | None = 1.0, order: str = "hash") -> Run:
    """Write the run of a judge that is right with this chance, more often at large margins."""
    items = []
    for item in made_items():
        rng = random.Random(f"{name} {item.id}")
        size = round(rng.uniform(0.05, 2.0), 6)
        right = rng.random() < skill - 0.2 + 0.2 * size
        margin = size if right == (item.gold == "A") else -size
        side = "A" if margin > 0 else "B"
        items.append(
            replace(
                item, outcome="scored", margin=margin, predicted=side, correct=side == item.gold if item.gold else None
            )
        )
    config = {**(made_manifest().get("config") or {}), "order": order}
    place = folder / f"{len(list(folder.iterdir()))}"
    metrics = {"judge": name, "judge_label": f"{name} (SIMULATED endpoint)", "cost_usd": usd}
    write_run(place, items=items, metrics=metrics, manifest={"config": config})
    return Run.load(place)


def right(run: Run) -> int:
    """Return how many pairs of a run are right."""
    return sum(item.correct is True for item in run.items)


def of_kind(found: Frontier, kind: str) -> list[Point]:
    """Return the points of a kind."""
    return [point for point in found.points if point.kind == kind]


def test_points_follow_from_the_margins_and_the_costs_of_runs(tmp_path: Path) -> None:
    """A run is a point; an escalation asks the second judge for close pairs; a jury takes the mean of margins."""
    small, big = judged(tmp_path, "small", 0.6), judged(tmp_path, "big", 0.9, usd=10.0)
    found = frontier_of([small, big])
    runs = {point.judges[0]: point for point in of_kind(found, "run")}
    assert [(sum(runs[name].right), runs[name].usd) for name in ("small", "big")] == [
        (right(small), 1.0),
        (right(big), 10.0),
    ]
    golden = [(one, other) for one, other in zip(small.items, big.items, strict=True) if one.gold]

    def won(one: Item, margin: float) -> bool:
        return (margin > 0) == (one.gold == "A")

    escalated = of_kind(found, "escalate")
    assert {point.below for point in escalated} == set(thresholds([one for one, _ in golden]))
    for point in escalated:
        assert point.below is not None
        close = [abs(one.margin or 0.0) < point.below for one, _ in golden]
        decided = [other.margin if ask else one.margin for (one, other), ask in zip(golden, close, strict=True)]
        assert list(point.right) == [won(one, m or 0.0) for (one, _), m in zip(golden, decided, strict=True)]
        assert point.usd == pytest.approx(1.0 + 10.0 * sum(close) / len(golden))
    (jury,) = of_kind(found, "jury")
    assert list(jury.right) == [won(one, (one.margin or 0.0) + (other.margin or 0.0)) for one, other in golden]
    assert jury.usd == pytest.approx(11.0)


def test_the_best_are_more_accurate_than_every_cheaper_plan(tmp_path: Path) -> None:
    """Every other plan is beaten by one of the best in cost and accuracy."""
    found = frontier_of([judged(tmp_path, *judge) for judge in (("small", 0.6), ("mid", 0.75, 4.0), ("big", 0.9, 9.0))])
    assert found.best[0] == found.points[0]
    assert all(a.cost <= b.cost and a.accuracy < b.accuracy for a, b in pairwise(found.best))
    for point in found.points:
        assert any(one.cost <= point.cost and one.accuracy >= point.accuracy for one in found.best)


def test_plans_join_different_judges_in_the_same_orders(tmp_path: Path) -> None:
    """A run in both orders is a point with its flag; it joins no run in one order, nor one of the same judge."""
    one, both = judged(tmp_path, "small", 0.6), judged(tmp_path, "small", 0.6, 2.0, "both")
    found = frontier_of([one, both, judged(tmp_path, "big", 0.9, 9.0, "both")])
    assert {point.judges for point in found.points if point.kind != "run"} == {("small", "big")}
    assert all(flags_of(point).endswith(" --order both") for point in found.points if point.kind != "run")
    assert "--judge small" in map(flags_of, found.points)


def test_without_a_price_the_cost_is_tokens(tmp_path: Path) -> None:
    """One judge without a price puts all plans on the scale of tokens."""
    found = frontier_of([judged(tmp_path, "free", 0.6, None), judged(tmp_path, "big", 0.9)])
    assert not found.priced
    assert all(row["usd"] is None and row["tokens"] for row in orjson.loads(as_json(found))["points"])


def test_csv_json_and_the_page_hold_the_plans_and_the_caveat(tmp_path: Path) -> None:
    """One row a plan, formulas defused; the page has flags to copy, the mark of simulations, and no script."""
    runs = [judged(tmp_path, "=cmd()", 0.6), judged(tmp_path, ATTACK, 0.9, 9.0)]
    found = frontier_of(runs)
    rows = list(csv.DictReader(io.StringIO(as_csv(found))))
    assert len(rows) == len(found.points) == len(orjson.loads(as_json(found))["points"])
    assert rows[0]["judges"].startswith("'=cmd")
    assert orjson.loads(as_json(found))["optimism"] == OPTIMISM
    page = render_frontier([run.summary for run in runs], found)
    for text in ("looks better here than it will be on other pairs", "--escalate-below", "SIMULATED"):
        assert text in page
    assert "<script>" not in page
