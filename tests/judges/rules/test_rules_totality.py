"""Every check is total: any text in, a finding or None out, at any length."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from svr_async.core.rubric import Check
from svr_async.judges.rules.constraints import constraints_in
from svr_async.judges.rules.registry import all_checks, bound, grid_rubrics
from svr_async.judges.rules.spec import Finding
from svr_async.judges.rules.text import TextView

ONE_EACH = [Check.of(entry.name, **entry.grid[0]) for entry in all_checks()]
FRAGMENTS = (
    "```python\n", "```\n", "```json\n", "- ", "1. ", "# ", "| a |\n|--|\n", "**", "\\left(", "$$", "{", "(", "\n\n",
    " ", "12 x 3 = 36", "I'm sorry, but I can't", "how to make a bomb", "the", "?", "!", '"', "'", "\x00", "\ud800",
    "\u202e", "日本", "éa", "🙂", "i", "at most 3 words", "do not use the word x",
    "in French", "A) x\nB) y\n", "\\begin{a}",
    "<a>",
)  # fmt: skip
ANY_TEXT = st.one_of(
    st.text(st.characters(exclude_categories=()), max_size=200),
    st.lists(st.sampled_from(FRAGMENTS), max_size=25).map("".join),
)


def assert_sound(finding: Finding | None) -> None:
    """A finding is a flag and a finite number."""
    assert finding is None or (finding.passed in (True, False) and math.isfinite(finding.degree))


@settings(deadline=None, max_examples=60)
@given(ANY_TEXT, ANY_TEXT)
def test_checks_are_total_and_pure(prompt: str, response: str) -> None:
    """Every check of the grid gives a sound finding on any prompt and response, and the same one again."""
    views, again = (TextView(prompt), TextView(response)), (TextView(prompt), TextView(response))
    for rubric in grid_rubrics():
        assert rubric.check is not None
        finding = bound(rubric.check)(*views)
        assert_sound(finding)
        assert finding == bound(rubric.check)(*again)


@settings(deadline=None, max_examples=150)
@given(ANY_TEXT)
def test_constraints_are_total(prompt: str) -> None:
    """Any prompt gives at most twelve valid constraints, each carrying its check."""
    found = constraints_in(prompt)

    assert len(found) <= 12
    assert all(rubric.check for rubric in found)


LONG_TEXTS = (
    "(", " ", "\n", "a", "word ", "a. ", "- a\n", "'\"", "\\(", "**a", "1 + 1 = ", "```\n", "漢", "\ud800", "\r",
    "not ", "do not mention x or y. ", "```python\n1+", "```xml\n<a>", "```json\n[", "A) x\n", "İ",
    "between 3 and 4 words ",
)  # fmt: skip


def run_all(seed: str, size: int) -> None:
    """Run every check once on a text of one fragment repeated, as prompt and as response."""
    text = (seed * (size // len(seed) + 1))[:size]
    prompt, response = TextView(text), TextView(text)
    for check in ONE_EACH:
        assert_sound(bound(check)(prompt, response))
    assert len(constraints_in(text)) <= 12


@pytest.mark.parametrize("seed", LONG_TEXTS)
def test_long_texts_return(seed: str) -> None:
    """Every check returns on 40 kB of any one fragment, where a quadratic one would hang."""
    run_all(seed, 40_000)


@pytest.mark.soak
@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", LONG_TEXTS)
def test_huge_texts_return(seed: str) -> None:
    """Every check returns on 10 MB of any one fragment."""
    run_all(seed, 10_000_000)
