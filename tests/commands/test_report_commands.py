"""`svr report`, `svr compare` and `svr explain` as a user meets them: output, JSON, files, errors in one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import orjson
import pytest
from click.testing import CliRunner
from small_runs import item, write_run

from svr_async.commands.explain import explain
from svr_async.commands.pages import report
from svr_async.commands.results import compare
from svr_async.errors import UsageError


def call(command: click.Command, *args: Any) -> str:
    """Run a command and return its standard output; errors are raised."""
    result = CliRunner().invoke(command, [str(arg) for arg in args], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture
def good(tmp_path: Path) -> Path:
    """Give a run that is right on 30 of 40."""
    return write_run(tmp_path / "good", [item(i, correct=i >= 10, margin=1 + i / 10) for i in range(40)])


@pytest.fixture
def poor(tmp_path: Path) -> Path:
    """Give a simulated run that is right on 10 of the same 40."""
    items = [item(i, correct=i < 10) for i in range(40)]
    return write_run(tmp_path / "poor", items, method="direct", manifest={"judge": {"marks": ["simulated"]}})


@pytest.mark.parametrize(
    ("name", "start"), [("r.html", "<!doctype html>"), ("r.md", "**Preference"), ("r.tex", "%"), ("r.CSV", "run,")]
)
def test_report_writes_what_the_suffix_says(good: Path, tmp_path: Path, name: str, start: str) -> None:
    """One command, four formats; the line says where the file is."""
    out = call(report, good, "--out", tmp_path / name)

    assert (tmp_path / name).read_text().lstrip().startswith(start)
    assert f"wrote {tmp_path / name}" in out.replace("\n", "")


def test_compare_shows_the_test_and_the_marks(good: Path, poor: Path) -> None:
    """Accuracy side by side, discordant counts, the verdict, and what makes it doubtful."""
    out = call(compare, good, poor)

    assert "75.0" in out
    assert "25.0" in out
    assert "30:10" in out
    assert "SIMULATED" in out
    assert "Only some runs are marked" in out
    assert "svr · tiny is better by 50.0 points of strict accuracy on 40 shared pairs." in out


def test_explain_lists_the_surest_mistakes(good: Path) -> None:
    """Without an item: the wrong ones, the largest margin first."""
    lines = call(explain, good).splitlines()

    assert [line.split()[0] for line in lines[2:12]] == [f"q-{i:03d}" for i in reversed(range(10))]


def test_explain_shows_contributions_as_bars(good: Path) -> None:
    """Rubric, verdicts, a bar to the favoured side and the signed number."""
    wrong, right = call(explain, good, "q-003"), call(explain, good, "q-030")

    assert "chose B (wrong), margin −1.30" in wrong
    assert "━━━━━━━━━━━━ B" in wrong
    assert "−1.30" in wrong.split("Gives the price")[1]
    assert "━━━━━━━━━━━━ A" in right
    assert "the run folder keeps no texts of this pair" in right


def test_explain_reads_texts_from_data(tmp_path: Path, good: Path) -> None:
    """--data finds the texts of the pair; another file is refused."""
    data = tmp_path / "pairs.jsonl"
    data.write_bytes(orjson.dumps({"id": "q-030", "prompt": "Say hi", "chosen": "Hi!", "rejected": "No."}) + b"\n")

    out = call(explain, good, "q-030", "--data", data)
    assert "Say hi" in out
    assert "Hi!" in out
    with pytest.raises(UsageError, match="has no pair 'q-031'"):
        call(explain, good, "q-031", "--data", data)
