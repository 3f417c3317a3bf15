"""`svr eval --rephrase`: one call more a prompt, before any response is seen, and both texts kept."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import orjson
import pytest
from endpoint import SimServer
from rig import name_judge, read_lines, run_metrics, write_bench

from svr_async.commands.main import run
from svr_async.commands.main import svr as group
from svr_async.core.rubric import Rubric
from svr_async.evaluation.run_folder import Run
from svr_async.scoring.bank import BankRubric, RubricBank
from svr_async.simulation.catalogue import CRITERIA

N = 20
Eval = Callable[..., int]


@pytest.fixture
def evaluate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sim: SimServer) -> Eval:
    """Return a function that judges planted pairs with a planted bank in an empty folder."""
    monkeypatch.chdir(tmp_path)
    write_bench(tmp_path / "bench.jsonl", N)
    name_judge(tmp_path, sim.base_url)
    rubrics = tuple(BankRubric(rubric=Rubric(text=entry.rubric)) for entry in CRITERIA[:9])
    RubricBank(rubrics=rubrics, name="planted").save(tmp_path / "bank")

    def call(*args: str, out: str = "run", judge: str = "sim", bank: str = "bank") -> int:
        flags = ["--data", "bench.jsonl", "--judge", judge, "--bank", bank, "--out", out, "--audit", "0", "-q"]
        return run(group, "svr", ["eval", "rubricbench", *flags, *args])

    return call


def test_both_texts_are_kept_and_it_is_another_method(evaluate: Eval, tmp_path: Path) -> None:
    """Each row has the bank's text and the wording that was judged; the run names itself and loads again."""
    assert evaluate("--rephrase") == 0
    assert evaluate(out="plain") == 0
    rows = [row for item in read_lines(tmp_path / "run" / "items.jsonl") for row in item["rubrics"]]
    assert len(rows) == 6 * N
    assert all(row["rephrased"].startswith("As the prompt is about ") for row in rows)
    assert all(row["rephrased"].endswith(row["text"]) for row in rows)
    plain = [row for item in read_lines(tmp_path / "plain" / "items.jsonl") for row in item["rubrics"]]
    assert [(row["id"], row["text"], row["weight"], row["rephrased"]) for row in plain] == [
        (row["id"], row["text"], row["weight"], None) for row in rows
    ]
    assert (run_metrics()["method"], run_metrics("plain")["method"]) == ("svr+rephrase", "svr")
    recorded = [
        orjson.loads(Path(name, "manifest.json").read_bytes())["config"]["rephrase"] for name in ("run", "plain")
    ]
    assert recorded == [True, False]
    assert Run.load(tmp_path / "run").items[0].rubrics[0].rephrased
    assert not [note for note in run_metrics()["notes"] if "kept their original text" in note]
