"""The registry of checks: by name, as rubrics over their grids, and back from a rubric's text."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache, lru_cache, partial

from svr_async.core.rubric import Check, Rubric
from svr_async.errors import ConfigError, did_you_mean
from svr_async.judges.rules import code, content, language, safety, shape, wording
from svr_async.judges.rules.spec import CheckSpec, Finding
from svr_async.judges.rules.text import TextView

BoundCheck = Callable[[TextView, TextView], Finding | None]
"""A check with its arguments filled in: (prompt, response) → a finding, or None if it does not apply."""

MAX_RECOGNISED_CHARS = 4_000
_RESPONSE = r"(?:the|this) (?:assistant's |model's )?(?:response|answer|reply) "
_QUESTION = re.compile(f"(does|is|has|are|do) {_RESPONSE}", re.IGNORECASE)
_SUBJECT = re.compile(f"{_RESPONSE}(?:must |should )?", re.IGNORECASE)

CHECKS: Mapping[str, CheckSpec] = {
    entry.name: entry for module in (shape, code, language, wording, content, safety) for entry in module.CHECKS
}
"""Every check by name, by subject."""


def problem_with(check: Check) -> str:
    """Return the problem with a check's name or arguments in one line; empty if it is valid."""
    if check.name not in CHECKS:
        return f"unknown check {check.name!r}; {did_you_mean(check.name, CHECKS)}".removesuffix("; ")
    problem = CHECKS[check.name].problem(dict(check.args))
    return f"the check {check.name} {problem}" if problem else ""


def _spec_of(check: Check) -> CheckSpec:
    if problem := problem_with(check):
        raise ConfigError(problem, hint="registry.CHECKS has every check with its arguments")
    return CHECKS[check.name]


@lru_cache(maxsize=8192)
def bound(check: Check) -> BoundCheck:
    """Return a check as a function of prompt and response; ConfigError if its name or arguments are wrong."""
    return partial(_spec_of(check).decide, **dict(check.args))


def rubric_for(check: Check) -> Rubric:
    """Write a check as a rubric that carries it; ConfigError if its name or arguments are wrong."""
    entry = _spec_of(check)
    return Rubric(text=entry.render(dict(check.args)), facet=entry.facet, check=check)


def inverse_of(check: Check) -> Check | None:
    """Return the check that passes exactly where this one fails, if one exists."""
    entry, args = _spec_of(check), dict(check.args)
    if isinstance(n := args.get("n"), int):
        args["n"] = n + entry.shift
    inverse = Check.of(entry.inverse, **args)
    return None if not entry.inverse or problem_with(inverse) else inverse


@cache
def grid_rubrics() -> tuple[Rubric, ...]:
    """Return every check over its whole grid of arguments, as rubrics."""
    return tuple(rubric_for(Check.of(entry.name, **args)) for entry in CHECKS.values() for args in entry.grid)


@lru_cache(maxsize=8192)
def recognise(text: str) -> Check | None:
    """Read a rubric text back as its check; None if it matches no template.

    Case, spacing, quote marks and the last full stop do not matter; "Does the response use …?" is read as a statement.
    """
    if len(text) > MAX_RECOGNISED_CHARS:
        return None
    statement = _as_statement(text)
    for entry in CHECKS.values():
        if match := entry.pattern.fullmatch(statement):
            args = {name: entry.params[name].parse(value) for name, value in match.groupdict().items()}
            check = Check.of(entry.name, **args)
            if not problem_with(check):
                return check
    return None


def _as_statement(text: str) -> str:
    """Turn a rubric text into the form of the templates: straight quotes, a statement about "the response"."""
    straight = text.replace("“", '"').replace("”", '"').replace("’", "'").replace("‘", "'")
    line = " ".join(straight.split()).rstrip(" .?!;")
    if match := _QUESTION.match(line):
        return f"The response {_third_person(match[1].lower(), line[match.end() :])}"
    if match := _SUBJECT.match(line):
        rest = line[match.end() :]
        is_wish = match[0].lower().endswith(("should ", "must "))
        return f"The response {_third_person('does', rest) if is_wish else rest}"
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
