"""The scorer for inspect_ai, found by its entry point, in real evals of given outputs; a run's items as scores."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from endpoint import SimServer
from rewarding import judged_by, needs
from rig import pairs, run_python, write_bank

from svr_async.serving.hooks.judging import configure

needs("inspect_ai", "pip install inspect_ai==0.3.285")
pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.timeout(300)]


def evaluated(folder: Path, outputs: list[str], scorer: Any, ids: list[str] | None = None) -> Any:
    """Run an eval of planted prompts whose outputs are given, without a model, and return its log."""
    from inspect_ai import Task
    from inspect_ai import eval as run_eval
    from inspect_ai.dataset import MemoryDataset, Sample
    from inspect_ai.model import ModelOutput
    from inspect_ai.solver import solver

    planted = pairs(len(outputs))
    names = ids or [pair.id for pair in planted]
    samples = [
        Sample(input=pair.prompt[0].content, target=pair.rejected, id=name)
        for pair, name in zip(planted, names, strict=True)
    ]

    @solver  # type: ignore[untyped-decorator]  # not installed where types are checked
    def given() -> Any:
        async def solve(state: Any, _: Any) -> Any:
            state.output = ModelOutput.from_content("m", outputs[names.index(state.sample_id)])
            return state

        return solve

    task = Task(dataset=MemoryDataset(samples), solver=given(), scorer=scorer)
    (log,) = run_eval(task, model="mockllm/model", log_dir=str(folder / "logs"), display="none", max_samples=1)
    assert log.status == "success", log.error
    return log


def test_a_log_is_scored_by_the_scorers_name(tmp_path: Path) -> None:
    """`inspect score LOG --scorer svr_async/svr` finds it by the entry point, where the package is installed."""
    from inspect_ai.log import read_eval_log

    evaluated(tmp_path, ["Red."], None)
    (log,) = (tmp_path / "logs").glob("*.eval")
    scorer = ("--scorer", "svr_async/svr", "-S", "judge=rules", "-S", "compare_target=true")
    run = "from inspect_ai._cli.main import main; main()"
    done = run_python(run, "score", str(log), *scorer, "--action", "overwrite", "--overwrite", cwd=tmp_path)
    (sample,) = read_eval_log(str(log)).samples
    assert sample.scores["svr"].metadata["judge"].startswith("rules"), done.stderr


def test_a_completion_is_scored_by_the_bank(sim: SimServer, tmp_path: Path) -> None:
    """Its rubrics' scores in [0, 1], the judge's name; an empty reply is not a response."""
    from svr_async.serving.hooks.inspect_ai import svr

    judged_by(sim, tmp_path, bank=write_bank(tmp_path / "bank"))
    log = evaluated(tmp_path, [pairs(1)[0].chosen, " "], svr())
    good, empty = (sample.scores["svr"] for sample in log.samples)
    assert 0 <= good.value <= 1
    assert "SIMULATED" in good.metadata["judge"]
    assert good.metadata["outcome"] == "scored"
    assert good.metadata["rubrics"]
    assert (empty.value != empty.value, empty.reason) == (True, "no_response")
    (metrics,) = log.results.scores
    assert metrics.metrics["mean"].value == good.value
    assert (metrics.scored_samples, metrics.unscored_samples) == (1, 1)


def test_the_better_response_wins_over_the_target(sim: SimServer, tmp_path: Path) -> None:
    """Against the worse response of the planted pair the better one has 1."""
    from svr_async.serving.hooks.inspect_ai import svr

    judged_by(sim, tmp_path, bank=write_bank(tmp_path / "bank"))
    log = evaluated(tmp_path, [pairs(1)[0].chosen], svr(compare_target=True))
    score = log.samples[0].scores["svr"]
    assert (score.value, score.metadata["margin"] > 0) == (1.0, True)


def test_a_judge_that_is_down_leaves_samples_unscored(tmp_path: Path) -> None:
    """No number is made up: the reason is inspect_ai's own, with what happened."""
    from svr_async.serving.hooks.inspect_ai import svr

    dead = "http://127.0.0.1:9/v1#m"
    configure(judge=dead, bank=write_bank(tmp_path / "bank"), cache=tmp_path / "cache", give_up_after_s=1)
    score = evaluated(tmp_path, ["Hello."], svr()).samples[0].scores["svr"]
    assert (score.value != score.value, score.reason) == (True, "scoring_failed")
