"""Every command of ours that is printed anywhere is one that its program takes, run here or not."""

from __future__ import annotations

from pathlib import Path

import pytest
from pages import ROOT, pages
from printed import Printed, WrongCommandError, check, printed

PRINTING = [*pages(), *(ROOT / name for name in ("CONTRIBUTING.md", "SECURITY.md"))]


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
        "svr bank shaw bank/",
        "svr sim --sede 1 --port 8000",
        "svr batch export mine/ eval pairs --jugde gpt-4o-mini",
        "svr-fit store --out",
        "python benchmarks/paper/familly.py run",
        "python benchmarks/worlds/family.py walk --out runs",
        "python benchmarks/worlds/family.py run --out runs --draw 3 --worlds 4",
        "python benchmarks/paper/llmbar_reading.py --fast",
        "python -m pytest tests/hooks/test_tlr.py",
        "make tests",
        "pip install '.[hubs]'",
        "pip install -r requirements.txt",
    ],
)
def test_a_command_that_its_program_refuses_is_seen(wrong: str) -> None:
    """A mistyped program, flag, value, script or target fails."""
    with pytest.raises(WrongCommandError):
        check(Printed(wrong, whole=True))


def test_commands_are_found_wherever_they_are_printed() -> None:
    """In a fence, in an indented block beside what is said of it, over two lines, and within a paragraph's lines."""
    page = (
        "`svr sim\n--seed 1` and `svr data check|fetch`\n\n"
        "```console\n$ svr gate a \\\n    --baseline b\nsvr: no\n```\n\n"
        "    make demo    all of it\n    svr fit s \\\n      --out b   # soon\n    svr train [--ablate PART]\n\n"
        "<!-- invisible-code: console\n$ svr hidden\n-->\n"
    )
    assert [(one.text, one.whole) for one in printed(page)] == [
        ("svr gate a --baseline b", True),
        ("make demo", True),
        ("svr fit s        --out b", True),
        ("svr train [--ablate PART]", True),
        ("svr sim --seed 1", False),
        ("svr data check", False),
        ("svr data fetch", False),
    ]
