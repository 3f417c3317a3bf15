"""Defines a check: a pure function on two texts, a template that reads as a rubric, and typed arguments."""

from __future__ import annotations

import inspect
import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from string import Formatter
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, final

import msgspec

from svr_async.core.rubric import CheckValue
from svr_async.judges.rules.text import TextView

F = TypeVar("F", bound=Callable[..., Any])
Args = Mapping[str, CheckValue]
MAX_PHRASE_CHARS = 160
MAX_PHRASES = 20
MAX_WHOLE = 1_000_000_000


class Finding(NamedTuple):
    """The result of a check on one response. Of two responses, the larger `degree` satisfies the rubric better."""

    passed: bool
    degree: float


Decide = Callable[..., Finding | None]
"""A check's function: (prompt, response, **args) → a finding, or None if the rubric does not apply."""


def yes_if(condition: object) -> Finding:
    """Return a pass or a fail without degrees between."""
    return Finding(True, 1.0) if condition else Finding(False, 0.0)


def at_most(value: float, bound: float) -> Finding:
    """Pass up to a bound; above it the smaller excess is better, below it all are equal."""
    return Finding(True, 0.0) if value <= bound else Finding(False, (bound - value) / max(bound, 1.0))


def at_least(value: float, bound: float) -> Finding:
    """Pass from a bound on; below it the larger value is better, above it all are equal."""
    return Finding(True, 1.0) if value >= bound else Finding(False, value / max(bound, 1.0))


def within(value: float, low: float, high: float) -> Finding:
    """Pass between two bounds, both included; outside them the nearer value is better."""
    distance = max(low - value, value - high, 0.0)
    return Finding(distance == 0, -distance / max(high, 1.0))


_UP_TO_TWENTY = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen", "twenty",
)  # fmt: skip
NUMBER_WORDS = {word: value for value, word in enumerate(_UP_TO_TWENTY)} | {
    "thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "hundred": 100, "a hundred": 100, "one hundred": 100,
}  # fmt: skip
Phrase = Annotated[str, msgspec.Meta(max_length=MAX_PHRASE_CHARS, pattern=r'^[^\s"]+( [^\s"]+)*\Z')]
"""Words with single spaces, without double quotes."""
_QUOTED = rf'"[^"]{{1,{MAX_PHRASE_CHARS}}}"'


@dataclass(frozen=True, slots=True, kw_only=True)
class Param:
    """One argument of a check, as it is validated, written into a rubric and read back."""

    grid: tuple[CheckValue, ...]
    """The values that are proposed as rubrics."""
    kind: Any
    """The type of a valid value, as msgspec checks it."""
    render: Callable[[Any], str]
    pattern: str
    """A regular expression for what `render` writes, and for near variants."""
    parse: Callable[[str], CheckValue]


def whole(*grid: int, low: int = 1) -> Param:
    """Return an argument that is a whole number of at least `low`, written in digits."""
    kind = Annotated[int, msgspec.Meta(ge=low, le=MAX_WHOLE)]
    pattern = rf"\d{{1,9}}|\d{{1,3}}(?:,\d{{3}})+|{'|'.join(sorted(NUMBER_WORDS, key=len, reverse=True))}"
    return Param(grid=grid, kind=kind, render=str, pattern=pattern, parse=read_number)


def read_number(text: str) -> int:
    """Read a number in digits or words, such as "1,200" or "three"."""
    lowered = text.lower()
    return NUMBER_WORDS[lowered] if lowered in NUMBER_WORDS else int(text.replace(",", ""))


def phrase(*grid: str) -> Param:
    """Return an argument that is one line of text without double quotes. Letter case does not matter to any check."""
    return Param(grid=grid, kind=Phrase, render='"{}"'.format, pattern=_QUOTED, parse=lambda text: text[1:-1])


def phrases(*grid: str, joint: str = "and") -> Param:
    """Return an argument of one to twenty phrases; the grid has one phrase each."""

    def render(value: tuple[str, ...]) -> str:
        *first, last = (f'"{text}"' for text in value)
        return f"{', '.join(first)} {joint} {last}" if first else last

    return Param(
        grid=tuple((text,) for text in grid),
        kind=Annotated[tuple[Phrase, ...], msgspec.Meta(min_length=1, max_length=MAX_PHRASES)],
        render=render,
        pattern=rf"{_QUOTED}(?:,? (?:and |or |nor )?{_QUOTED}){{0,{MAX_PHRASES - 1}}}",
        parse=lambda text: tuple(text.split('"')[1::2]),
    )


def choice(labels: Mapping[str, str]) -> Param:
    """Return an argument that is one of some codes, each written as its label."""
    codes = {label.casefold(): code for code, label in labels.items()}
    return Param(
        grid=tuple(labels),
        kind=Literal[tuple(labels)],
        render=labels.__getitem__,
        pattern="|".join(re.escape(label) for label in sorted(codes, key=len, reverse=True)),
        parse=lambda text: codes[text.casefold()],
    )


@dataclass(frozen=True, kw_only=True)
class CheckSpec:
    """One entry of the registry. A field of the template may name the noun after a number: "{n:word}"."""

    name: str
    decide: Decide
    template: str
    facet: str
    params: Mapping[str, Param] = field(default_factory=dict)
    grid: Sequence[Args] = ({},)
    inverse: str = ""
    """The check that passes exactly where this one fails; may be empty."""
    shift: int = 0
    """Added to the argument `n` for the inverse: at most 50 becomes at least 51."""

    def problem(self, args: Args) -> str:
        """Return the problem with arguments in a few words; empty if they are valid."""
        if set(args) != set(self.params):
            takes, got = (", ".join(sorted(names)) or "no arguments" for names in (self.params, args))
            return f"takes {takes}, not {got}"
        for name, param in self.params.items():
            try:
                msgspec.convert(args[name], param.kind)
            except msgspec.ValidationError as error:
                return f"has a wrong argument {name}: {error} (got {args[name]!r})"
        low, high = args.get("low"), args.get("high")
        if isinstance(low, int) and isinstance(high, int) and low > high:
            return f"needs low <= high (got {low} and {high})"
        return ""

    def render(self, args: Args) -> str:
        """Write the rubric for valid arguments."""
        text = ""
        for literal, name, noun, _ in Formatter().parse(self.template):
            text += literal
            if name:
                text += self.params[name].render(args[name])
                text += f" {noun}{'' if args[name] == 1 else 's'}" if noun else ""
        return text

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """A pattern for a rendered rubric without its last full stop, with a group for each argument."""
        text = ""
        for literal, name, noun, _ in Formatter().parse(self.template.rstrip(".")):
            text += re.escape(literal)
            if name:
                text += f"(?P<{name}>{self.params[name].pattern})" + (f" {noun}s?" if noun else "")
        return re.compile(text, re.IGNORECASE)


Holds = Callable[[TextView], object]
Simple = tuple[str, str, Holds] | tuple[str, str, Holds, tuple[str, str]]
"""The name of a check, its words, its condition, and perhaps the name and words of the negated check."""


@final
class CheckTable(list[CheckSpec]):
    """The checks of one module. The words of a check, `says`, continue "The response"."""

    def add(
        self,
        says: str,
        facet: str,
        *,
        opposite: tuple[str, str] | None = None,
        grid: Sequence[Args] | None = None,
        **params: Param,
    ) -> Callable[[F], F]:
        """Register the decorated function as a check under its name.

        The function takes (prompt, response, **args) or, if the prompt does not matter, (response, **args). It returns
        a boolean, a finding, or None if the rubric does not apply. `says` has a field for each argument. `opposite` is
        the name and words of the negated check. The grid is all combinations of the arguments' grids if not set.
        """
        values = itertools.product(*(param.grid for param in params.values()))
        all_args = grid or [dict(zip(params, chosen, strict=True)) for chosen in values]

        def register(decide: F) -> F:
            self._append(decide.__name__, _with_findings(decide), says, facet, opposite, params=params, grid=all_args)
            return decide

        return register

    def simple(self, facet: str, *checks: Simple) -> None:
        """Register yes-or-no checks of the response alone."""
        for name, says, holds, *opposite in checks:
            self._append(name, _yes_or_no(holds), says, facet, *opposite)

    def bounds(
        self,
        unit: str,
        number: Callable[[TextView], float | None],
        says: str,
        grid: Sequence[int],
        kinds: Sequence[str] = ("max", "min"),
        facet: str = "",
    ) -> None:
        """Register bounds of a number as the checks max_UNIT, min_UNIT and exact_UNIT, as far as `kinds` has them.

        The number is None if the rubric does not apply. `says` has {bound} in place of "at most" and a field for n.
        """
        for kind in kinds:
            kind_facet, bound, low, inverse, shift, decide = _KINDS[kind]
            self._append(
                f"{kind}_{unit}",
                _counted(number, decide),
                says.replace("{bound}", bound),
                facet or kind_facet,
                params={"n": whole(*grid, low=low)},
                grid=[{"n": n} for n in grid],
                inverse=f"{inverse}_{unit}" if inverse in kinds else "",
                shift=shift,
            )

    def _append(
        self, name: str, decide: Decide, says: str, facet: str, opposite: tuple[str, str] | None = None, **rest: Any
    ) -> None:
        template = f"The response{says}." if says.startswith("'") else f"The response {says}."
        inverse = {"inverse": opposite[0]} if opposite else {}
        self.append(CheckSpec(name=name, decide=decide, template=template, facet=facet, **rest | inverse))
        if opposite:
            self._append(opposite[0], _negated(decide), opposite[1], facet, **rest, inverse=name)


_KINDS: Mapping[str, tuple[str, str, int, str, int, Callable[[float, float], Finding]]] = {
    "max": ("conciseness", "at most", 0, "min", 1, at_most),
    "min": ("coverage", "at least", 1, "max", -1, at_least),
    "exact": ("format", "exactly", 1, "", 0, lambda value, n: within(value, n, n)),
}


def _yes_or_no(holds: Holds) -> Decide:
    return lambda _, response: yes_if(response.once(holds))


def _with_findings(decide: Callable[..., Any]) -> Decide:
    """Return a check's function with the arguments (prompt, response, **args) and a finding as result."""
    names = list(inspect.signature(decide).parameters)

    def check(prompt: TextView, response: TextView, **args: CheckValue) -> Finding | None:
        if names[0] == "prompt":
            found = decide(prompt, response, **args)
        else:
            found = decide(response, **args) if args else response.once(decide)
        return yes_if(found) if isinstance(found, bool) else found

    return check


def _negated(decide: Decide) -> Decide:
    def check(prompt: TextView, response: TextView, **args: CheckValue) -> Finding | None:
        found = decide(prompt, response, **args)
        return None if found is None else Finding(not found.passed, -found.degree)

    return check


def _counted(number: Callable[[TextView], float | None], decide: Callable[[float, float], Finding]) -> Decide:
    def check(_: TextView, response: TextView, *, n: int) -> Finding | None:
        value = response.once(number)
        return None if value is None else decide(value, n)

    return check
