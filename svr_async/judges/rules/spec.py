"""What a check is: a pure function on two texts, a template that reads as a rubric, and typed arguments."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import wraps
from string import Formatter
from typing import NamedTuple, Protocol

from svr_async.core.rubric import FACETS, CheckValue
from svr_async.judges.rules.text import TextView

Args = Mapping[str, CheckValue]
MAX_PHRASE_CHARS = 160
MAX_PHRASES = 20
MAX_WHOLE = 1_000_000_000


class Finding(NamedTuple):
    """What a check found in one response. `degree` orders two responses: the larger satisfies the rubric better."""

    passed: bool
    degree: float


Decide = Callable[..., Finding | None]
"""A check's function: (prompt, response, **args) → a finding, or None where the rubric does not apply."""


def yes_if(condition: object) -> Finding:
    """Return a pass or a fail without shades between."""
    return Finding(True, 1.0) if condition else Finding(False, 0.0)


def at_most(value: float, bound: float) -> Finding:
    """Pass up to a bound; above it the smaller excess is better, below it all are equal."""
    return Finding(True, 0.0) if value <= bound else Finding(False, (bound - value) / max(bound, 1.0))


def at_least(value: float, bound: float) -> Finding:
    """Pass from a bound on; below it the smaller lack is better, above it all are equal."""
    return Finding(True, 1.0) if value >= bound else Finding(False, value / max(bound, 1.0))


def within(value: float, low: float, high: float) -> Finding:
    """Pass between two bounds, both included; outside the nearer value is better."""
    distance = max(low - value, value - high, 0.0)
    return Finding(distance == 0, -distance / max(high, 1.0))


def negated(finding: Finding | None) -> Finding | None:
    """Return the opposite finding; what does not apply still does not."""
    return None if finding is None else Finding(not finding.passed, -finding.degree)


def of_response(decide: Callable[[TextView], Finding | bool | None]) -> Decide:
    """Make a check of a function of the response alone, worked out once for each text."""

    @wraps(decide)
    def check(_: TextView, response: TextView) -> Finding | None:
        found = response.once(decide)
        return yes_if(found) if isinstance(found, bool) else found

    return check


class Param(Protocol):
    """One argument of a check: how it is validated, written into a rubric, and read back."""

    def problem(self, value: object) -> str:
        """Say what is wrong with a value; empty when nothing is."""

    def render(self, value: CheckValue, noun: str) -> str:
        """Write a value as part of a rubric."""

    def pattern(self, noun: str) -> str:
        """Return a regular expression for what `render` writes, and near variants."""

    def parse(self, text: str) -> CheckValue:
        """Read a value back; ValueError if it is not one."""


_UP_TO_TWENTY = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen", "twenty",
)  # fmt: skip
NUMBER_WORDS = {word: value for value, word in enumerate(_UP_TO_TWENTY)} | {
    "thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "hundred": 100, "a hundred": 100, "one hundred": 100,
}  # fmt: skip


def plural(noun: str) -> str:
    """Return the plural of a noun as templates use them; "entry|entries" gives an irregular one."""
    return noun.partition("|")[2] or f"{noun}s"


@dataclass(frozen=True, slots=True)
class Whole:
    """A whole number of at least `low`, written in digits, with its noun in singular or plural."""

    low: int = 0

    def problem(self, value: object) -> str:
        """See `Param`."""
        if isinstance(value, bool) or not isinstance(value, int):
            return "is not a whole number"
        return "" if self.low <= value <= MAX_WHOLE else f"is not between {self.low} and {MAX_WHOLE}"

    def render(self, value: CheckValue, noun: str) -> str:
        """See `Param`."""
        if not noun:
            return str(value)
        return f"{value} {noun.partition('|')[0] if value == 1 else plural(noun)}"

    def pattern(self, noun: str) -> str:
        """See `Param`."""
        digits = rf"(\d{{1,9}}|\d{{1,3}}(?:,\d{{3}})+|{'|'.join(sorted(NUMBER_WORDS, key=len, reverse=True))})"
        return rf"{digits} (?:{re.escape(noun.partition('|')[0])}|{re.escape(plural(noun))})" if noun else digits

    def parse(self, text: str) -> CheckValue:
        """See `Param`."""
        return NUMBER_WORDS[text.lower()] if text.lower() in NUMBER_WORDS else int(text.replace(",", ""))


def _phrase_problem(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        return "is not a text"
    if len(value) > MAX_PHRASE_CHARS:
        return f"is longer than {MAX_PHRASE_CHARS} characters"
    if '"' in value or value != " ".join(value.split()):
        return 'has a double quote (") or loose white space in it'
    return ""


@dataclass(frozen=True, slots=True)
class Phrase:
    """A text of one line without double quotes, written between them. Case does not matter to any check."""

    def problem(self, value: object) -> str:
        """See `Param`."""
        return _phrase_problem(value)

    def render(self, value: CheckValue, noun: str) -> str:  # noqa: ARG002  (the protocol's shape)
        """See `Param`."""
        return f'"{value}"'

    def pattern(self, noun: str) -> str:  # noqa: ARG002  (the protocol's shape)
        """See `Param`."""
        return rf'"([^"]{{1,{MAX_PHRASE_CHARS}}})"'

    def parse(self, text: str) -> CheckValue:
        """See `Param`."""
        return text


@dataclass(frozen=True, slots=True)
class Phrases:
    """One to twenty phrases, written as a list in double quotes."""

    joint: str = "and"

    def problem(self, value: object) -> str:
        """See `Param`."""
        if not isinstance(value, tuple) or not 1 <= len(value) <= MAX_PHRASES:
            return f"is not a list of 1 to {MAX_PHRASES} texts"
        return next((f"has an entry that {problem}" for problem in map(_phrase_problem, value) if problem), "")

    def render(self, value: CheckValue, noun: str) -> str:  # noqa: ARG002  (the protocol's shape)
        """See `Param`."""
        quoted = [f'"{phrase}"' for phrase in value] if isinstance(value, tuple) else []
        return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} {self.joint} {quoted[-1]}"

    def pattern(self, noun: str) -> str:  # noqa: ARG002  (the protocol's shape)
        """See `Param`."""
        one = rf'"[^"]{{1,{MAX_PHRASE_CHARS}}}"'
        joints = "and |or |nor " if self.joint == "or" else "and "
        return rf"({one}(?:,? (?:{joints})?{one}){{0,{MAX_PHRASES - 1}}})"

    def parse(self, text: str) -> CheckValue:
        """See `Param`."""
        return tuple(text.split('"')[1::2])


@dataclass(frozen=True, slots=True)
class Choice:
    """One of a closed set of codes, each written as its label."""

    labels: Mapping[str, str]

    def problem(self, value: object) -> str:
        """See `Param`."""
        return "" if value in self.labels else f"is not one of {', '.join(sorted(self.labels))}"

    def render(self, value: CheckValue, noun: str) -> str:  # noqa: ARG002  (the protocol's shape)
        """See `Param`."""
        return self.labels[str(value)]

    def pattern(self, noun: str) -> str:  # noqa: ARG002  (the protocol's shape)
        """See `Param`."""
        return f"({'|'.join(re.escape(label) for label in sorted(self.labels.values(), key=len, reverse=True))})"

    def parse(self, text: str) -> CheckValue:
        """See `Param`."""
        return next(code for code, label in self.labels.items() if label.casefold() == text.casefold())


@dataclass(frozen=True, slots=True)
class Inverse:
    """The check that holds where this one does not: its name, and what is added to each numeric argument."""

    name: str
    shift: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckSpec:
    """One entry of the registry. `ordered` names arguments that must not decrease, such as low and high."""

    name: str
    decide: Decide
    template: str
    facet: str
    summary: str
    params: Mapping[str, Param]
    grid: tuple[Args, ...]
    inverse: Inverse | None = None
    ordered: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        fields = {name for _, name, _, _ in Formatter().parse(self.template) if name}
        if fields != set(self.params) or self.facet not in FACETS or not self.summary:
            raise ValueError(f"the check {self.name} has a template, facet or docstring that does not fit")

    def problem(self, args: Args) -> str:
        """Say in a few words what is wrong with arguments; empty when nothing is."""
        if set(args) != set(self.params):
            return f"takes {_listed(self.params)}, not {_listed(args)}"
        for name, param in self.params.items():
            if problem := param.problem(args[name]):
                return f"has an argument {name} that {problem} (got {args[name]!r})"
        values = [args[name] for name in self.ordered]
        return "" if values == sorted(values) else f"needs {' <= '.join(self.ordered)} (got {values})"

    def render(self, args: Args) -> str:
        """Write the rubric for arguments that have no problem."""
        parts = []
        for literal, name, noun, _ in Formatter().parse(self.template):
            parts.append(literal)
            if name:
                parts.append(self.params[name].render(args[name], noun or ""))
        return "".join(parts)

    def reader(self) -> tuple[re.Pattern[str], tuple[str, ...]]:
        """Return a pattern that reads a rendered rubric, without its last full stop, and the names of its groups."""
        parts, names = [], []
        for literal, name, noun, _ in Formatter().parse(self.template.rstrip(".")):
            parts.append(re.escape(literal))
            if name:
                names.append(name)
                parts.append(self.params[name].pattern(noun or ""))
        return re.compile("".join(parts), re.IGNORECASE), tuple(names)


def _listed(names: Mapping[str, object]) -> str:
    return ", ".join(sorted(names)) if names else "no arguments"


def _sentence(says: str) -> str:
    """Return a rubric of what it says of the response: "is short" or "'s code parses"."""
    return f"The response{says}." if says.startswith("'") else f"The response {says}."


def spec(
    decide: Decide,
    says: str,
    *,
    facet: str,
    inverse: Inverse | None = None,
    **params: tuple[Param, Sequence[CheckValue]],
) -> CheckSpec:
    """Describe a check by its function; name and summary are the function's name and first docstring line.

    `says` goes on after "The response". Each of `params` is an argument with its values in the grid, which is all their
    combinations.
    """
    values = [chosen for _, chosen in params.values()]
    return CheckSpec(
        name=decide.__name__,
        decide=decide,
        template=_sentence(says),
        facet=facet,
        summary=(decide.__doc__ or "").strip().split("\n")[0],
        params={name: param for name, (param, _) in params.items()},
        grid=tuple(dict(zip(params, chosen, strict=True)) for chosen in itertools.product(*values)),
        inverse=inverse,
    )


def bounds(most: Decide, least: Decide, says: str, values: Sequence[int]) -> tuple[CheckSpec, CheckSpec]:
    """Describe an upper and a lower bound `n` of one count; `says` has "at {bound}" where one says "at most"."""
    upper, lower = (says.replace("{bound}", word) for word in ("most", "least"))
    over, under = Inverse(least.__name__, {"n": 1}), Inverse(most.__name__, {"n": -1})
    return (
        spec(most, upper, facet="conciseness", inverse=over, n=(Whole(0), values)),
        spec(least, lower, facet="coverage", inverse=under, n=(Whole(1), values)),
    )


def both_ways(
    decide: Decide,
    says: str,
    opposite: str,
    opposite_says: str,
    *,
    facet: str,
    opposite_facet: str = "",
    **params: tuple[Param, Sequence[CheckValue]],
) -> tuple[CheckSpec, CheckSpec]:
    """Describe a check and its negation, which has a name and words of its own; see `spec`."""

    def decide_opposite(prompt: TextView, response: TextView, **args: CheckValue) -> Finding | None:
        return negated(decide(prompt, response, **args))

    first = spec(decide, says, facet=facet, inverse=Inverse(opposite), **params)
    return first, replace(
        first,
        name=opposite,
        decide=decide_opposite,
        template=_sentence(opposite_says),
        facet=opposite_facet or facet,
        summary=f"The opposite of {first.name}. {first.summary}",
        inverse=Inverse(first.name),
    )
