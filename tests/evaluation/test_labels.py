"""A run says what it is not: partial, simulated, offline, recorded, a sample, unofficial, content-blind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from made_run import made_items, write_run

from svr_async.evaluation.run_folder import Run
from svr_async.evaluation.summary import summaries_of


def loaded(folder: Path, **changes: Any) -> Run:
    """Write and load a small run."""
    return Run.load(write_run(folder, **{"items": made_items(n=12)} | changes))


def judged(*marks: str, **manifest: Any) -> dict[str, Any]:
    """Return a manifest with these marks of the judge."""
    return {"judge": {"marks": list(marks)}, **manifest}


@pytest.mark.parametrize(
    ("metrics", "manifest", "words"),
    [
        ({}, {}, ()),
        ({"judge_label": "recorded-speech-no model-simulated"}, judged(), ()),  # marks come from the manifest only
        ({"benchmark": "pairs"}, {"data": {"official": False}}, ()),  # only benchmarks have official counts
        ({"complete": False}, {}, ("PARTIAL",)),
        ({}, judged("simulated"), ("SIMULATED",)),
        ({}, judged("offline_rules"), ("OFFLINE RULES",)),
        ({}, judged("recorded"), ("RECORDED",)),
        ({"method": "longest"}, judged("content_blind"), ("CONTENT-BLIND",)),
        ({}, {"sample": True}, ("SAMPLE DATA",)),
        ({}, {"data": {"official": False, "notes": ["12 rows, not 1147"]}}, ("NOT OFFICIAL COUNTS",)),
        ({"complete": False}, judged("simulated", sample=True), ("PARTIAL", "SIMULATED", "SAMPLE DATA")),
    ],
)
def test_each_caveat_has_its_mark(
    tmp_path: Path, metrics: dict[str, Any], manifest: dict[str, Any], words: tuple[str, ...]
) -> None:
    """Every caveat is a word in captions, the gravest first, and a sentence at the top of the report."""
    run = loaded(tmp_path, metrics=metrics, manifest=manifest)
    assert run.summary.mark_words == words
    assert all(f"[{word}]" in run.summary.caption for word in words)
    assert all(len(mark.text) > 30 for mark in run.summary.marks)


def test_titles_tell_runs_apart(tmp_path: Path) -> None:
    """Equal titles get the folder's name, and a number where even that is the same."""
    runs = [loaded(tmp_path / "a"), loaded(tmp_path / "b"), loaded(tmp_path / "x" / "a")]

    titles = tuple(one.title for one in summaries_of(runs))

    assert titles == ("svr · gpt-oss-120b · a (1)", "svr · gpt-oss-120b · b", "svr · gpt-oss-120b · a (3)")
