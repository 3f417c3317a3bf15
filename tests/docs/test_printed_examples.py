"""Every example that the docs print is run as printed; what needs more than `make test` has says so, and is rare."""

from __future__ import annotations

import ast
import contextlib
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pages import NEEDED, OTHERS, ROOT, Runner, pages
from shell import Shell

EXAMPLES = re.compile(r"^```(python|console|sh)$", re.MULTILINE)
SKIPPED = re.compile(r"<!-- skip: (?!end).*?-->")
NEEDS = re.compile(r'<!-- skip: (?:next|start) without\((".*?")\) -->')
NOT_RUN = {"how-to/four-servers": 1, "install": 1, "hooks": 1, "scale": 1}
PATIENCE_S = 240  # for a page that trains, on a machine that does much else; it takes a few seconds
WITH_EXAMPLES = [page for page in pages() if page.name != "tutorial.md" and EXAMPLES.search(page.read_text("utf-8"))]
pytestmark = pytest.mark.timeout(PATIENCE_S)


@pytest.fixture
def runner(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    workshop: Callable[[], Path],
) -> Iterator[Runner]:
    """Run examples in an empty folder, with a separate cache and the benchmarks of the repository."""
    monkeypatch.chdir(tmp_path)
    Path("benchmarks").symlink_to(ROOT / "benchmarks")
    with contextlib.ExitStack() as stack:
        yield Runner(Shell(stack), lambda name: workshop() / name)


@pytest.mark.parametrize("page", WITH_EXAMPLES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_the_examples_of_a_page_run_as_printed(page: Path, runner: Runner) -> None:
    """From top to bottom, in one empty folder, a page's Python and commands work and print what the page says."""
    assert set(runner.page(page)) <= {*NEEDED, *OTHERS}


def test_the_tutorial_works_from_top_to_bottom(workshop: Callable[[], Path]) -> None:
    """What a newcomer does first works as printed, offline; other pages go on from what it leaves."""
    assert {path.name for path in workshop().iterdir()} >= {"pairs.jsonl", "banks", "runs", "world"}


def test_what_no_test_runs_is_for_programs_and_hardware_of_others() -> None:
    """Whatever `make test` leaves out names what it needs; few examples need what no test has, and no more do."""
    texts = {
        str(page.relative_to(ROOT).with_suffix("")).removeprefix("docs/"): page.read_text("utf-8") for page in pages()
    }
    found = [(page, NEEDS.fullmatch(skip)) for page, text in texts.items() for skip in SKIPPED.findall(text)]
    needs = [(page, ast.literal_eval(f"({match[1]},)")) for page, match in found if match]
    assert len(needs) == len(found)
    assert {what for _, named in needs for what in named} == {*NEEDED, *OTHERS}
    assert Counter(page for page, named in needs if {*OTHERS} & set(named)) == NOT_RUN
