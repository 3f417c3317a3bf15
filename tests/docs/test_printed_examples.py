"""Every example that the docs print is run as printed; what cannot be is named, and stays rare."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pages import NEEDED, ROOT, Runner, pages
from shell import Shell, matches, steps

EXAMPLES = re.compile(r"^```(python|console|sh)$", re.MULTILINE)
SKIPPED = re.compile(r"<!-- skip: next (.*?) -->")
MOST_NEEDED = 11
UNFENCED = re.compile(r"^    (?:\$ )?svr(?:-eval|-fit)? ", re.MULTILINE)
RECORDS = {
    "docs/fit.md": 2,
    "docs/measurements.md": 7,
    "docs/reproduction.md": 1,
    "docs/spending.md": 4,
    "docs/training.md": 7,
}
"""How many commands a page prints of what was measured: public data, whole worlds and hours that no test has."""
PATIENCE_S = 240  # for a page that trains, on a machine that does much else; it takes a few seconds
pytestmark = pytest.mark.timeout(PATIENCE_S)
WITH_EXAMPLES = [page for page in pages() if page.name != "tutorial.md" and EXAMPLES.search(page.read_text("utf-8"))]


@pytest.fixture
def runner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workshop: Callable[[], Path]) -> Iterator[Runner]:
    """Run examples in an empty folder, with a memo of its own."""
    monkeypatch.chdir(tmp_path)
    with contextlib.ExitStack() as stack:
        yield Runner(Shell(stack), lambda name: workshop() / name)


@pytest.mark.parametrize("page", WITH_EXAMPLES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_the_examples_of_a_page_run_as_printed(page: Path, runner: Runner) -> None:
    """From top to bottom, in one empty folder, a page's Python and commands work and print what the page says."""
    assert set(runner.page(page)) <= set(NEEDED)


def test_the_tutorial_works_from_top_to_bottom(workshop: Callable[[], Path]) -> None:
    """What a newcomer does first works as printed, offline; other pages go on from what it leaves."""
    assert {path.name for path in workshop().iterdir()} >= {"pairs.jsonl", "banks", "runs", "world"}


def test_few_examples_are_not_run_and_each_says_why() -> None:
    """What is left out names one of the known reasons, and there are not more of them than now."""
    found = [(page.name, reason) for page in pages() for reason in SKIPPED.findall(page.read_text("utf-8"))]
    assert {reason.strip('"') for _, reason in found} <= NEEDED
    assert len(found) <= MOST_NEEDED, found


def test_a_command_that_is_not_run_is_the_record_of_a_measurement() -> None:
    """All others stand in fences, which are run; the reference prints the examples of the commands' own help."""
    found = {page.relative_to(ROOT).as_posix(): len(UNFENCED.findall(page.read_text("utf-8"))) for page in pages()}
    assert {name: count for name, count in found.items() if count and "reference" not in name} == RECORDS


def test_a_printed_output_that_differs_is_seen() -> None:
    """`…` stands for anything in a line and for any lines; everything else must be as printed."""
    assert matches("accuracy … of 60\n…\nend", "accuracy 3 % of 60\nmore\nand more\nend  \n")
    assert matches("one", "one\n")
    assert not matches("accuracy … of 60", "accuracy 3 % of 61\n")
    assert not matches("one", "one\ntwo\n")


def test_a_session_is_cut_into_commands_and_outputs() -> None:
    """A comment is no part of a command, `#` in an address is; a line that ends with a backslash goes on below."""
    source = "$ svr a http://h/v1#m \\\n    --b   # why\nout\n\nout 2\n$ svr c\n"
    assert [(step.command, step.output) for step in steps(source, prompt="$ ")] == [
        ("svr a http://h/v1#m --b", "out\n\nout 2"),
        ("svr c", ""),
    ]
