"""Writing a run folder: whole files, stable keys, claimed for one run, no secrets."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from svr_async.adapters import get_adapter
from svr_async.adapters.records import Dataset, Problem
from svr_async.core.pair import PreferencePair, user_prompt
from svr_async.errors import UsageError
from svr_async.evaluation.items import Item
from svr_async.evaluation.metrics import engine_block
from svr_async.evaluation.run_folder import RunFacts, RunFolder, begin_run, write_results
from svr_async.evaluation.settings import EvalSettings
from svr_async.evaluation.setup import PreparedRun, prepare

JUDGE = {"name": "j", "label": "j (test)"}
PAIRS = tuple(
    PreferencePair(
        id=f"p{n}", prompt=user_prompt(f"q{n} " + "x" * 30_000), chosen="c\ud800", rejected="r", domain="CHAT",
        chosen_first=n % 2 == 0,
    )
    for n in range(6)
)  # fmt: skip
FILES = {"manifest.json", "items.jsonl", "metrics.json"}


def made(folder: Path, judge: str = "j/1 é", **changes: Any) -> PreparedRun:
    """Return a prepared run over made pairs."""
    run = prepare(EvalSettings(benchmark="rubricbench", sample=True, judge="rules", out=folder))
    data = Dataset(
        name="made", pairs=PAIRS, source=Path("made.jsonl"), digest="d" * 64, n_rows=6, notes=("a note",),
        problems=(Problem("tie", kept=False, count=1),),
    )  # fmt: skip
    (juror,) = run.judges.jurors
    judges = replace(run.judges, jurors=(replace(juror, name=judge),))
    changes = {"identity": {"data": "d", "judge": "j"}, **changes}
    return replace(run, judges=judges, adapter=get_adapter("pairs"), dataset=data, pairs=PAIRS, **changes)


def item(n: int, margin: float | None = -1.0, outcome: str = "scored") -> Item:
    """Return an item of pair n, a confident mistake unless told otherwise."""
    gold = "A" if n % 2 == 0 else "B"
    side = None if not margin else ("A" if margin > 0 else "B")
    return Item(
        id=f"p{n}", item=f"p{n}", domain="CHAT", subset="", order="ab", outcome=outcome, predicted=side, gold=gold,
        correct=side == gold, margin=margin, margins={} if margin is None else {"ab": margin}, rubrics=(), flags=(),
        detail="", requests=("0f",),
    )  # fmt: skip


def facts(*, complete: bool = True, notes: tuple[str, ...] = ("careful",)) -> RunFacts:
    """Return how a run ended."""
    return RunFacts(judge=JUDGE, spent=engine_block(None, None), wall_s=1.23456, complete=complete, notes=notes)


def test_a_run_folder_holds_all_its_files(tmp_path: Path) -> None:
    """Every documented file is there and can be loaded again; items are those given."""
    items = [item(n) for n in range(6)]
    begin_run(made(tmp_path / "run"), JUDGE)
    assert RunFolder(tmp_path / "run").manifest.exists()
    write_results(made(tmp_path / "run"), items, facts())
    assert {path.name for path in (tmp_path / "run").iterdir()} == FILES
    run = RunFolder.load(tmp_path / "run")
    assert list(run.items) == items
    assert run.complete


def test_metrics_have_their_documented_keys(tmp_path: Path) -> None:
    """The keys that others build on, with notes of data and run."""
    found = write_results(made(tmp_path / "run"), [item(n) for n in range(6)], facts())
    assert orjson.loads((tmp_path / "run" / "metrics.json").read_bytes()) == found
    for key in (
        "benchmark", "method", "judge", "bank", "n_total", "n_scored", "coverage", "accuracy", "accuracy_scored",
        "accuracy_half_credit", "accuracy_bounds", "accuracy_ci95", "accuracy_ci95_unit", "by_domain", "official",
        "outcomes", "order", "calls", "usage", "cost_usd", "wall_s", "complete",
    ):  # fmt: skip
        assert key in found
    assert found["notes"] == ["a note", "careful"]
    assert found["wall_s"] == 1.235


def test_a_folder_belongs_to_one_run(tmp_path: Path) -> None:
    """Another run's items are refused in words and kept; the same run, no items or a torn manifest continue."""
    folder = tmp_path / "run"
    begin_run(made(folder, identity={"data": "empty"}), JUDGE)
    begin_run(made(folder), JUDGE)
    write_results(made(folder), [item(0)], facts())
    before = (folder / "manifest.json").read_bytes()
    other = made(folder, identity={"data": "other"})
    assert other.digest != made(folder).digest
    with pytest.raises(UsageError, match="holds another run") as caught:
        begin_run(other, JUDGE)
    assert "has changed since" in caught.value.message
    assert (folder / "manifest.json").read_bytes() == before
    begin_run(made(folder), JUDGE)
    (folder / "manifest.json").write_text("{torn")
    begin_run(made(folder), JUDGE)


def test_the_default_folder_is_named_by_what_was_run() -> None:
    """Benchmark, method, judge and digest, without characters that a path cannot hold."""
    run = replace(made(Path("x")), settings=EvalSettings(benchmark="pairs"))
    assert run.folder == Path("runs") / f"made-direct-j-1-é-{run.digest}"
    for judge in ("x" * 500, "../../etc"):
        folder = replace(made(Path("x"), judge), settings=EvalSettings(benchmark="pairs")).folder
        assert len(folder.name) < 100
        assert ".." not in folder.parts
