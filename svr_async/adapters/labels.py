"""Reads labels: what the values of a column say about two responses."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

from svr_async.adapters.columns import LOWER, SIGNED_LABELS, Layout, Two, plain_name, suffixes
from svr_async.adapters.fields import Fields
from svr_async.errors import DataError, UsageError

_TIES = frozenset(
    ("tie", "tie_(bothbad)", "tie_(both_bad)", "bothbad", "both_bad", "both", "equal", "same", "neither", "draw", "c",
     "[[c]]", "a=b", "tied", "both_good")
)  # fmt: skip
_MISSING = frozenset(("", "nan", "null", "n/a", "na", "none"))
_NOUNS = "response|answer|output|completion|conversation|candidate|model|assistant|option|reply|text"
_SIDE = re.compile(rf"(?:\[\[)?(?:(?:{_NOUNS})_?)?([ab])(?:\]\])?|([ab])>+[ab]|(first|left)|(second|right)")
_NUMBERED = re.compile(rf"(?:{_NOUNS})_?(\d)")
_SHOWN_VALUES, _SHOWN_CHARS = 6, 60


class Verdict(StrEnum):
    """What a label says: which response is better, a tie, or that the row is left out."""

    A = "a"
    B = "b"
    TIE = "tie"
    SKIP = "skip"


class Label(NamedTuple):
    """A label with what it may refer to: the two columns, their texts, and the names of the models."""

    value: Any
    columns: Two
    texts: tuple[Any, Any]
    models: tuple[Any, Any]


@dataclass(frozen=True, slots=True)
class Reading:
    """A way to read a label: in words ({a}, {b}: the two columns), and as a function."""

    says: str
    read: Callable[[Label], Verdict | None] = field(compare=False)

    def words(self, two: Two) -> str:
        """Return the reading with the names of the columns."""
        return self.says.format(a=two.first, b=two.second)


def label_of(fields: Fields, layout: Layout) -> Label:
    """Return a row's label with what it may refer to."""
    get = fields.row.values.get
    models = layout.models or ("", "")
    texts = (get(layout.two.first), get(layout.two.second))
    return Label(fields.value(layout.label), layout.two, texts, (get(models[0]), get(models[1])))


def is_missing(value: Any) -> bool:
    """Whether there is no label: null, NaN, an empty text, or a text such as "null"."""
    if isinstance(value, float) and math.isnan(value):
        return True
    return value is None or (isinstance(value, str) and value.strip().casefold() in _MISSING)


def as_number(value: Any) -> float | None:
    """Return a finite number, also from a text; None for true, false and anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _shown(value: Any) -> str:
    """Return a value as --label-map names it: 1 for 1.0 and "1", in lower case."""
    number = as_number(value)
    return f"{number:.12g}" if number is not None else str(value).strip().casefold()


def _side(label: Label) -> Verdict | None:
    """Read a letter, first or second, or a column's name; and ties as data sets write them."""
    name = plain_name(label.value) if isinstance(label.value, str) else ""
    if name in label.columns:
        return Verdict.A if name == label.columns.first else Verdict.B
    if name in _TIES:
        return Verdict.TIE
    match = _SIDE.fullmatch(name)
    if match is None:
        return None
    letter, ordered, first, _ = match.groups()
    return Verdict.A if first or (letter or ordered) == "a" else Verdict.B


def _number(label: Label) -> float | None:
    """Return the number that a label is or ends with, as in model_1."""
    match = _NUMBERED.fullmatch(plain_name(label.value)) if isinstance(label.value, str) else None
    return float(match[1]) if match else as_number(label.value)


def _one_of(ends: Callable[[Label], tuple[Any, Any]]) -> Callable[[Label], Verdict | None]:
    """Read a label that equals one of two values of its row; if both are equal, the first text and no model."""

    def read(label: Label) -> Verdict | None:
        same = [end is not None and str(end).strip() == str(label.value).strip() for end in ends(label)]
        if same[0] != same[1]:
            return Verdict.A if same[0] else Verdict.B
        if same[0]:
            return Verdict.A if ends(label) == label.texts else None
        return Verdict.TIE if _side(label) is Verdict.TIE else None

    return read


def parse_label_map(text: str) -> Reading:
    """Read --label-map: the meaning of each value, as 1=a,2=b,0=tie or <0=a,>0=b; other values may be sides."""
    exact: dict[str, Verdict] = {}
    bounds: list[tuple[str, float, Verdict]] = []
    for entry in text.split(","):
        value, _, meaning = (part.strip() for part in entry.rpartition("="))
        bound = as_number(value[1:]) if value[:1] in ("<", ">") else None
        if not value or meaning.casefold() not in set(Verdict):
            hint = "write VALUE=a, =b, =tie or =skip, as 1=a,2=b,0=tie; or higher, lower for scores"
            raise UsageError(f"--label-map: {entry!r} is not VALUE=MEANING", hint=hint)
        verdict = Verdict(meaning.casefold())
        if bound is None:
            exact[_shown(value)] = verdict
        else:
            bounds.append((value[0], bound, verdict))

    def read(label: Label) -> Verdict | None:
        shown, number = _shown(label.value), _number(label)
        if shown in exact or number is None:
            return exact.get(shown, _side(label))
        passed = [verdict for mark, bound, verdict in bounds if (number < bound if mark == "<" else number > bound)]
        middle = Verdict.TIE if any(number == bound for _, bound, _ in bounds) else exact.get(_shown(number))
        return passed[0] if passed else middle

    words = {Verdict.A: "{a} is better", Verdict.B: "{b} is better", Verdict.TIE: "tie", Verdict.SKIP: "left out"}
    entries = [*exact.items()] + [
        (f"{'below' if mark == '<' else 'above'} {bound:g}", verdict) for mark, bound, verdict in bounds
    ]
    return Reading(", ".join(f"{_plain(value)} = {words[verdict]}" for value, verdict in entries), read)


def _plain(text: str) -> str:
    """Return a text for a format string."""
    return text.replace("{", "{{").replace("}", "}}")


SIDES = Reading("A or the first = {a} is better, B or the second = {b} is better", _side)
MODELS = Reading("the name of the model whose response is better", _one_of(lambda label: label.models))
TEXTS = Reading("the text of the better response", _one_of(lambda label: label.texts))
ZERO_BASED, ONE_BASED = parse_label_map("0=a,1=b"), parse_label_map("1=a,2=b")
ONE_IS_FIRST, SIGNED = parse_label_map("1=a,0=b"), parse_label_map("<0=a,>0=b")
ONE_TO_TWO = parse_label_map("<1.5=a,>1.5=b")
_SHP = Two("human_ref_a", "human_ref_b")


def settle(layout: Layout, labels: Sequence[Label]) -> Reading:
    """Return how a label column is read, by its name and all of its values; DataError if that is ambiguous."""
    two, column = layout.two, layout.label
    if column in SIGNED_LABELS:
        return SIGNED
    if column == "labels" and two == _SHP:
        return ONE_IS_FIRST  # as its publisher says
    labels = [label for label in labels if _side(label) is not Verdict.TIE]
    numbers = Counter(number for label in labels if (number := _number(label)) is not None)
    if numbers and numbers.total() * 2 >= len(labels):
        return _settle_numbers(two, numbers) or _refuse(layout, labels)
    readings = (MODELS, SIDES, TEXTS) if layout.models else (SIDES, TEXTS)
    fits = {one.says: sum(one.read(label) is not None for label in labels) for one in readings}
    best = max(readings, key=lambda one: fits[one.says])
    return best if fits[best.says] * 2 >= len(labels) else _refuse(layout, labels)


def _settle_numbers(two: Two, numbers: Counter[float]) -> Reading | None:
    """Return the reading of a column of numbers; None if it may have two. Up to a tenth of the rows may be typos."""
    present = {number for number in numbers if number in (0, 1, 2)}
    if sum(numbers[number] for number in present) < numbers.total() - max(1, numbers.total() // 10):
        return ONE_TO_TWO if all(1 <= number <= 2 for number in numbers) else None
    if present == {1}:
        return {("1", "2"): ONE_BASED, ("0", "1"): ZERO_BASED}.get(suffixes(two))
    if present <= {0, 1}:
        return ZERO_BASED
    return ONE_BASED if present <= {1, 2} else None


def _refuse(layout: Layout, labels: Sequence[Label]) -> Reading:
    values = sorted({_shown(label.value) for label in labels})
    numbers = sorted(number for value in values if (number := as_number(value)) is not None)
    maps: tuple[str, ...] = ("VALUE=a,VALUE=b,VALUE=tie",)
    if set(numbers) == {1} or set(numbers) == {0, 1, 2}:
        maps = ("0=a,1=b", "1=a,2=b") if len(numbers) == 1 else ("0=a,1=b,2=tie", "0=tie,1=a,2=b")
    elif len(values) == 2 and not any(0 < abs(number) < 1 or number < 0 for number in numbers):
        maps = (f"{values[0]}=a,{values[1]}=b", f"{values[0]}=b,{values[1]}=a")
    elif len(numbers) == len(values):
        middle = 0 if numbers[0] < 0 else 0.5 if numbers[-1] <= 1 else (numbers[0] + numbers[-1]) / 2
        maps = (f"<{middle:g}=a,>{middle:g}=b", f">{middle:g}=a,<{middle:g}=b")
    raise DataError(
        f"column {layout.label!r} ({shown_values(labels)}) does not say which of {' and '.join(layout.two)} is better",
        hint="say it: " + " or ".join(f"--label-map '{one}'" for one in maps),
    )


def shown_values(labels: Sequence[Label]) -> str:
    """Return the most common values as the file has them, with counts."""
    values = Counter(str(label.value).strip() for label in labels)
    common = [
        f"{v if len(v) <= _SHOWN_CHARS else v[:_SHOWN_CHARS] + '…'} ×{n}" for v, n in values.most_common(_SHOWN_VALUES)
    ]
    return ", ".join(common) + (f" and {len(values) - len(common)} more" if len(values) > len(common) else "")


def by_scores(fields: Fields, scores: Two, *, lower: bool | None = None) -> Verdict:
    """Compare two scores; the higher is better unless the columns are ranks or `lower` is true."""
    first, second = (as_number(fields.value(column)) for column in scores)
    if first is None or second is None:
        column = scores.first if first is None else scores.second
        raise fields.unfit(column, "a number", fields.value(column))
    if first == second:
        return Verdict.TIE
    return Verdict.A if (first < second) is (is_lower_better(scores) if lower is None else lower) else Verdict.B


def is_lower_better(scores: Two) -> bool:
    """Whether the columns of scores are ranks, by their name."""
    return scores.first.startswith(LOWER) or scores.first.endswith(LOWER)
