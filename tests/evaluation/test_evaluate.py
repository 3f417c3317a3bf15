"""An evaluation from the library alone: settings in, a run folder, metrics and items out; nothing on the screen."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from rig import evaluate, name_judge, serving, write_bench

from svr_async.engine.money import Price
from svr_async.engine.shutdown import ShutdownController
from svr_async.engine.stats import EngineStats
from svr_async.errors import BudgetError, UsageError
from svr_async.evaluation.items import Item
from svr_async.evaluation.run import Listener, count_calls
from svr_async.evaluation.run_folder import Run
from svr_async.evaluation.settings import EvalSettings
from svr_async.evaluation.setup import prepare
from svr_async.judges.limits import JudgeLimits

N = 30


class Noting(Listener):
    """Keeps all events; optionally stops the run after a number of pairs."""

    def __init__(self, stop_after: int = 0) -> None:
        self.done_pairs: list[Item | int] = []
        self.totals: list[tuple[int, bool]] = []
        self.results: list[Run] = []
        self.notes: list[str] = []
        self.stop_after = stop_after
        self.shutdown = ShutdownController()

    @contextlib.contextmanager
    def judging(
        self, total: int, stats: Callable[[], EngineStats] | None, shutdown: ShutdownController
    ) -> Iterator[None]:
        """Note that judging begins."""
        self.totals.append((total, stats is not None))
        self.shutdown = shutdown
        yield

    def done(self, what: Item | int) -> None:
        """Note a pair."""
        self.done_pairs.append(what)
        if len(self.done_pairs) == self.stop_after:
            self.shutdown.interrupt(15)

    def note(self, text: str) -> None:
        """Keep a remark."""
        self.notes.append(text)

    def ended(self, run: Run) -> None:
        """Note the end."""
        self.results.append(run)


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[EvalSettings]:
    """Return settings for planted pairs and a simulated judge, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    write_bench(tmp_path / "bench.jsonl", N)
    with serving() as sim:
        name_judge(tmp_path, sim.base_url)
        yield EvalSettings(benchmark="rubricbench", data=Path("bench.jsonl"), judge="sim", out=Path("run"))


def test_what_ends_a_run_early_is_raised_once_the_folder_is_written(settings: EvalSettings) -> None:
    """The listener has the partial result by then; the same call without the cap completes the run."""
    noting, settings = Noting(), replace(settings, audit=0.0)
    with pytest.raises(BudgetError, match=r"--max-calls 7 is reached.*; 7 of 30 pairs are judged and kept in run"):
        evaluate(replace(settings, limits=JudgeLimits(max_calls=7, concurrency="1")), noting)
    priced = JudgeLimits(budget=1e-9, price=Price(input=1, cached=1, output=1), cache=Path("other"), concurrency="1")
    with pytest.raises(BudgetError) as caught:
        evaluate(replace(settings, limits=priced, out=Path("priced")), Noting())
    assert "the rest needs about $" in caught.value.hint
    (partial,) = noting.results
    assert (partial.complete, partial.metrics["complete"], len(partial.items)) == (False, False, 7)
    again = evaluate(settings, noting)
    assert noting.notes == ["resuming: 7 of 30 pairs already judged"]
    assert again.complete
    assert again.metrics["calls"]["cache_hits"] >= 7


def test_a_program_can_stop_a_run(settings: EvalSettings) -> None:
    """Its listener receives the shutdown: judged pairs are kept, and the result names the signal."""
    found = evaluate(replace(settings, limits=JudgeLimits(concurrency="1")), Noting(stop_after=3))
    assert (found.complete, found.signal) == (False, 15)
    assert 3 <= len(found.items) < N
    assert found.left == f"{len(found.items)} of {N} pairs are judged and kept in run"


def test_calls_can_be_counted_first(settings: EvalSettings) -> None:
    """It equals the number sent afterwards; counting sends and writes nothing, and is 0 for a judge without calls."""
    plan = count_calls(prepare(settings))
    assert plan is not None
    assert not Path("run").exists()
    assert evaluate(settings).metrics["calls"]["sent"] == plan["calls"] >= N
    assert count_calls(prepare(replace(settings, judge="rules"))) is None
    with pytest.raises(UsageError, match="a dry run judges nothing"):
        evaluate(replace(settings, limits=JudgeLimits(dry_run=True)))
