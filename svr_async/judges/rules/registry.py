"""The registry of checks: by name, as rubrics over their grids, and back from a rubric's text."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable
from functools import cache, lru_cache, partial

from svr_async.core.rubric import Check, Rubric
from svr_async.errors import ConfigError
from svr_async.judges.rules import code, content, figures, formats, language, length, safety, wording
from svr_async.judges.rules.spec import CheckSpec, Finding
from svr_async.judges.rules.text import TextView

Bound = Callable[[TextView, TextView], Finding | None]
"""A check with its arguments filled in: (prompt, response) → a finding, or None where it does not apply."""

MAX_RECOGNISED_CHARS = 4_000
_SUBJECTS = (length, formats, code, language, wording, content, figures, safety)
_QUESTION = re.compile(
    r"(does|is|has|are|do) (?:the|this) (?:assistant's |model's )?(?:response|answer|reply) ", re.IGNORECASE
)
_SUBJECT = re.compile(
    r"(?:the|this) (?:assistant's |model's )?(?:response|answer|reply) (?:must |should )?", re.IGNORECASE
)


@cache
def _by_name() -> dict[str, CheckSpec]:
    found = {entry.name: entry for subject in _SUBJECTS for entry in subject.CHECKS}
    if len(found) != sum(len(subject.CHECKS) for subject in _SUBJECTS):
        raise ValueError("two checks share a name")
    return found


def all_checks() -> tuple[CheckSpec, ...]:
    """Return every check, by subject."""
    return tuple(_by_name().values())


def problem_with(check: Check) -> str:
    """Say in one line what is wrong with a check's name or arguments; empty when nothing is."""
    known = _by_name()
    if check.name not in known:
        near = difflib.get_close_matches(check.name, known, n=1)
        return f"there is no check named {check.name!r}" + (f"; did you mean {near[0]!r}?" if near else "")
    problem = known[check.name].problem(dict(check.args))
    return f"the check {check.name} {problem}" if problem else ""


def spec_of(check: Check) -> CheckSpec:
    """Return the registry's entry for a check; ConfigError if its name or arguments are wrong."""
    if problem := problem_with(check):
        raise ConfigError(problem, hint="registry.all_checks() lists every check with its arguments")
    return _by_name()[check.name]


def bound(check: Check) -> Bound:
    """Return a check as a function of prompt and response; ConfigError if its name or arguments are wrong."""
    return _bound(check, tuple(type(value) for _, value in check.args))


@lru_cache(maxsize=8192)
def _bound(check: Check, _types: tuple[type, ...]) -> Bound:
    """Bind and keep; types are part of the key because True equals 1, and only one of them is a number of words."""
    decide = spec_of(check).decide
    return partial(decide, **dict(check.args)) if check.args else decide


def run_check(check: Check, prompt: TextView, response: TextView) -> Finding | None:
    """Decide one check on one response; None where it does not apply."""
    return bound(check)(prompt, response)


def rubric_for(check: Check) -> Rubric:
    """Write a check as a rubric that carries it; ConfigError if its name or arguments are wrong."""
    entry = spec_of(check)
    return Rubric(text=entry.render(dict(check.args)), facet=entry.facet, check=check)


def inverse_of(check: Check) -> Check | None:
    """Return the check that holds exactly where this one does not; None where there is none."""
    inverse = spec_of(check).inverse
    if inverse is None:
        return None
    shifted = Check(
        inverse.name, tuple((name, _shift(value, inverse.shift.get(name, 0))) for name, value in check.args)
    )
    return None if problem_with(shifted) else shifted


def _shift(value: str | float | tuple[str, ...], by: int) -> str | int | float | bool | tuple[str, ...]:
    return value + by if by and isinstance(value, int) else value


@cache
def grid_rubrics() -> tuple[Rubric, ...]:
    """Return every check over its whole grid of arguments, as rubrics."""
    return tuple(rubric_for(Check.of(entry.name, **args)) for entry in all_checks() for args in entry.grid)


@cache
def _readers() -> tuple[tuple[str, re.Pattern[str], tuple[str, ...]], ...]:
    return tuple((entry.name, *entry.reader()) for entry in all_checks())


@lru_cache(maxsize=8192)
def recognise(text: str) -> Check | None:
    """Read a rubric text back as its check; None if it is no template of the registry.

    Case, spacing, quote marks and the last full stop do not matter; "Does the response use …?" is read as a statement.
    """
    if len(text) > MAX_RECOGNISED_CHARS:
        return None
    statement = _as_statement(text)
    for name, pattern, names in _readers():
        if match := pattern.fullmatch(statement):
            params = _by_name()[name].params
            args = {key: params[key].parse(value) for key, value in zip(names, match.groups(), strict=True)}
            check = Check.of(name, **args)
            if not problem_with(check):
                return check
    return None


def _as_statement(text: str) -> str:
    """Bring a rubric text to the form of the templates: straight quotes, a statement about "the response"."""
    straight = text.replace("“", '"').replace("”", '"').replace("’", "'").replace("‘", "'")
    line = " ".join(straight.split()).rstrip(" .?!;")
    if match := _QUESTION.match(line):
        return f"The response {_third_person(match[1].lower(), line[match.end() :])}"
    if match := _SUBJECT.match(line):
        rest = line[match.end() :]
        wished = match[0].lower().endswith(("should ", "must "))
        return f"The response {_third_person('does', rest) if wished else rest}"
    return line


def _third_person(auxiliary: str, rest: str) -> str:
    """Turn "does … use x" into "uses x", "is … short" into "is short", "does … not use" into "does not use"."""
    if auxiliary not in ("does", "do"):
        return f"{auxiliary} {rest}"
    verb, _, tail = rest.partition(" ")
    irregular = {"be": "is", "have": "has", "do": "does", "not": "does not"}
    if verb.lower() in irregular:
        return f"{irregular[verb.lower()]} {tail}".rstrip()
    ending = "es" if verb.endswith(("s", "sh", "ch", "x", "z")) else "s"
    stem = verb[:-1] + "ie" if verb.endswith("y") and verb[-2:-1] not in "aeiou" else verb
    return f"{stem}{ending} {tail}".rstrip()
