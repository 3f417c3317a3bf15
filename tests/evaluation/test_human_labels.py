"""Human labels: agreement with the judge beyond chance, what to label next, and label files."""

from __future__ import annotations

import csv
import io
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import orjson
import pytest
from made_run import made_items, write_run

from svr_async.core.table import Line, Table
from svr_async.errors import DataError, SvrError, UsageError
from svr_async.evaluation.human_labels import (
    Estimate,
    Label,
    cohen_kappa,
    majority,
    measure_agreement,
    read_labels,
    verdict_of,
    worth_labelling,
    write_next,
)
from svr_async.evaluation.items import Item
from svr_async.evaluation.run_folder import Run
from svr_async.reports.sheets import agreement_sheet

ITEMS = made_items()


def said(items: Sequence[Item], right: float, *, labeller: str = "ana", seed: int = 0, picked: str = "") -> list[Label]:
    """Return the labels of a person who agrees with the data at this rate."""
    rng = random.Random(seed)
    other = {"A": "B", "B": "A"}
    return [
        Label(
            id=item.id, label=str(item.gold) if rng.random() < right else other[str(item.gold)],
            labeller=labeller, picked=picked, where=f"row {place}",
        )
        for place, item in enumerate(items)
    ]  # fmt: skip


def test_the_judge_is_compared_with_what_most_people_said() -> None:
    """Counts, table and κ are those of the items with a label and a verdict; those without a verdict are counted."""
    labels = said(ITEMS, 1.0)
    found = measure_agreement(ITEMS, labels)
    scored = [item for item in ITEMS if item.margin is not None]
    assert found.judge is not None
    assert (found.labels, found.items, found.unjudged) == (len(ITEMS), len(ITEMS), len(ITEMS) - len(scored))
    assert found.judge.share == sum(item.correct is True for item in scored) / len(scored)
    assert sum(sum(row.values()) for row in found.table.values()) == found.judge.n == len(scored)
    assert found.table["A"]["A"] == sum(item.gold == item.predicted == "A" for item in scored)
    assert sum(found.table[side]["tie"] for side in "AB") == sum(item.margin == 0 for item in scored)
    wrong = [item for item in scored if item.correct is False and item.margin]
    assert set(found.conflicts) == {item.id for item in wrong}
    assert found.conflicts[0] == max(wrong, key=lambda item: (abs(item.margin or 0), item.id)).id
    assert found.between == ()


def test_several_people_are_compared_with_each_other_first(tmp_path: Path) -> None:
    """κ of each two that share items; the judge then faces what most of them said."""
    some = ITEMS[:60]
    labels = [
        *said(some, 0.95), *said(some[:40], 0.95, labeller="bo", seed=1), *said(some[:40], 0.2, labeller="cy", seed=2)
    ]  # fmt: skip
    found = measure_agreement(ITEMS, labels)
    assert found.labellers == {"ana": 60, "bo": 40, "cy": 40}
    assert [(one.first, one.second, one.n) for one in found.between] == [
        ("ana", "bo", 40), ("ana", "cy", 40), ("bo", "cy", 40)
    ]  # fmt: skip
    close, far = (found.between[place].kappa.value or 0.0 for place in (0, 1))
    assert close > 0.7 > 0 > far
    assert found.items == 60
    shown = list(agreement_sheet(Run.load(write_run(tmp_path / "run")), found, 3))
    rows = next(part.rows for part in shown if isinstance(part, Table))
    assert [row[0] for row in rows] == ["ana and bo", "ana and cy", "bo and cy", "people and the judge"]
    text = " ".join(part.text for part in shown if isinstance(part, Line))
    assert "3 rows not filled in" in text
    assert majority(["A", "B"]) == "tie"
    assert majority(["A", "B", "A"]) == "A"


def test_labels_that_do_not_fit_the_run_are_errors() -> None:
    """An unknown item, and two labels of one person; the same label twice counts once."""
    one = Label(id=ITEMS[0].id, label="A", where="labels.csv row 1")
    with pytest.raises(DataError, match=r"labels\.csv row 2: the run has no pair 'zz'"):
        measure_agreement(ITEMS, [one, Label(id="zz", label="A", where="labels.csv row 2")])
    with pytest.raises(DataError, match=r"row 9: .* is B here and A in labels\.csv row 1"):
        measure_agreement(ITEMS, [one, replace(one, label="B", where="row 9")])
    assert measure_agreement(ITEMS, [one, one]).labels == 1
    failed = next(item for item in ITEMS if item.margin is None)
    alone = measure_agreement(ITEMS, [Label(id=failed.id, label="tie")])
    assert (alone.judge, alone.unjudged, alone.table["A"]) == (None, 1, {"A": 0, "B": 0, "tie": 0})


def test_what_to_label_next_is_where_the_judge_is_least_sure() -> None:
    """First where the orders turn the verdict, then the smallest |margin|; no item twice."""
    picks = worth_labelling(ITEMS, 40)
    scored = [item for item in ITEMS if verdict_of(item)]
    assert len({pick.item.id for pick in picks}) == len(picks) == 40
    assert [pick.why for pick in picks] == sorted((pick.why for pick in picks), reverse=True)
    turned = {item.id for item in scored if len({m > 0 for m in item.margins.values()}) > 1}
    assert {pick.item.id for pick in picks if pick.why == "order"} == turned
    chosen = {pick.item.id for pick in picks}
    rest = [abs(item.margin or 0) for item in scored if item.id not in chosen]
    assert max(abs(pick.item.margin or 0) for pick in picks if pick.why == "margin") <= min(rest)
    done = frozenset(chosen)
    assert not done & {pick.item.id for pick in worth_labelling(ITEMS, 40, done=done)}
    assert len(worth_labelling(ITEMS, 9999)) == len(scored)


@pytest.mark.parametrize("name", ["todo.csv", "todo.jsonl"])
def test_a_sheet_is_filled_in_and_read_back(name: str, tmp_path: Path) -> None:
    """It has the texts and no verdict; empty rows are counted; a CSV cell is never a formula."""
    items = [replace(item, id=f"=id-{n}") for n, item in enumerate(ITEMS[:3])]
    texts = {"id": "=id-0", "prompt": "=1+1", "chosen": "zwei", "rejected": 'First,\n"one"'}
    (tmp_path / "pairs.jsonl").write_bytes(b"".join(orjson.dumps({**texts, "id": item.id}) + b"\n" for item in items))
    run = Run.load(write_run(tmp_path / "run", items=items, metrics={"benchmark": "pairs"}))
    path = tmp_path / name
    write_next(run, 9, path, data=tmp_path / "pairs.jsonl")
    with pytest.raises(UsageError, match="has no labels"):
        read_labels(path)
    with pytest.raises(UsageError, match="exists and may hold labels"):
        write_next(run, 9, path)
    text = path.read_text()
    assert not {"margin_value", "predicted", "gold"} & set(text.replace('"', " ").replace(",", " ").split())
    if name.endswith("csv"):
        rows = list(csv.DictReader(io.StringIO(text)))
        assert rows[0]["prompt"] == "'=1+1"
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, rows[0].keys())
            writer.writeheader()
            writer.writerows([rows[0] | {"label": " B ", "labeller": "ana"}, rows[1] | {"label": "Tie"}, rows[2]])
    else:
        held = [orjson.loads(line) for line in text.splitlines()]
        held[0] |= {"label": "b", "labeller": "ana"}
        held[1] |= {"label": "tie"}
        path.write_bytes(b"\n".join(map(orjson.dumps, held)))
    labels, blank = read_labels(path)
    assert blank == 1
    assert [(one.label, one.labeller) for one in labels] == [("B", "ana"), ("tie", "")]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("id,label\nx,C\n", "labels.csv row 1: the label 'C' is unknown — write a, b or tie"),
        ("name,label\nx,a\n", "labels.csv row 1 has no id"),
        ("id,verdict\nx,a\n", "labels.csv row 1 has no label"),
        ("id,label\nx,\n", "has no labels"),
    ],
)
def test_an_invalid_label_file_is_one_line(text: str, words: str, tmp_path: Path) -> None:
    """The row and its mistake."""
    (tmp_path / "labels.csv").write_text(text)
    with pytest.raises(SvrError) as caught:
        read_labels(tmp_path / "labels.csv")
    assert words in caught.value.one_line()


def table(counts: dict[str, int]) -> tuple[list[str], list[str]]:
    """Return the labels of two raters whose pairs are counted: `ab` is a of the first and b of the second."""
    pairs = [pair for pair, count in counts.items() for _ in range(count)]
    return [pair[0] for pair in pairs], [pair[1] for pair in pairs]


def test_kappa_is_that_of_a_worked_table() -> None:
    """20 and 15 agreements of 50: p_o = 0.7, p_e = 0.5, κ = 0.4; the interval holds it."""
    found = cohen_kappa(*table({"yy": 20, "yn": 5, "ny": 10, "nn": 15}))
    assert found.value == pytest.approx(0.4)
    assert found.ci95 is not None
    assert 0.1 < found.ci95.low < 0.4 < found.ci95.high < 0.7
    assert cohen_kappa(*table({"yy": 3, "nn": 3})).value == 1.0
    assert cohen_kappa(*table({"yn": 3, "ny": 3})).value == -1.0


def test_what_the_labels_cannot_tell_is_not_said() -> None:
    """One label throughout, single labels, no labels: neither a number nor an interval."""
    assert cohen_kappa(["a"] * 4, ["a"] * 4) == Estimate(None, None)
    assert cohen_kappa([], []) == Estimate(None, None)
    assert cohen_kappa([1], [2]).ci95 is None
    assert cohen_kappa(["a"] * 4, ["a", "b"] * 2) == Estimate(0.0, None), "κ of one label throughout is 0 in every draw"
    with pytest.raises(ValueError, match="zip"):
        cohen_kappa(["a"], [])


def test_the_same_seed_gives_the_same_interval() -> None:
    """Whatever the order of the items."""
    first, second = table({"yy": 20, "yn": 5, "ny": 10, "nn": 15})
    one = cohen_kappa(first, second, resamples=200)
    assert cohen_kappa(first[::-1], second[::-1], resamples=200) == one
    assert cohen_kappa(first, second, resamples=200, seed=1).ci95 != one.ci95
