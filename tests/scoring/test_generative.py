"""Generative reward models: proposer and judge at two endpoints, pairs and single responses, verdicts as trained."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rig import name_judge, serving, write_bench

from svr_async.core.pair import Side
from svr_async.engine.request import ReplyRejectedError
from svr_async.errors import UsageError
from svr_async.evaluation.run import evaluate
from svr_async.evaluation.run_folder import Run
from svr_async.evaluation.settings import EvalSettings
from svr_async.evaluation.setup import choose_method
from svr_async.judges.limits import JudgeLimits
from svr_async.judges.reader import read_direct
from svr_async.simulation.server import SimServer

N = 8


@pytest.fixture(scope="module")
def sim() -> Iterator[SimServer]:
    """Serve the simulated endpoint."""
    with serving() as server:
        yield server


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sim: SimServer) -> EvalSettings:
    """Return settings for planted pairs and a simulated judge, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    name_judge(tmp_path, sim.base_url)
    return EvalSettings(
        benchmark="rubricbench",
        judge="sim",
        data=write_bench(tmp_path / "bench.jsonl", N),
        limits=JudgeLimits(cache=tmp_path / "cache"),
        out=tmp_path / "run",
        audit=0.0,
    )


def judged(settings: EvalSettings, **more: Any) -> Run:
    """Evaluate with other settings."""
    return evaluate(replace(settings, **more))


def test_the_proposer_is_another_endpoint(settings: EvalSettings, sim: SimServer) -> None:
    """One rubric a prompt from the proposer, one verdict a pair from the judge, each counted by itself."""
    run = judged(settings, method="rubric-arm", option=(f"proposer={sim.base_url}#sim-strong",))
    sent = {name: block["calls"]["sent"] for name, block in run.metrics["judges"].items()}
    assert sent == {"sim": N, "sim-strong": N}
    assert {item.margin for item in run.items} <= {1.0, -1.0}
    assert any("prompts reconstructed" in note and "arm_judge" in note for note in run.metrics["notes"])
    assert all(len(item.requests) == 2 for item in run.items)


def test_single_responses_are_scored_once(settings: EvalSettings, tmp_path: Path) -> None:
    """The pointwise model: a rubric and two scores a pair, none of them again in the other order; ties are counted."""
    run = judged(settings, method="rubric-arrow")
    assert run.metrics["calls"]["sent"] == 3 * N
    both = judged(settings, method="rubric-arrow", order="both", out=tmp_path / "both")
    assert both.metrics["calls"]["sent"] == 0
    assert both.metrics["order"]["flip_rate"] == 0
    assert sum(run.metrics["outcomes"].values()) == N


def test_one_model_that_does_all_in_a_reply(settings: EvalSettings, tmp_path: Path) -> None:
    """RM-R1: one call a pair; with a prompt of one's own nothing is said to be reconstructed."""
    first = judged(settings, method="rm-r1")
    assert first.metrics["calls"]["sent"] == N
    own = tmp_path / "prompts"
    own.mkdir()
    (own / "rm_r1.txt").write_text("Judge.\n=== closing ===\nSay [[A]] or [[B]].")
    limits = JudgeLimits(cache=tmp_path / "cache", prompts=own)
    again = judged(settings, method="rm-r1", limits=limits, out=tmp_path / "own")
    assert not [note for note in again.metrics["notes"] if "reconstructed" in note]
    assert again.metrics["calls"]["sent"] == N
    with pytest.raises(UsageError, match="has no proposer"):
        choose_method(EvalSettings(benchmark="pairs", method="rm-r1", option=("proposer=x",)))


@pytest.mark.parametrize(
    ("text", "side"),
    [
        ("… <answer>[[B]]</answer>", Side.B),
        ("Justification: …\nWinner: Response A", Side.A),
        ("Winner: Response B\n[[B]]", Side.B),
        ("**Preferred:** Candidate B", Side.B),
    ],
)
def test_a_verdict_is_read_as_the_models_were_trained_to_give_it(text: str, side: Side) -> None:
    """[[A]] or [[B]] counts; without one, the line that names a winner; two winners, or none, are no verdict."""
    assert read_direct(text).margin == (1.0 if side is Side.A else -1.0)
    for doubtful in ("[[A]] or [[B]]", "Winner: Response A. Winner: Response B.", "I like both responses."):
        with pytest.raises(ReplyRejectedError):
            read_direct(doubtful)
