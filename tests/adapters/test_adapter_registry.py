"""The registry lists adapters and guesses at misspelt names."""

from pathlib import Path

import pytest

from svr_async.adapters import ADAPTERS
from svr_async.adapters.contract import Adapter
from svr_async.adapters.fields import Fields
from svr_async.adapters.records import Parsed, accuracy
from svr_async.core.pair import PreferencePair
from svr_async.errors import DataError
from svr_async.evaluation.run import evaluate
from svr_async.evaluation.settings import EvalSettings
from svr_async.training.running.data import refuse_benchmark_for_training


def test_a_new_benchmark_is_one_file_and_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An adapter in the registry is all: a run of it has its pairs, scores and name."""

    def parse(fields: Fields) -> Parsed:
        prompt = fields.prompt("question")
        return Parsed(pairs=(PreferencePair(id="1", prompt=prompt, chosen=fields.text("good"), rejected="No."),))

    made = Adapter(
        name="made", title="MADE", licence="none", columns=("question", "good"),
        parse=parse, score=lambda results, tie: {"overall": accuracy(results, tie), "rule": "plain"},
    )  # fmt: skip
    monkeypatch.setitem(ADAPTERS, "made", made)
    (tmp_path / "made.jsonl").write_text('{"question": "Name three cats.", "good": "Lion, lynx and tiger."}\n')
    done = evaluate(
        EvalSettings(benchmark="made", data=tmp_path / "made.jsonl", method="longest", out=tmp_path / "run")
    )
    assert done.complete
    assert done.metrics["official"]["overall"] == 1.0
    assert "MADE" in (tmp_path / "run" / "report.html").read_text("utf-8")
    with pytest.raises(DataError, match="MADE, and that is for evaluation only"):
        refuse_benchmark_for_training("made.jsonl")
