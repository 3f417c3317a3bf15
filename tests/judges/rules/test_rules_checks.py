"""Every check, on examples that pass, fail and do not apply."""

from __future__ import annotations

from typing import Any

import pytest
from rules_cases import CASES, Case

from svr_async.core.rubric import Check
from svr_async.judges.rules.judge import findings
from svr_async.judges.rules.registry import all_checks, inverse_of


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]}-{case[4]}")
def test_verdict(case: Case) -> None:
    """A check passes, fails or abstains as its example says."""
    name, args, prompt, response, expected = case
    (finding,) = findings(prompt, response, [Check.of(name, **args)])

    assert expected == (None if finding is None else finding.passed)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]}-{case[4]}")
def test_inverse(case: Case) -> None:
    """The inverse of a check gives the opposite verdict and abstains with it."""
    name, args, prompt, response, expected = case
    inverse = inverse_of(Check.of(name, **args))
    (finding,) = findings(prompt, response, [inverse] if inverse else [Check.of("bold")])

    assert inverse is None or (None if expected is None else not expected) == (finding and finding.passed)


def test_every_check_has_examples() -> None:
    """Every check, or its inverse, has an example that passes and one that fails."""
    seen = {(name, verdict) for name, _, _, _, verdict in CASES}
    missing = {
        (entry.name, verdict)
        for entry in all_checks()
        for verdict in (True, False)
        if not seen & {(entry.name, verdict), (entry.inverse, not verdict)}
    }

    assert missing == set()


ORDERED: tuple[tuple[str, dict[str, Any], str, str, str], ...] = (
    ("max_words", {"n": 2}, "", "one two three", "one two three four five six"),
    ("min_words", {"n": 9}, "", "one two three", "one"),
    ("exact_items", {"n": 3}, "", "- a\n- b", "- a"),
    ("words_between", {"low": 3, "high": 4}, "", "one two", "one two three four five six seven"),
    ("covers_keywords", {"percent": 99}, "solar wind turbine panel", "solar wind", "solar"),
    ("includes_words", {"words": ("sun", "moon", "star")}, "", "sun and moon", "sun"),
    ("python_parses", {}, "", "```python\nx = 1\n```\n\n```python\n(\n```", "```python\n(\n```"),
    ("arithmetic_right", {}, "", "1 + 1 = 3", "1 + 1 = 3, 2 + 2 = 5"),
)


@pytest.mark.parametrize(("name", "args", "prompt", "nearer", "farther"), ORDERED, ids=[o[0] for o in ORDERED])
def test_degree_orders_equal_verdicts(name: str, args: dict[str, Any], prompt: str, nearer: str, farther: str) -> None:
    """Of two responses with the same verdict, the one nearer to the rubric has the larger degree."""
    check = [Check.of(name, **args)]
    (a,), (b,) = findings(prompt, nearer, check), findings(prompt, farther, check)

    assert a is not None
    assert b is not None
    assert a.passed == b.passed
    assert a.degree > b.degree


@pytest.mark.parametrize(("name", "args"), [("max_words", {"n": 9}), ("min_words", {"n": 1}), ("bold", {})])
def test_equal_degree_gives_no_direction(name: str, args: dict[str, Any]) -> None:
    """Two responses that satisfy a bound equally have the same degree, however they differ otherwise."""
    check = [Check.of(name, **args)]

    assert findings("", "**one** two", check) == findings("", "**four** five six", check)
