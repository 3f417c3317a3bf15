"""Every command of ours that is printed anywhere is one that its program takes, run here or not."""

from __future__ import annotations

from pathlib import Path

import pytest
from pages import ROOT, pages
from printed import Printed, WrongCommandError, check, printed

PRINTING = [*pages(), *(ROOT / name for name in ("CONTRIBUTING.md", "SECURITY.md", "benchmarks/RESULTS.md"))]


@pytest.mark.parametrize("page", PRINTING, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_printed_command_is_one_that_its_program_takes(page: Path) -> None:
    """Programs, sub-commands, flags and values of `svr …`, `python …`, `make …`, `pip …` exist, within lines too."""
    for command in printed(page.read_text("utf-8")):
        try:
            check(command)
        except WrongCommandError as error:
            raise AssertionError(f"`{command.text}`: {error}") from None


@pytest.mark.parametrize(
    "wrong",
    [
        "svr evaluate",
        "svr eval pairs --data d.jsonl --judge rules --limited 3",
        "svr eval pairs --order sideways",
        "svr bank edits bank/",
        "svr batch export mine/ eval pairs --jugde gpt-4o-mini",
        "python benchmarks/paper/familly.py run",
        "make tests",
        "pip install '.[hubs]'",
    ],
)
def test_a_command_that_its_program_refuses_is_seen(wrong: str) -> None:
    """A mistyped program, flag, value, script or target fails."""
    with pytest.raises(WrongCommandError):
        check(Printed(wrong, whole=True))
