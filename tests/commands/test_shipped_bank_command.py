"""The shipped bank on the command line: by its name, where the rules judge needs a bank, and labelled as what it is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from svr_async.commands.main import run
from svr_async.commands.main import svr as group
from svr_async.scoring import shipped

TEXTS = ("--prompt", "Name a colour.", "--a", "Blue is a colour that many people like.", "--b", "No.")
Svr = Callable[..., dict[str, Any]]


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Svr:
    """Return a function that runs `svr … --json` in an empty folder and returns what it prints."""
    monkeypatch.chdir(tmp_path)

    def told(*args: str) -> dict[str, Any]:
        assert run(group, "svr", [*args, "--json"]) == 0
        found: dict[str, Any] = orjson.loads(capsys.readouterr().out)
        return found

    return told


def judged(told: Svr, *flags: str) -> dict[str, Any]:
    """Evaluate on six pairs of the sample and return the metrics."""
    return told("eval", "rubricbench", "--sample", "--limit", "6", "--min-coverage", "0", "-q", *flags)


def test_it_is_named_and_labelled(told: Svr, tmp_path: Path) -> None:
    """`--bank default` judges with it; metrics, report and summary say that it is shipped and what trained it."""
    metrics = judged(told, "--bank", "default", "--out", "run")
    assert (metrics["method"], metrics["bank"]) == ("svr", "default")
    assert metrics["judge_label"] == "rules (offline checks, no model)"
    note = next(note for note in metrics["notes"] if note.startswith("shipped bank"))
    assert "trained offline on" in note
    assert note.endswith("rules judge, no model")
    assert "shipped bank, trained offline on" in (tmp_path / "run/report.html").read_text("utf-8")


@pytest.mark.parametrize("method", ["svr", "uniform"])
def test_the_rules_judge_takes_it_where_a_bank_is_needed(told: Svr, method: str) -> None:
    """`--method svr` or `uniform` needs no --bank with the rules judge."""
    metrics = judged(told, "--method", method)
    assert (metrics["method"], metrics["bank"]) == (method, "default")


@pytest.mark.parametrize("stands_in", [False, True])
def test_it_stands_in_only_where_measured_to_be_better(
    told: Svr, monkeypatch: pytest.MonkeyPatch, stands_in: bool
) -> None:
    """Without method, bank or rubrics the rules judge uses the bank or the general checks, as the package says."""
    monkeypatch.setattr(shipped, "STANDS_IN", stands_in)
    metrics = judged(told)
    assert (metrics["method"], metrics["bank"]) == (("svr", "default") if stands_in else ("vanilla", None))
    assert judged(told, "--method", "vanilla")["bank"] is None


def test_other_judges_must_name_a_bank(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A model is not given a bank that the rules judge trained, unless it is asked for by name."""
    flags = ["rubricbench", "--sample", "--judge", "gpt-oss-120b", "--method", "svr", "--out", str(tmp_path / "run")]
    assert run(group, "svr", ["eval", *flags]) == 2
    assert "--method svr needs --bank DIR" in capsys.readouterr().err


def test_a_pair_is_explained_without_naming_a_bank(told: Svr) -> None:
    """`svr explain --prompt … --a … --b …` judges with the shipped bank and says so."""
    found = told("explain", *TEXTS)
    assert found["judged_by"] == "svr-async default · rules (offline checks, no model)"
    assert found == told("explain", "--bank", "default", *TEXTS)


def test_it_is_shown(told: Svr, capsys: pytest.CaptureFixture[str]) -> None:
    """`svr bank show default` prints its rubrics in a table, and its notes."""
    assert told("bank", "show", "default")["name"] == "svr-async default"
    assert run(group, "svr", ["bank", "show", "default", "--top", "3"]) == 0
    shown = capsys.readouterr().out
    assert "The response " in shown
    assert "Source: PandaLM" in shown


def test_its_page_is_not_written_into_the_package(told: Svr, tmp_path: Path) -> None:
    """`svr report default` writes the bank's page into the folder where the command is given."""
    before = set(shipped.shipped_folder().iterdir())
    assert told("report", "default")["out"] == "bank-report.html"
    assert "svr-async default" in (tmp_path / "bank-report.html").read_text("utf-8")
    assert set(shipped.shipped_folder().iterdir()) == before
