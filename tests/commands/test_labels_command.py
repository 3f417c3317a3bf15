"""`svr labels` as a user meets it: a sheet to fill in, and what a filled one says of a run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import orjson
import pytest
from rig import RULES

from svr_async.evaluation.run_folder import RunFolder

Cli = Callable[..., tuple[int, str, str]]


def fill_in(path: Path, wrong: int) -> None:
    """Label every row of a sheet as the data does, but for the first ones."""
    gold = {item.id: str(item.gold) for item in RunFolder.load(path.parent / "run").items}
    rows = [orjson.loads(line) for line in path.read_bytes().splitlines()]
    for place, row in enumerate(rows):
        row["label"] = "tie" if place < wrong else gold[row["id"]].lower()
    path.write_bytes(b"\n".join(map(orjson.dumps, rows)))


def test_a_sheet_is_written_filled_in_and_read(cli: Cli, tmp_path: Path) -> None:
    """The sheet has the texts of the run's own data; the tables have agreement and corrected rates, labelled."""
    assert cli("eval", "rubricbench", "--sample", *RULES, "--out", "run", "-q")[0] == 0
    code, out, _ = cli("labels", "run", "--next", 20, "--random", "--out", "todo.jsonl")
    assert (code, out) == (0, "20 items to label in todo.jsonl (20 by random); fill in label: a, b or tie\n")
    assert all(row["prompt"] for row in map(orjson.loads, (tmp_path / "todo.jsonl").read_bytes().splitlines()))
    fill_in(tmp_path / "todo.jsonl", 3)
    code, out, _ = cli("labels", "run", "todo.jsonl")
    assert code == 0
    for words in (
        "[OFFLINE RULES]",
        "20 labels of 20 items",
        "people and the judge",
        "prediction-powered",
        "Rogan–Gladen",
    ):
        assert words in out
    code, out, err = cli("labels", "run", "todo.jsonl", "--json", "--next", 5, "--out", "more.csv")
    found = orjson.loads(out)
    assert (code, found["items"], found["blank"], found["rate"]["n"]) == (0, 20, 0, 20)
    assert found["rate"]["prediction_powered"]["ci95"][0] < found["rate"]["prediction_powered"]["value"]
    assert "5 items to label in more.csv" in err
    assert found["next"] == {"out": "more.csv", "items": 5, "by": found["next"]["by"], "with_texts": True}
    code, out, _ = cli("labels", "run", "--json", "--next", 5, "--out", "again.csv")
    assert (code, list(orjson.loads(out))) == (0, ["next"])


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ((), "needs a FILE of labels, or --next N with --out"),
        (("--next", "3"), "needs a FILE of labels, or --next N with --out"),
        (("strange.csv", "--random"), "needs a FILE of labels, or --next N with --out"),
        (("--next", "3", "--out", "todo.txt"), "no format for labels"),
        (("nowhere.csv",), "no such file or folder: nowhere.csv"),
        (("strange.csv",), "the run has no pair 'zz'"),
    ],
)
def test_what_cannot_be_done_is_one_line(args: tuple[str, ...], words: str, cli: Cli, tmp_path: Path) -> None:
    """Exit 2, and what to give instead."""
    (tmp_path / "strange.csv").write_text("id,label\nzz,a\n")
    assert cli("eval", "rubricbench", "--sample", *RULES, "--limit", "4", "--out", "run", "-q")[0] == 0
    code, _, err = cli("labels", "run", *args)
    assert code == 2
    assert words in err
    assert err.count("\n") == 1
