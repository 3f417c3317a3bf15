"""A run says what it is not: partial, simulated, offline, recorded, a sample, unofficial, content-blind."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from made_run import made_items, write_run

from svr_async.adapters import ADAPTERS, get_adapter, refuse_benchmark_for_training
from svr_async.core.integrity import Marks, joined_marks
from svr_async.errors import ArtefactError, DataError
from svr_async.evaluation.labels import caption, mark_words, marks, run_titles
from svr_async.evaluation.run_folder import Run, RunFolder
from svr_async.reports.summary import has_official_rule


def loaded(folder: Path, **changes: Any) -> Run:
    """Write and load a small run."""
    return RunFolder.load(write_run(folder, **{"items": made_items(n=12)} | changes))


def test_a_whole_run_of_a_real_judge_has_no_mark(tmp_path: Path) -> None:
    """Nothing is marked where nothing is doubtful, and the caption names benchmark, method and judge."""
    run = loaded(tmp_path)

    assert marks(run) == ()
    assert caption(run) == "RubricBench · svr · gpt-oss-120b"


@pytest.mark.parametrize(
    ("metrics", "manifest", "word"),
    [
        ({"complete": False}, {}, "PARTIAL"),
        ({}, {"judge": {"marks": ["simulated"]}}, "SIMULATED"),
        ({}, {"judge": {"marks": ["offline_rules"]}}, "OFFLINE RULES"),
        ({}, {"judge": {"marks": ["recorded"]}}, "RECORDED"),
        ({"method": "longest"}, {"judge": {"marks": ["content_blind"]}}, "CONTENT-BLIND"),
        ({}, {"sample": True}, "SAMPLE DATA"),
        ({}, {"data": {"official": False, "notes": ["12 rows, not the official 1147"]}}, "NOT OFFICIAL COUNTS"),
    ],
)
def test_each_caveat_has_its_mark(
    tmp_path: Path, metrics: dict[str, bool | str], manifest: dict[str, bool | dict[str, Any]], word: str
) -> None:
    """Every caveat is one word in captions and a sentence at the top of the report."""
    run = loaded(tmp_path, metrics=metrics, manifest=manifest)

    assert mark_words(run) == (word,)
    assert f"[{word}]" in caption(run)
    assert len(marks(run)[0].text) > 30


def test_a_new_benchmark_is_a_file_and_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its name, its official counts and its rule are on its adapter: reports and training know it from there."""
    made = replace(get_adapter("rmbench"), name="newbench", title="New Bench", spelling="", ruled=False)
    monkeypatch.setitem(ADAPTERS, "newbench", made)
    facts = {"metrics": {"benchmark": "newbench"}, "manifest": {"data": {"official": False}}}
    runs = [loaded(tmp_path / "first", **facts)]

    assert caption(runs[0]).startswith("New Bench · ")
    assert mark_words(runs[0]) == ("NOT OFFICIAL COUNTS",)
    assert not has_official_rule(runs[0].metrics)
    with pytest.raises(DataError, match="is New Bench, and that is for evaluation only"):
        refuse_benchmark_for_training("data/newbench.jsonl")


def test_the_words_of_a_label_mark_nothing(tmp_path: Path) -> None:
    """A real judge may be called as it likes: what it is stands in the manifest."""
    metrics = {"judge_label": "recorded-speech-no model-simulated"}

    assert mark_words(loaded(tmp_path, metrics=metrics, manifest={"judge": {"marks": []}})) == ()


@pytest.mark.parametrize("marks", ["simulated", [1], ["<b>"], [""], ["x" * 50], {"simulated": True}])
def test_garbled_marks_are_refused(tmp_path: Path, marks: str | list[int | str] | dict[str, bool]) -> None:
    """Marks that are not short words are no manifest of ours."""
    with pytest.raises(ArtefactError, match=r"\$\.judge"):
        loaded(tmp_path, manifest={"judge": {"marks": marks}})


def test_several_judges_have_the_marks_of_each_but_rules_only_alone() -> None:
    """Where a model has a vote, checks did not decide alone."""
    rules, sim = frozenset({"offline_rules"}), frozenset({"simulated"})
    model: Marks = frozenset()

    assert joined_marks([rules, sim]) == sim
    assert joined_marks([rules, model]) == model
    assert joined_marks([rules]) == rules


def test_a_model_with_offline_checks_is_no_offline_run(tmp_path: Path) -> None:
    """A hybrid judge asked a model, so it is not marked as offline."""
    assert mark_words(loaded(tmp_path, metrics={"judge_label": "gpt-oss-120b + offline checks"})) == ()


def test_a_sample_is_named_after_its_benchmark(tmp_path: Path) -> None:
    """The shipped sample in a benchmark's format is never called the benchmark."""
    run = loaded(tmp_path, metrics={"benchmark": "rubricbench-sample"}, manifest={"sample": True})

    assert caption(run) == "RubricBench sample · svr · gpt-oss-120b [SAMPLE DATA]"


def test_ones_own_pairs_have_no_official_counts_to_miss(tmp_path: Path) -> None:
    """Only the benchmarks have official counts."""
    manifest = {"data": {"official": False}}

    assert mark_words(loaded(tmp_path, metrics={"benchmark": "pairs"}, manifest=manifest)) == ()


def test_marks_add_up_with_the_gravest_first(tmp_path: Path) -> None:
    """Several caveats are all shown."""
    manifest = {"sample": True, "judge": {"marks": ["simulated"]}}

    assert mark_words(loaded(tmp_path, metrics={"complete": False}, manifest=manifest)) == (
        "PARTIAL",
        "SIMULATED",
        "SAMPLE DATA",
    )


def test_titles_tell_runs_apart(tmp_path: Path) -> None:
    """Equal titles get the folder's name, and a number where even that is the same."""
    runs = [loaded(tmp_path / "a"), loaded(tmp_path / "b"), loaded(tmp_path / "x" / "a")]

    titles = run_titles(runs)

    assert titles == ("svr · gpt-oss-120b · a (1)", "svr · gpt-oss-120b · b", "svr · gpt-oss-120b · a (3)")
