"""`svr compare` beyond its tests: net advantage by a column, disagreements, and the form of what both miss."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import orjson
import pytest

Cli = Callable[..., tuple[int, str, str]]


@pytest.fixture
def judged(cli: Cli) -> Cli:
    """Judge the sample offline with two methods, into the folders a and b."""
    for folder, method in (("a", "vanilla"), ("b", "oracle")):
        assert (
            cli("eval", "rubricbench", "--sample", "--judge", "rules", "--method", method, "--out", folder, "-q")[0]
            == 0
        )
    return cli


def test_the_cells_by_a_column_add_up(judged: Cli) -> None:
    """Each value of a column has its own four cells; together they are those of all pairs, sorted by net advantage."""
    found = orjson.loads(judged("compare", "a", "b", "--by", "subset", "--json")[1])
    whole, parts = found["duels"][0]["overall"], found["by"]["values"]

    for cell in ("both", "only_first", "only_second", "neither", "n"):
        assert sum(part[cell] for part in parts.values()) == whole[cell], cell
    nets = [part["only_second"] - part["only_first"] for part in parts.values()]
    assert nets == sorted(nets, reverse=True)
    out = judged("compare", "a", "b", "--by", "source")[1]
    assert "both right" in out
    assert "net advantage of the second run by source" in out


def test_disagreements_are_shown_or_written(judged: Cli, tmp_path: Path) -> None:
    """N are shown, those lost first; a file has all, of exactly the pairs that one run has right; a few by default."""
    assert "pairs lost by the second" in judged("compare", "a", "b")[1]
    assert "2 of 28 disagreements" in judged("compare", "a", "b", "--disagreements", "2")[1]
    judged("compare", "a", "b", "--disagreements", "d.jsonl")
    judged("compare", "a", "b", "--disagreements", "d.csv")
    rows = [orjson.loads(line) for line in (tmp_path / "d.jsonl").read_bytes().splitlines()]
    files = [(tmp_path / run / "items.jsonl").read_bytes() for run in "ab"]
    right = [{item["id"]: item["correct"] for item in map(orjson.loads, file.splitlines())} for file in files]
    assert [row["right"] for row in rows] == sorted(row["right"] for row in rows)
    assert {row["id"] for row in rows} == {name for name in right[0] if right[0][name] != right[1][name]}
    assert all(right[row["right"] == "second"][row["id"]] for row in rows)
    with (tmp_path / "d.csv").open(newline="") as file:
        assert [row["id"] for row in csv.DictReader(file)] == [row["id"] for row in rows]


@pytest.mark.parametrize("name", ["form.csv", "form.jsonl"])
def test_the_form_of_what_both_miss_is_filled_in_and_counted(judged: Cli, tmp_path: Path, name: str) -> None:
    """Written where there is none, with texts and verdicts; read again it counts categories and what is left."""
    path = tmp_path / name
    assert f"31 pairs that both miss are in {name}" in judged("compare", "a", "b", "--taxonomy", name)[1]
    text = path.read_text()
    assert "My sister starts her first real job on Monday." in text
    if name.endswith("csv"):
        with path.open(newline="") as file:
            rows = list(csv.DictReader(file))
        rows[0]["category"], rows[1]["category"] = "Label noise", "capability ceiling"
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, rows[0].keys())
            writer.writeheader()
            writer.writerows(rows)
    else:
        path.write_text(text.replace('"category":""', '"category":"Label noise"', 1))
    found = orjson.loads(judged("compare", "a", "b", "--taxonomy", name, "--json")[1])["taxonomy"]
    assert found["counts"]["label noise"] == 1
    assert found["unfilled"] == 31 - sum(found["counts"].values())
    assert found["strangers"] == []
    shown = judged("compare", "b", "a", "--taxonomy", name)[1]
    assert "rows not filled in yet" in shown


def test_what_cannot_be_worked_out_is_one_line(judged: Cli, tmp_path: Path) -> None:
    """Unknown columns, three runs, other suffixes, unknown categories, ids twice, broken forms."""
    (tmp_path / "odd.csv").write_text("id,category\nx,bad luck\n")
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    (tmp_path / "twice.csv").write_text("id,category\nx,other\ny,\nx,label noise\n")
    (tmp_path / "broken.jsonl").write_text("{\n")
    for given, says in (
        (("--by", "colour"), "--by colour: items have no such column"),
        (("b", "--by", "domain"), "about two runs (got 3)"),
        (("--disagreements", "d.txt"), "--disagreements d.txt is neither a number nor a file"),
        (("--disagreements", "-3"), "--disagreements -3 is neither a number nor a file"),
        (("--disagreements", "odd.csv"), "--disagreements odd.csv is there already"),
        (("--taxonomy", "none.txt"), "no such form: .txt"),
        (("--seed", "-1"), "-1 is not in the range"),
        (("--taxonomy", "odd.csv"), "odd.csv row 1: category 'bad luck' is not known"),
        (("--taxonomy", "twice.csv"), "twice.csv row 3 has the id 'x' of row 1"),
        (("--taxonomy", "other.csv"), "other.csv row 1 has no id or category"),
        (("--taxonomy", "broken.jsonl"), "broken.jsonl cannot be read"),
    ):
        code, _, err = judged("compare", "a", "b", *given)
        assert (code, err.count("\n")) == (2, 1), given
        assert says in err
    assert "bad luck" in (tmp_path / "odd.csv").read_text(), "a file that was there stays"
