"""Tests that need a program beside Python: what becomes of them where there is none."""

from __future__ import annotations

from pathlib import Path

import pytest
from programs import PROGRAMS, left_out, need


@pytest.mark.parametrize("what", PROGRAMS)
def test_a_missing_program_skips_and_in_ci_fails(what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine without the program its tests are skipped with the reason; with CI=true they fail with it."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match=f"needs {what}, which is not on PATH"):
        need(what)
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match=f"needs {what}, which is not on PATH"):
        need(what)


def test_an_old_name_of_a_program_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any of a program's names will do."""
    program = tmp_path / PROGRAMS["Chromium"][-1]
    program.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert need("Chromium") == str(program)


def test_the_end_of_a_run_tells_what_was_left_out() -> None:
    """One line counts the tests by the missing program; other skips are no matter of it, and none is no line."""
    chromium, compiler, *_ = (f"Skipped: needs {what}, which is not on PATH" for what in PROGRAMS)
    assert left_out([chromium, compiler, chromium, "Skipped: for Linux"]) == (
        "tests left out: 2 for want of Chromium, 1 for want of a C compiler; install it to run them too"
    )
    assert left_out(["Skipped: for Linux"]) == ""
