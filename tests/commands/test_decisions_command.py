"""Decision judges from the command line: judged, stored, escalated and drawn, with one cache for all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import orjson
import pytest
from endpoint import SimServer
from made_pairs import PATIENCE_S, write_planted
from rig import read_lines, run_metrics, serving, svr_here, write_bank, write_bench, write_judges

from svr_async.judges.limits import JudgeLimits
from svr_async.training.rounds.store import load_store
from svr_async.training.settings import TrainingListener, TrainSettings, load_data
from svr_async.training.train import open_session, open_training_judge

pytestmark = pytest.mark.timeout(PATIENCE_S)
N = 40
EVAL = ("eval", "rubricbench", "--data", "bench.jsonl", "--bank", "bank", "--audit", 0, "-q", "--cache", "cache")
HARD = {0.25, 0.75, 1.25}  # sizes of the Δ of verdicts


@pytest.fixture(scope="module")
def sim() -> Iterator[SimServer]:
    """Serve the simulated endpoint."""
    with serving() as server:
        yield server


@pytest.fixture
def folder(sim: SimServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a folder with pairs, a bank, and a decision judge and a text judge, both with a price."""
    monkeypatch.chdir(tmp_path)
    sim.reset()
    write_bench(tmp_path / "bench.jsonl", N)
    write_planted(tmp_path / "pairs.jsonl", N)
    write_bank(tmp_path / "bank")
    table = '[{name}]\nmodel = "{model}"\nwire = "{wire}"\nbase_url = "{url}"\nkey_env = ""\nprice = {price}\n'
    tables = (("dec", "gpt-oss-20b", "decisions", "[0.1, 0.1, 0]"), ("text", "sim-strong", "openai", "[1, 1, 5]"))
    text = [table.format(name=n, model=m, wire=w, url=sim.base_url, price=p) for n, m, w, p in tables]
    write_judges(tmp_path, "\n".join(text))
    return tmp_path


def test_the_cascade_asks_the_text_judge_only_where_the_decision_judge_is_unsure(folder: Path, sim: SimServer) -> None:
    """Both judge into one cache; a cascade after them sends nothing, and the frontier has all three."""
    for judge in ("dec", "text"):
        assert svr_here(*EVAL, "--judge", judge, "--out", judge) == 0
    sent = sim.stats()["calls"]
    assert sent == 2 * N
    assert svr_here(*EVAL, "--judge", "dec", "--escalate-to", "text", "--escalate-below", 0.05, "--out", "both") == 0
    assert sim.stats()["calls"] == sent
    votes = [len(item["votes"]) for item in read_lines(folder / "both" / "items.jsonl")]
    assert set(votes) == {1, 2}
    assert svr_here("report", "dec", "text", "--frontier", "--out", "frontier.json") == 0
    points = orjson.loads((folder / "frontier.json").read_bytes())["points"]
    plans = {(point["kind"], *point["judges"]) for point in points}
    assert {("run", "dec"), ("run", "text"), ("escalate", "dec", "text")} <= plans
    assert run_metrics("dec")["usage"]["completion_tokens"] == 0


def test_a_feature_store_holds_the_expected_scores(folder: Path) -> None:
    """From the judge to the store nothing rounds z to the scores of verdicts; a pool is one call where it fits."""
    command = (
        "stages",
        "judge",
        "pairs.jsonl",
        "--bank",
        "bank",
        "--judge",
        "dec",
        "--out",
        "store",
        "-q",
        "--cache",
        "cache",
    )
    assert svr_here(*command) == 0
    z = load_store(folder / "store").arrays.z_delta
    assert len(z) > N
    assert np.abs(z).max() <= 1.25
    assert not {round(abs(float(value)), 6) for value in z} <= HARD


def test_training_with_a_decision_judge_needs_an_author(
    folder: Path, sim: SimServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without one it is a line that names --author, and so is one that cannot write either; nothing is sent."""
    train = ("train", "pairs.jsonl", "--judge", "dec", "--out", "out", "-q", "--cache", "cache")
    assert svr_here(*train) == 2
    assert "with --author" in capsys.readouterr().err
    assert svr_here(*train, "--author", "dec") == 2
    assert "name rules or a text judge" in capsys.readouterr().err
    assert svr_here(*EVAL[:4], "--method", "self-rubric", "--judge", "dec", "--out", "self", "-q") == 2
    assert "name a text judge" in capsys.readouterr().err
    assert sim.stats()["calls"] == 0


def test_an_author_writes_and_the_judge_decides(folder: Path) -> None:
    """Rubrics and probes come from the author; the decision judge is asked about whole pools."""
    limits = JudgeLimits(cache=folder / "cache")
    settings = TrainSettings(
        pairs=folder / "pairs.jsonl", out=folder / "out", judge="dec", author="text", limits=limits
    )
    opened = open_training_judge(settings)
    crew = open_session(settings, load_data(settings)[0], opened, TrainingListener()).judges
    assert crew.author is not None
    assert (crew.judge.name, crew.author.name, crew.rubrics_per_call) == ("dec", "text", 133)
    assert len(opened.engines) == 2
