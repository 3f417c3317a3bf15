"""The registry lists adapters and guesses at misspelt names."""

from pathlib import Path

import pytest

from svr_async.adapters import ADAPTERS, get_adapter, refuse_benchmark_for_training
from svr_async.adapters.contract import Adapter
from svr_async.adapters.fields import Fields
from svr_async.adapters.records import Parsed, accuracy
from svr_async.core.pair import PreferencePair
from svr_async.errors import DataError, UsageError
from svr_async.evaluation.run import evaluate
from svr_async.evaluation.settings import EvalSettings


def test_every_adapter_describes_itself() -> None:
    """Each adapter has its own name, a title, a licence and columns; hub files come with a hub id."""
    for name, adapter in ADAPTERS.items():
        assert adapter.name == name
        assert adapter.title
        assert adapter.licence
        assert adapter.columns
        assert bool(adapter.hub_id) == bool(adapter.hub_files)


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


def test_unknown_names_are_answered_with_a_guess_or_the_list() -> None:
    """A misspelt benchmark is answered with the nearest name, a strange one with all names."""
    with pytest.raises(UsageError) as caught:
        get_adapter("rewardbench-2")
    assert "did you mean rewardbench2?" in caught.value.one_line()
    with pytest.raises(UsageError) as caught:
        get_adapter("xyz")
    assert "there are rubricbench, rewardbench" in caught.value.one_line()
