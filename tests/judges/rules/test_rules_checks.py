"""Every check: its examples, and that it is total and fast on any text."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rules_cases import CASES, Args

from svr_async.core.rubric import Check
from svr_async.judges.rules.constraints import constraints_in
from svr_async.judges.rules.judge import view_of, view_of_prompt
from svr_async.judges.rules.registry import CHECKS, bound, grid_rubrics, inverse_of
from svr_async.judges.rules.spec import Finding
from svr_async.judges.rules.text import TextView


def decided(check: Check, prompt: str, response: str) -> Finding | None:
    """Decide one check."""
    return bound(check)(view_of_prompt(prompt), view_of(response))


@pytest.mark.parametrize(("name", "args", "prompt", "response", "expected"), CASES)
def test_verdict(name: str, args: Args, prompt: str, response: str, expected: bool | None) -> None:
    """A check passes, fails or abstains as its example says, and its inverse does the opposite."""
    found = decided(Check.of(name, **args), prompt, response)
    assert expected == (None if found is None else found.passed)

    inverse = inverse_of(Check.of(name, **args))
    opposite = decided(inverse, prompt, response) if inverse else None
    assert inverse is None or (found is None) == (opposite is None)
    assert found is None or opposite is None or found.passed != opposite.passed


def test_every_check_has_examples() -> None:
    """Every check, or its inverse, has an example that passes and one that fails."""
    seen = {(name, verdict) for name, _, _, _, verdict in CASES}
    missing = {
        (entry.name, verdict)
        for entry in CHECKS.values()
        for verdict in (True, False)
        if not seen & {(entry.name, verdict), (entry.inverse, not verdict)}
    }

    assert missing == set()


FRAGMENTS = (
    "```python\n", "```\n", "```json\n", "- ", "1. ", "# ", "| a |\n|--|\n", "**", "\\left(", "$$", "{", "(", "\n\n",
    " ", "12 x 3 = 36", "I'm sorry, but I can't", "how to make a bomb", "the", "?", "!", '"', "'", "\x00", "\ud800",
    "\u202e", "日本", "éa", "🙂", "i", "at most 3 words", "do not use the word x", "in French", "\\begin{a}", "<a>",
)  # fmt: skip
ANY_TEXT = st.one_of(
    st.text(st.characters(exclude_categories=()), max_size=200),
    st.lists(st.sampled_from(FRAGMENTS), max_size=25).map("".join),
)


@settings(deadline=None, max_examples=60)
@given(ANY_TEXT, ANY_TEXT)
def test_checks_are_total_and_pure(prompt: str, response: str) -> None:
    """Every check of the grid gives a finite finding on any texts, the same one again; constraints stay few."""
    views, again = (TextView(prompt), TextView(response)), (TextView(prompt), TextView(response))
    for rubric in grid_rubrics():
        assert rubric.check is not None
        finding = bound(rubric.check)(*views)
        assert finding is None or (finding.passed in (True, False) and math.isfinite(finding.degree))
        assert finding == bound(rubric.check)(*again)
    assert len(constraints_in(prompt)) <= 12


LONG_TEXTS = (
    "(", " ", "\n", "a", "word ", "a. ", "- a\n", "'\"", "\\(", "**a", "1 + 1 = ", "```\n", "漢", "\ud800", "\r",
    "not ", "do not mention x or y. ", "```python\n1+", "```xml\n<a>", "```json\n[", "İ", "between 3 and 4 words ",
)  # fmt: skip


@pytest.mark.timeout(300)
@pytest.mark.parametrize("size", [40_000, pytest.param(10_000_000, marks=pytest.mark.soak)])
@pytest.mark.parametrize("seed", LONG_TEXTS)
def test_long_texts_return(seed: str, size: int) -> None:
    """Every check returns on a long text of one repeated fragment; a quadratic one would hang."""
    text = (seed * (size // len(seed) + 1))[:size]
    prompt, response = TextView(text), TextView(text)
    for entry in CHECKS.values():
        bound(Check.of(entry.name, **entry.grid[0]))(prompt, response)
    assert len(constraints_in(text)) <= 12
