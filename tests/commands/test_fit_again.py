"""`svr-fit` on the stores of a training: what training fitted comes out again, byte for byte, without a call."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest
from made_pairs import PATIENCE_S, files_of, last_line, write_made
from rig import RULES, write_bench

from svr_async.commands.main import run
from svr_async.commands.main import svr as group
from svr_async.scoring.bank import RubricBank
from svr_async.training.rounds.stages import read_stage
from svr_async.training.store.files import load_store

pytestmark = pytest.mark.timeout(2 * PATIENCE_S)
METADATA = {"dev_metrics", "fit_settings", "files"}  # of bank.json; `files` has the digest of history.json


def svr(*args: str | Path) -> int:
    """Run a command in this process."""
    return run(group, "svr", [*map(str, args)])


def described(bank: Path) -> dict[str, object]:
    """Return what bank.json says, but for what tells of how the bank came to be."""
    held: dict[str, object] = orjson.loads((bank / "bank.json").read_bytes())
    return {name: value for name, value in held.items() if name not in METADATA}


def check_same_bank(made: Path, trained: Path) -> None:
    """Selector and vocabulary have the same bytes; rubrics, weights, examples, settings and labels are equal."""
    for name in ("selector.safetensors", "vocabulary.json"):
        assert (made / name).read_bytes() == (trained / name).read_bytes()
    assert described(made) == described(trained)


def test_each_rounds_store_gives_that_rounds_bank(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of an endpoint's training: kept rubrics, selector, dev accuracy, settings; all, for the round that was chosen."""
    record = orjson.loads((trained / "out" / "record.json").read_bytes())
    assert len(record["rounds"]) == 2
    for row in record["rounds"]:
        number, out = row["round"], tmp_path / f"again-{row['round']}"
        assert svr("fit", trained / "out" / "stores" / f"round-{number}", "--out", out, "-q", "--json") == 0
        again = orjson.loads(capsys.readouterr().out)
        found = [again[name] for name in ("rubrics", "dev_accuracy", "top_k", "filler_weight")]
        assert found == [row[name] for name in ("kept", "dev_accuracy", "top_k", "filler_weight")]
        bank = RubricBank.load(out / "bank")
        held = read_stage(trained / "out" / "stages" / f"calibrate-{number}.stage").arrays
        assert all(bank.selector[name].tobytes() == raw for name, (_, _, raw) in held.items())
        if number == record["dev"]["round"]:
            check_same_bank(out / "bank", trained / "out" / "bank")


def test_the_rounds_before_the_last_hold_what_was_measured_and_mined(trained: Path) -> None:
    """The second round's store has the hard negatives and the support that the record counts."""
    record = orjson.loads((trained / "out" / "record.json").read_bytes())
    first, second = (load_store(trained / "out" / "stores" / f"round-{n}") for n in (1, 2))
    assert int((first.negative_of >= 0).sum()) == 0
    assert int((second.negative_of >= 0).sum()) == record["rounds"][1]["hard_negatives"] > 0
    assert second.support
    assert [store.header.plan.last for store in (first, second)] == [False, True]
    assert "SIMULATED" in second.header.judge


@pytest.mark.soak
def test_the_papers_preset_and_an_ablation_come_out_again_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Preset, seed, top_k and ablation are in the store; a flag goes over them, and then the bank is another."""
    monkeypatch.chdir(tmp_path)
    write_made(Path("made.jsonl"), 60)
    write_bench(Path("bench.jsonl"), 2)
    flags = ("--preset", "paper", "--seed", "7", "--rounds", "1", "--top-k", "5", "--ablate", "diversity", "-q")
    against = ("--decontaminate", "rubricbench=bench.jsonl")
    assert svr("train", "made.jsonl", *RULES, "--out", "out", *flags, *against) == 0
    assert svr("fit", "out/stores/round-1", "--out", "again", "-q") == 0
    check_same_bank(Path("again/bank"), Path("out/bank"))
    before = files_of(Path("again/bank"))
    assert svr("fit", "out/stores/round-1", "--out", "again", "-q") == 0
    assert files_of(Path("again/bank")) == before
    assert svr("fit", "out/stores/round-1", "--out", "other", "--preset", "default", "--top-k", "2", "-q") == 0
    assert RubricBank.load(Path("other/bank")).selector_kind == "topics"
    assert RubricBank.load(Path("other/bank")).inference.top_k == 2
    capsys.readouterr()
    assert svr("fit", "out/stores/round-2", "--out", "none", "-q") == 2
    assert "out/stores/round-2 holds no feature store" in last_line(capsys)
