"""What a label can mean: its readings, each from a row to the response that is preferred, a tie, or nothing."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

from svr_async.adapters.columns import Two, plain_name, suffixes
from svr_async.errors import UsageError

_TIES = frozenset(
    ("tie", "tie_(bothbad)", "tie_(both_bad)", "bothbad", "both_bad", "both", "equal", "same", "neither", "draw", "c",
     "[[c]]", "a=b", "tied", "both_good")
)  # fmt: skip
_MISSING = frozenset(("", "nan", "null", "n/a", "na"))
_SIDE = re.compile(
    r"(?:\[\[)?(?:(?:response|answer|output|completion|conversation|candidate|model|assistant|option|reply|text)_?)?"
    r"([ab])(?:\]\])?|([ab])>+[ab]|(first|left)|(second|right)"
)
_NUMBERED = re.compile(
    r"(?:response|answer|output|completion|conversation|candidate|model|assistant|option|reply)_?(\d)"
)


class Verdict(StrEnum):
    """What a label says: which response is better, that none is, or that the row is to be left out."""

    A = "a"
    B = "b"
    TIE = "tie"
    SKIP = "skip"


class Labelled(NamedTuple):
    """A label with what it may point at: the two columns, their texts, and the names of who wrote them."""

    value: Any
    columns: Two
    texts: tuple[Any, Any]
    names: tuple[Any, Any]


Read = Callable[[Labelled], Verdict | None]
"""Reads one label; None where it is no label by this reading."""


@dataclass(frozen=True, slots=True)
class Reading:
    """A way to read a label column: in words, as `--labels` has it, and as a function. {a}, {b}: the two columns."""

    says: str
    flag: str
    read: Read = field(compare=False)


def is_missing(value: Any) -> bool:
    """Whether there is no label: null, NaN, an empty text, or the text of one of these."""
    if isinstance(value, float) and math.isnan(value):
        return True
    return value is None or (isinstance(value, str) and value.strip().casefold() in _MISSING)


def as_number(value: Any) -> float | None:
    """Return a finite number, also from a text; None for flags and anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def as_flag(value: Any) -> bool | None:
    """Return a flag, also from the texts true, false, yes and no."""
    if isinstance(value, bool):
        return value
    words = {"true": True, "yes": True, "false": False, "no": False}
    return words.get(value.strip().casefold()) if isinstance(value, str) else None


def shown(value: Any) -> str:
    """Return a label as `--labels` has it: 1 for 1.0 and "1", small letters, nothing around them."""
    number = as_number(value)
    if number is not None:
        return f"{number:.12g}"
    return str(value).strip().casefold()


def read_side(labelled: Labelled) -> Verdict | None:
    """Read a letter, first or second, or the name of a column; ties as data sets write them."""
    if not isinstance(labelled.value, str):
        return None
    name = plain_name(labelled.value)
    if name in labelled.columns:
        return Verdict.A if name == labelled.columns.first else Verdict.B
    if name in _TIES:
        return Verdict.TIE
    match = _SIDE.fullmatch(name)
    if match is None:
        return None
    letter, ordered, first, _ = match.groups()
    return Verdict.A if first or (letter or ordered) == "a" else Verdict.B


def _number(labelled: Labelled) -> float | None:
    """Return the number that a label is or ends with, as in model_1."""
    if isinstance(labelled.value, str) and (match := _NUMBERED.fullmatch(plain_name(labelled.value))):
        return float(match[1])
    return as_number(labelled.value)


def by_numbers(meaning: Mapping[float, Verdict]) -> Read:
    """Return the reading of whole numbers with these meanings, and of letters beside them."""

    def read(labelled: Labelled) -> Verdict | None:
        side = read_side(labelled)
        number = _number(labelled)
        return side if side is not None or number is None else meaning.get(number)

    return read


def by_threshold(middle: float, low: Verdict, high: Verdict, within: tuple[float, float]) -> Read:
    """Return the reading of numbers by the side of `middle` that they are on; a tie in the middle."""

    def read(labelled: Labelled) -> Verdict | None:
        side, number = read_side(labelled), as_number(labelled.value)
        if side is not None or number is None or not within[0] <= number <= within[1]:
            return side
        return Verdict.TIE if number == middle else low if number < middle else high

    return read


def by_flag(true: Verdict, false: Verdict) -> Read:
    """Return the reading of true and false."""

    def read(labelled: Labelled) -> Verdict | None:
        flag = as_flag(labelled.value)
        return None if flag is None else true if flag else false

    return read


def read_name(labelled: Labelled) -> Verdict | None:
    """Read the name of who wrote the better response; None where both have that name."""
    return _one_of(labelled.value, labelled.names) or _tie(labelled)


def read_text(labelled: Labelled) -> Verdict | None:
    """Read the better response itself; two that are the same are the first."""
    if isinstance(labelled.value, str) and labelled.texts[0] == labelled.texts[1] == labelled.value:
        return Verdict.A
    return _one_of(labelled.value, labelled.texts) or _tie(labelled)


def _one_of(value: Any, ends: tuple[Any, Any]) -> Verdict | None:
    plain = value.strip() if isinstance(value, str) else value
    same = [plain == (end.strip() if isinstance(end, str) else end) for end in ends]
    if same[0] == same[1]:
        return None
    return Verdict.A if same[0] else Verdict.B


def _tie(labelled: Labelled) -> Verdict | None:
    return Verdict.TIE if read_side(labelled) is Verdict.TIE else None


_A, _B, _T = Verdict.A, Verdict.B, Verdict.TIE
_ALL = (-math.inf, math.inf)
ZERO_BASED = Reading("0 is {a}, 1 is {b}", "0=a,1=b", by_numbers({0: _A, 1: _B}))
ONE_BASED = Reading("1 is {a}, 2 is {b}", "1=a,2=b", by_numbers({1: _A, 2: _B}))
NAMES = Reading("it names who wrote the better response", "names", read_name)
TEXTS = Reading("it is the better response's text", "texts", read_text)
FIRST_IS_1 = Reading("1 is {a}, 0 is {b}", "1=a,0=b", by_numbers({1: _A, 0: _B}))
LOW_IS_FIRST = Reading("below 0 is {a}, above is {b}", "<0=a,>0=b", by_threshold(0, _A, _B, _ALL))
HIGH_IS_FIRST = Reading("above 0 is {a}, below is {b}", ">0=a,<0=b", by_threshold(0, _B, _A, _ALL))
SIGNED = (LOW_IS_FIRST, HIGH_IS_FIRST)
"""Readings of numbers of which some are below 0."""

ONE_TO_TWO = Reading("below 1.5 is {a}, above is {b}", "<1.5=a,>1.5=b", by_threshold(1.5, _A, _B, (1, 2)))
OF_THE_ROW = (NAMES, TEXTS)
"""Readings that look at more than the label. With 0 or 1 and 1 or 2, those that are enough where none disagrees."""

DOUBTFUL = (
    Reading("0 is {a}, 1 is {b}, 2 is a tie", "0=a,1=b,2=tie", by_numbers({0: _A, 1: _B, 2: _T})),
    Reading("0 is a tie, 1 is {a}, 2 is {b}", "0=tie,1=a,2=b", by_numbers({0: _T, 1: _A, 2: _B})),
    ONE_TO_TWO,
    Reading("below 0.5 is {a}, above is {b}", "<0.5=a,>0.5=b", by_threshold(0.5, _A, _B, (0, 1))),
    Reading("above 0.5 is {a}, below is {b}", ">0.5=a,<0.5=b", by_threshold(0.5, _B, _A, (0, 1))),
    *SIGNED,
    Reading("true is {a}, false is {b}", "true=a,false=b", by_flag(_A, _B)),
    Reading("false is {a}, true is {b}", "false=a,true=b", by_flag(_B, _A)),
)
"""Readings that are tried where no plain one explains all rows."""


def parse_labels(text: str) -> Reading | None:
    """Read `--labels`: names, texts, or what each value says, as 1=a,2=b,0=tie or <0=a,>0=b; None for an empty text.

    `higher` and `lower` are for two columns of scores, and are no reading of a label.
    """
    word = text.strip().casefold()
    named = {"names": NAMES, "texts": TEXTS}
    if word in ("", "higher", "lower"):
        return None
    if word in named:
        return named[word]
    exact: dict[str, Verdict] = {}
    bounds: list[tuple[str, float, Verdict]] = []
    for entry in text.split(","):
        value, _, meaning = entry.strip().rpartition("=")
        bound = as_number(value[1:]) if value[:1] in ("<", ">") else None
        if not value or meaning.strip().casefold() not in set(Verdict):
            raise UsageError(
                f"--labels: {entry!r} says nothing",
                hint="write VALUE=a, =b, =tie or =skip, as 1=a,2=b,0=tie; or names, texts, higher, lower",
            )
        verdict = Verdict(meaning.strip().casefold())
        if bound is None:
            exact[shown(value)] = verdict
        else:
            bounds.append((value[0], bound, verdict))
    return Reading("as --labels says", text, _told(exact, bounds))


def _told(exact: Mapping[str, Verdict], bounds: list[tuple[str, float, Verdict]]) -> Read:
    def read(labelled: Labelled) -> Verdict | None:
        if (verdict := exact.get(shown(labelled.value))) is not None:
            return verdict
        number = as_number(labelled.value)
        if number is None or not bounds:
            return read_side(labelled) if not bounds and _tie(labelled) else None
        passed = [verdict for mark, bound, verdict in bounds if (number < bound if mark == "<" else number > bound)]
        return passed[0] if passed else Verdict.TIE if any(number == bound for _, bound, _ in bounds) else None

    return read


def by_value(two: Two) -> tuple[Reading, ...]:
    """Return how whole numbers may count these columns: response_0 and response_1 are not counted from 1."""
    return (ZERO_BASED,) if suffixes(two) == ("0", "1") else (ZERO_BASED, ONE_BASED)
