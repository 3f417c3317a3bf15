"""The log of final failures: kept across runs, whatever happens to its file."""

from __future__ import annotations

from pathlib import Path

from svr_async.core.verdict import Outcome
from svr_async.engine.failures import FailureLog


def test_failures_are_known_in_the_next_run(tmp_path: Path) -> None:
    """Key, outcome and detail are read again; the last entry of a key counts; without a path nothing is written."""
    log = FailureLog(tmp_path / "failures.jsonl")
    log.add("k1", Outcome.PARSE_ERROR, "no verdict")
    log.add("k2", Outcome.API_ERROR, "HTTP 500")
    log.add("k2", Outcome.REFUSAL, "filtered")
    again = FailureLog(tmp_path / "failures.jsonl")
    assert again.get("k1") == (Outcome.PARSE_ERROR, "no verdict")
    assert again.get("k2") == (Outcome.REFUSAL, "filtered")
    assert (again.get("k3"), len(again)) == (None, 2)
    assert len(FailureLog(tmp_path / "failures.jsonl", forget=True)) == 0
    memory = FailureLog()
    memory.add("k", Outcome.TRUNCATED, "")
    assert memory.get("k") == (Outcome.TRUNCATED, "")


def test_a_torn_or_foreign_line_is_skipped(tmp_path: Path) -> None:
    """A line that a kill cut is ignored, and the next failure is not lost with it."""
    path = tmp_path / "failures.jsonl"
    log = FailureLog(path)
    log.add("k1", Outcome.API_ERROR, "one")
    whole = path.read_bytes()
    foreign = b'{"key": "k9", "outcome": "no such"}\n[1]\nnull\n\xff\n{"key": 5}\n'
    for cut in range(1, len(whole)):
        path.write_bytes(foreign + whole + whole[:cut])
        log = FailureLog(path)
        assert log.get("k1") == (Outcome.API_ERROR, "one")
        log.add("k2", Outcome.REFUSAL, "two")
        assert FailureLog(path).get("k2") == (Outcome.REFUSAL, "two"), cut
