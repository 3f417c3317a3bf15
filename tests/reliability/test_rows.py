"""The table of rows itself: every row is carried by a test that exists; the page says what is not met."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

from rows import NOT_MET, ROWS

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parent / "docs" / "reliability.md"


@cache
def functions_of(path: Path) -> frozenset[str]:
    """Return the names of a file's test functions and test classes, without importing it."""
    nodes = ast.walk(ast.parse(path.read_text("utf-8")))
    return frozenset(node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def test_every_row_is_carried() -> None:
    """Rows 1 to 125, each with a test."""
    assert sorted(ROWS) == list(range(1, 126))
    assert all(ROWS.values())


def test_the_tests_of_every_row_exist() -> None:
    """Each named test is defined in the file that it is said to be in."""
    named = {tuple(name.split("::")) for names in ROWS.values() for name in names}
    assert [path for path, _ in named if not (TESTS / path).is_file()] == []
    assert sorted((path, function) for path, function in named if function not in functions_of(TESTS / path)) == []


def test_every_test_named_by_a_row_is_in_the_table() -> None:
    """A test called after a row is found in the table under that row."""
    for path in sorted((TESTS / "reliability").glob("test_*.py")):
        for function in functions_of(path):
            for number in map(int, re.findall(r"row_(\d{3})", function)):
                wanted = f"reliability/{path.name}::{function}"
                assert wanted in ROWS[number], f"{wanted} is not named in row {number}"


def test_what_is_not_met_is_on_the_page() -> None:
    """What a row asks for and the program does not do is said in docs/reliability.md."""
    page = PAGE.read_text("utf-8")
    for row in NOT_MET:
        assert f"| {row} |" in page, row
