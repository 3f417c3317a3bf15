"""`svr-fit` on the stores of a training: what training fitted comes out again, byte for byte, without a call."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest
from made_pairs import PATIENCE_S

from svr_async.commands.main import run
from svr_async.commands.main import svr as group
from svr_async.scoring.bank import RubricBank

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
        stage = (trained / "out" / "stages" / f"calibrate-{number}.stage").read_bytes()
        for values in bank.selector.values():
            assert values.tobytes() in stage
        if number == record["dev"]["round"]:
            check_same_bank(out / "bank", trained / "out" / "bank")
