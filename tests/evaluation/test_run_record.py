"""A run folder: whole files, stable keys, claimed for one run; read whole or refused in one line."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from made_run import made_items, write_run

from svr_async.adapters import get_adapter
from svr_async.adapters.records import Dataset, Problem
from svr_async.core.pair import PreferencePair, user_prompt
from svr_async.errors import ArtefactError, UsageError
from svr_async.evaluation.items import Item
from svr_async.evaluation.metrics import engine_block
from svr_async.evaluation.results import RunFacts, begin_run, write_results
from svr_async.evaluation.run_folder import Run
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
    """Return an item of pair n, by default a confident mistake."""
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
    assert (tmp_path / "run" / "manifest.json").exists()
    write_results(made(tmp_path / "run"), items, facts())
    assert {path.name for path in (tmp_path / "run").iterdir()} == FILES
    run = Run.load(tmp_path / "run")
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


def test_what_was_written_is_read(tmp_path: Path) -> None:
    """Items, metrics, manifest and texts come back as they were written."""
    items = made_items(n=40)
    run = Run.load(write_run(tmp_path / "first-run", items=items))

    assert run.items == tuple(items)
    assert run.metrics["n_total"] == 40
    assert run.manifest["svr_version"] == "0.1.0"
    assert run.name == "first-run"
    assert run.complete


@pytest.mark.parametrize("value", [False, None, "yes"])
def test_only_true_means_complete(tmp_path: Path, value: bool | str | None) -> None:
    """Anything but `true` under `complete` makes a run PARTIAL."""
    assert not Run.load(write_run(tmp_path, metrics={"complete": value})).complete


def test_no_run_is_a_usage_error(tmp_path: Path) -> None:
    """A folder without a run, or no folder at all, is the user's to correct."""
    for folder, says in ((tmp_path, "' is not a run folder"), (tmp_path / "nowhere", "no such run: '")):
        with pytest.raises(UsageError, match=says) as caught:
            Run.load(folder)
        assert caught.value.exit_code == 2


def test_a_run_that_only_began_says_how_to_go_on(tmp_path: Path) -> None:
    """A manifest alone is a run without results yet."""
    (tmp_path / "manifest.json").write_text("{}")

    with pytest.raises(UsageError, match="has no results yet") as caught:
        Run.load(tmp_path)
    assert "repeat" in caught.value.hint


@pytest.mark.parametrize("name", ["manifest.json", "metrics.json", "items.jsonl"])
def test_a_missing_file_is_named(tmp_path: Path, name: str) -> None:
    """A run folder with a file gone is rejected with the file's name."""
    (write_run(tmp_path) / name).unlink()

    with pytest.raises(ArtefactError, match=rf"{name} is missing") as caught:
        Run.load(tmp_path)
    assert caught.value.exit_code == 7


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("manifest.json", b"{", r"manifest\.json: "),
        ("manifest.json", b"[]", r"manifest\.json: Expected `object`"),
        ("manifest.json", b'{"data": []}', r"manifest\.json: .*\$\.data"),
        ("metrics.json", b"\xff\xfe", r"metrics\.json: "),
        ("metrics.json", b'{"benchmark": 3}', r"metrics\.json: .*\$\.benchmark"),
        ("items.jsonl", b"{}\n", r"items\.jsonl line 1: .*`id`"),
        ("items.jsonl", b"\n\n7\n", r"items\.jsonl line 3: "),
        ("items.jsonl", b'{"id": "x', r"items\.jsonl line 1: "),
    ],
)
def test_a_damaged_file_is_named_with_its_line(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    """A file that cannot be read is rejected in one line that names the place."""
    (write_run(tmp_path) / name).write_bytes(content)

    with pytest.raises(ArtefactError, match=message) as caught:
        Run.load(tmp_path)
    assert "\n" not in caught.value.one_line()
