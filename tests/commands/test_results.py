"""`svr compare`, `agreement` and `runs` on run folders."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import orjson
from made_run import write_run

Cli = Callable[..., tuple[int, str, str]]


def test_runs_are_listed_the_latest_first(cli: Cli, tmp_path: Path) -> None:
    """Benchmark, method, judge, accuracy, cost and time of each run; folders without a readable run are skipped."""
    for place, name in enumerate(("old", "new")):
        write_run(tmp_path / "runs" / name)
        os.utime(tmp_path / "runs" / name / "metrics.json", (1e9 + place, 1e9 + place))
    (tmp_path / "runs" / "broken").mkdir()
    (tmp_path / "runs" / "broken" / "metrics.json").write_text("{")
    found = orjson.loads(cli("runs", "--json")[1])
    assert [one["run"] for one in found] == ["runs/new", "runs/old"]
    assert found[0]["method"] == "svr"
    assert found[0]["when"] == "2001-09-09 01:46 UTC"
    code, out, _ = cli("runs")
    assert code == 0
    assert "runs/new" in out
    code, _, err = cli("runs", "nowhere")
    assert (code, "no runs under 'nowhere'" in err) == (2, True)


def test_the_command_writes_a_sheet_and_compares_a_filled_one(cli: Cli, tmp_path: Path) -> None:
    """`svr agreement RUN LABELS`, and --next; the wrong combination is one line."""
    write_run(tmp_path / "run")
    assert cli("agreement", "run", "--next", 20, "--random", "--out", "todo.jsonl")[0] == 0
    rows = [orjson.loads(line) | {"label": "a"} for line in (tmp_path / "todo.jsonl").read_bytes().splitlines()]
    (tmp_path / "todo.jsonl").write_bytes(b"\n".join(map(orjson.dumps, rows)))
    code, out, _ = cli("agreement", "run", "todo.jsonl")
    assert code == 0
    assert "20 labels of 20 items" in out
    assert "people and the judge" in out
    code, out, err = cli("agreement", "run", "todo.jsonl", "--json", "--next", 5, "--out", "more.csv")
    found = orjson.loads(out)
    assert (code, found["items"], found["blank"], found["next"]["items"]) == (0, 20, 0, 5)
    assert "5 items to label in more.csv" in err
    for args in ((), ("--next", 5), ("--random",), ("todo.jsonl", "--out", "x.csv")):
        code, _, err = cli("agreement", "run", *args)
        assert (code, err.count("\n")) == (2, 1), args
