"""`svr rank`: the best of several responses, and plain words where no difference found."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import orjson
import pytest
from endpoint import SimServer
from rig import RULES, name_judge, pairs, svr_here, write_bank

ASKED = ("rank", *RULES, "--prompt", "Say it in one sentence: what is bread?")


def test_the_best_stands_first(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Responses come by score with the place that they were given at; @FILE reads one; JSON has the same order."""
    (tmp_path / "one.txt").write_text("Baked dough.")
    given = ("It is food. We bake it.", f"@{tmp_path}/one.txt", "Food. Dough. Heat. Done.")
    assert svr_here(*ASKED, *given) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "pairwise · rules (offline checks, no model)"
    assert lines[2].split()[0] == "2"
    assert lines[2].rstrip().endswith("Baked dough.")
    assert svr_here(*ASKED, *given, "--json") == 0
    found = orjson.loads(capsys.readouterr().out)
    assert (found["best"], found["undecided"], found["order"][0]) == (1, False, 1)
    assert found["margins"]["0-1"] < 0


def test_answers_that_checks_cannot_tell_apart_are_said_to_be(capsys: pytest.CaptureFixture[str]) -> None:
    """A fact is beyond the offline checks: no order is made up."""
    assert svr_here("rank", *RULES, "--prompt", "What is the capital of France?", "Paris.", "Lyon.") == 0
    assert "no difference found" in capsys.readouterr().out


def test_an_endpoint_ranks_with_a_bank(
    sim: SimServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Over HTTP, each response scored alone where that is asked for; the label says that the judge is simulated."""
    monkeypatch.chdir(tmp_path)
    name_judge(tmp_path, sim.base_url)
    write_bank(tmp_path / "bank")
    pair = pairs(1)[0]
    asked = ("--prompt", pair.prompt[0].content, "--judge", "sim", "--bank", "bank", "--method", "pointwise", "--json")
    assert svr_here("rank", *asked, pair.chosen, pair.rejected) == 0
    found = orjson.loads(capsys.readouterr().out)
    assert (found["method"], found["questions"], "SIMULATED" in found["judge"]) == ("pointwise", 2, True)


def test_a_schedule_bounds_the_pairs(capsys: pytest.CaptureFixture[str]) -> None:
    """A circle of four is four margins."""
    given = ("Baked dough.", "It is food. We bake it.", "Food. Dough. Heat.", "Dough.")
    assert svr_here(*ASKED, *given, "--schedule", "circle", "--json") == 0
    assert len(orjson.loads(capsys.readouterr().out)["margins"]) == 4


def test_a_pipe_is_written_into(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A FIFO as --out gets the rows and stays a FIFO; it needs no file extension."""
    monkeypatch.chdir(tmp_path)
    Path("in.jsonl").write_text('{"prompt": "What is bread?", "responses": ["Baked dough.", "Food."]}\n')
    os.mkfifo("pipe")
    with ThreadPoolExecutor(1) as pool:
        rows = pool.submit(Path("pipe").read_bytes)
        assert svr_here("rank", *RULES, "in.jsonl", "--out", "pipe") == 0
        assert orjson.loads(rows.result(timeout=30))["responses"] == ["Baked dough.", "Food."]
    assert Path("pipe").is_fifo()
