"""Finds two responses and their label by column names, and reads labels by all of their values."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from typing import Any, NamedTuple

from svr_async.adapters.fields import Fields
from svr_async.adapters.tables import Row
from svr_async.errors import DataError, UsageError

ID_COLUMNS = ("id", "pair_id", "case_id", "uid", "question_id", "prompt_id", "idx")
_LABEL_COLUMNS = (
    "label", "labels", "winner", "chosen_candidate", "preference", "preferred", "preferred_response", "better",
    "better_response", "better_response_id", "best", "choice", "verdict", "gold", "gold_label", "human_label",
    "selected", "chosen", "preference_strength", "overall_preference",
)  # fmt: skip
_SIGNED_LABELS = ("preference_strength", "overall_preference")  # HelpSteer: below 0 the first response is better
_CHOSEN_PAIRS = (
    ("chosen", "rejected"), ("chosen", "reject"), ("chosen_response", "rejected_response"),
    ("response_chosen", "response_rejected"), ("preferred", "rejected"), ("preferred", "dispreferred"),
    ("preferred", "non_preferred"), ("preferred_output", "non_preferred_output"), ("accepted", "rejected"),
)  # fmt: skip
LIST_COLUMNS = ("responses", "completions", "answers", "outputs", "candidates")
RUBRIC_COLUMNS = ("rubrics", "reference_rubrics")
LISTED_SCORES = ("fine_grained_score", "fine-grained_score", "score", "rating", "reward", "overall_score")
TEXTS = ("response", "answer", "completion", "output", "text", "content")
_SCORES, _RANKS, _MODELS = ("score", "rating", "reward"), ("rank", "ranking"), ("model", "generator", "model_name")
_STEMS = (
    "response", "answer", "output", "completion", "conversation", "candidate", "reply", "generation", "text",
    "summary", "human_ref",
)  # fmt: skip
_SUFFIXES = (("a", "b"), ("1", "2"), ("0", "1"))
_FURTHER = {"a": "cd", "1": "034", "0": "23"}
_TIES = frozenset(
    ("tie", "tie_(bothbad)", "tie_(both_bad)", "bothbad", "both_bad", "both", "equal", "same", "neither", "draw", "c",
     "[[c]]", "a=b", "tied", "both_good")
)  # fmt: skip
_MISSING = frozenset(("", "nan", "null", "n/a", "na", "none"))
_NOUNS = "response|answer|output|completion|conversation|candidate|model|assistant|option|reply|text"
_SIDE = re.compile(rf"(?:\[\[)?(?:(?:{_NOUNS})_?)?([ab])(?:\]\])?|([ab])>+[ab]|(first|left)|(second|right)")
_NUMBERED = re.compile(rf"(?:{_NOUNS})_?(\d)")
_SHOWN_VALUES, _SHOWN_CHARS = 6, 60
A, B, TIE, SKIP, CHOSEN = "a", "b", "tie", "skip", "chosen"  # what a row says; CHOSEN: the first column is better


class Two(NamedTuple):
    """Two columns of one kind: for the first and for the second response."""

    first: str
    second: str

    @property
    def suffixes(self) -> Two:
        """How the names differ: "a" and "b"; "chosen" and "rejected"."""
        stem, mark, end = self.first.rpartition("_")
        if mark and self.second.startswith(stem + mark):
            return Two(end, self.second.removeprefix(stem + mark))
        return Two(self.first[-1], self.second[-1]) if self.first[:-1] == self.second[:-1] else self

    def companions(self, stems: Iterable[str], names: Collection[str]) -> Two | None:
        """Return the columns with something of each response, as score_a and score_b for response_a and response_b."""
        a, b = self.suffixes
        for stem in stems:
            forms = ((f"{stem}_{a}", f"{stem}_{b}"), (f"{stem}{a}", f"{stem}{b}"), (f"{a}_{stem}", f"{b}_{stem}"),
                     (f"{self.first}_{stem}", f"{self.second}_{stem}"))  # fmt: skip
            for form in forms:
                if set(form) <= set(names):
                    return Two(*form)
        return None


RESPONSES = Two("response_a", "response_b")


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The columns of the two responses, and those that say which is better: a `label`, or two `scores`.

    Without either, the first column holds the preferred response. `models` are the columns that name the models.
    """

    two: Two
    label: str = ""
    scores: Two | None = None
    models: Two | None = None


def plain_name(name: str) -> str:
    """Return a column's name in lower case with `_` between words: "Response A" is response_a."""
    return re.sub(r"[\s\-.]+", "_", str(name).strip().casefold())


@lru_cache(maxsize=1024)
def _plain_names(names: tuple[str, ...]) -> Mapping[str, str]:
    """Return each column's plain name; its own name if two columns would share a plain one."""
    plain = [plain_name(name) for name in names]
    return {name: one if plain.count(one) == 1 else name for name, one in zip(names, plain, strict=True)}


def with_plain_names(row: Row) -> Row:
    """Return a row whose columns have plain names."""
    names = _plain_names(tuple(row.values))
    return replace(row, values={names[name]: value for name, value in row.values.items()})


def parse_columns(text: str, known: Collection[str]) -> dict[str, str]:
    """Read `--columns prompt=question,id=key`: the file's column for each name of a schema."""
    found: dict[str, str] = {}
    for entry in filter(None, text.split(",")):
        name, _, column = (part.strip() for part in entry.partition("="))
        if name not in known or not column:
            hint = f"write NAME=COLUMN, with NAME one of {', '.join(known)}"
            raise UsageError(f"--columns: {entry!r} does not name a column", hint=hint)
        found[name] = column
    return found


def renamed(row: Row, columns: Mapping[str, str]) -> Row:
    """Return a row with the columns of `--columns` under the schema's names, which they take over."""
    if row.problem or not columns:
        return row
    meant = {plain: name for name, plain in _plain_names(tuple(row.values)).items()} | {n: n for n in row.values}
    for column in columns.values():
        if column not in meant:
            found = ", ".join(map(str, row.values)) or "none"
            raise DataError(f"{row.where}: --columns names {column!r}; columns found: {found}", hint="correct the name")
    taken = {name: meant[column] for name, column in columns.items()}
    kept = {name: v for name, v in row.values.items() if name not in taken and name not in taken.values()}
    return replace(row, values=kept | {name: row.values[column] for name, column in taken.items()})


@lru_cache(maxsize=1024)
def layout_of(names: tuple[str, ...], named: frozenset[str] = frozenset()) -> Layout | None:
    """Return which columns hold the parts of a pair, or None; `named` are the parts that --columns names.

    DataError if several columns may be the label, or there are more than two responses.
    """
    chosen = next((Two(*two) for two in _CHOSEN_PAIRS if set(two) <= set(names)), None)
    if chosen and {"chosen", "rejected"} & named:
        return Layout(two=chosen)
    for two in [RESPONSES] if named >= set(RESPONSES) else _numbered(names):
        if set(two) <= set(names) and (found := _labelled(two, names, named, chosen)):
            return found
    return Layout(two=chosen) if chosen else None


def _numbered(names: Collection[str]) -> list[Two]:
    """Return the columns of two responses that differ by a letter or number, as response_a and response_b."""
    stems = product(_STEMS, _SUFFIXES, ("_", ""))
    pairs = [Two(f"{stem}{mark}{a}", f"{stem}{mark}{b}") for stem, (a, b), mark in stems]
    return [two for two in pairs if set(two) <= set(names)]


def responses_of(names: tuple[str, ...]) -> Two | None:
    """Return the columns of two responses, labelled or not: as response_a and response_b, else chosen and rejected."""
    plain = [Two("a", "b"), *map(Two._make, _CHOSEN_PAIRS)]
    return next((two for two in (*_numbered(names), *plain) if set(two) <= set(names)), None)


def _labelled(two: Two, names: Collection[str], named: frozenset[str], chosen: Two | None) -> Layout | None:
    """Return the layout of two responses with their label or scores; None without either."""
    names = [name for name in names if name not in (chosen or ())]
    labels = ["label"] if "label" in named else [name for name in _LABEL_COLUMNS if name in names and name not in two]
    labels = [name for name in labels if name not in _SIGNED_LABELS] or labels  # the others may be only how strong
    if chosen and not labels:
        labels = [chosen.first]  # "chosen" with two response columns names one of them, by letter or text
    if len(labels) > 1:
        listed = ", ".join(labels)
        raise DataError(f"several columns may be the label: {listed}", hint=f"choose one: --columns label={labels[0]}")
    a, b = two.suffixes
    stem = two.first.removesuffix(a)
    more = [stem + end for end in _FURTHER.get(a, "") if end != b and stem + end in names]
    if more and not named >= set(RESPONSES):
        hint = f"choose two: --columns response_a={two.first},response_b={two.second}"
        raise DataError(f"more than two responses: {', '.join((*two, *more))}", hint=hint)
    if labels:
        return Layout(two=two, label=labels[0], models=two.companions(_MODELS, names))
    scores = two.companions((*_SCORES, *_RANKS), names)
    return Layout(two=two, scores=scores) if scores else None


@dataclass(frozen=True, slots=True)
class Reading:
    """How rows of a layout are read: in words, and as a function that returns A, B, TIE, SKIP, or None if it cannot."""

    says: str
    read: Callable[[Fields], str | None]


def reading_of(layout: Layout, rows: Sequence[Fields], label_map: str) -> Reading:
    """Return how rows of a layout say which response is better; DataError for a label that may mean two things.

    `label_map` is --label-map. The function raises RowError for a value without a meaning.
    """
    lower = lower_is_better(label_map)
    if layout.scores:
        less = layout.scores.first.startswith(_RANKS) or layout.scores.first.endswith(_RANKS)
        return _by_scores(layout.scores, lower=less if lower is None else lower)
    if not layout.label:
        return Reading(f"{layout.two.first} is better than {layout.two.second}", lambda _: CHOSEN)
    known = [fields for fields in rows if not is_missing(fields.value(layout.label))]
    rule = _read_labels(layout, known) if not label_map or lower is not None else parse_label_map(label_map, layout)

    def read(fields: Fields) -> str:
        value = fields.value(layout.label)
        if is_missing(value):
            raise fields.unfit(layout.label, "a label", value)
        if (verdict := rule.read(fields)) is None:
            error = fields.unfit(layout.label, f"a label ({rule.says}) or tie", value)
            error.hint = "fix the row, give all meanings with --label-map, or skip such rows with --lenient"
            raise error
        return verdict

    return Reading(f"{layout.label}: {rule.says} ({_shown_values(layout, known)})", read)


def lower_is_better(label_map: str) -> bool | None:
    """Return what --label-map says about scores: lower is True, higher False, anything else None."""
    return {"lower": True, "higher": False}.get(label_map.strip().casefold())


def _by_scores(columns: Two, *, lower: bool) -> Reading:
    def read(fields: Fields) -> str:
        numbers = [as_number(fields.value(column)) for column in columns]
        for column, number in zip(columns, numbers, strict=True):
            if number is None:
                raise fields.unfit(column, "a number", fields.value(column))
        first, second = (number or 0.0 for number in numbers)
        return TIE if first == second else A if (first < second) is lower else B

    return Reading(f"{' and '.join(columns)}: the {'lower' if lower else 'higher'} is better", read)


def is_missing(value: Any) -> bool:
    """Whether a label is missing: null, NaN, an empty text, or a text such as "null"."""
    return value is None or str(value).strip().casefold() in _MISSING


def as_number(value: Any) -> float | None:
    """Return a finite number, also from a text; None for true, false and anything else."""
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _shown(value: Any) -> str:
    """Return a value as --label-map names it: 1 for 1.0 and "1", in lower case."""
    number = as_number(value)
    return f"{number:.12g}" if number is not None else str(value).strip().casefold()


def _side(value: Any, two: Two) -> str | None:
    """Read a letter, first or second, or a column's name; and ties as data sets write them."""
    name = plain_name(value) if isinstance(value, str) else ""
    if name in two:
        return A if name == two.first else B
    if name in _TIES:
        return TIE
    match = _SIDE.fullmatch(name)
    return None if match is None else A if match[3] or (match[1] or match[2]) == "a" else B


def _number(value: Any) -> float | None:
    """Return the number that a label is or ends with, as in model_1."""
    match = _NUMBERED.fullmatch(plain_name(value)) if isinstance(value, str) else None
    return float(match[1]) if match else as_number(value)


def _equal_to(ends: Two, layout: Layout, says: str) -> Reading:
    """Return the reading of a label that equals the value of one of two other columns."""

    def read(fields: Fields) -> str | None:
        label, *values = (fields.row.values.get(column) for column in (layout.label, *ends))
        same = [value is not None and str(value).strip() == str(label).strip() for value in values]
        if any(same):  # two identical responses may be the label, but no two models
            return None if all(same) and ends != layout.two else A if same[0] else B
        return TIE if _side(label, layout.two) == TIE else None

    return Reading(says, read)


def parse_label_map(text: str, layout: Layout) -> Reading:
    """Read --label-map: the meaning of each value, as 1=a,2=b,0=tie or <0=a,>0=b; other values may be sides."""
    words = {A: f"{layout.two.first} is better", B: f"{layout.two.second} is better", TIE: "tie", SKIP: "left out"}
    exact: dict[str, str] = {}
    bounds: list[tuple[str, float, str]] = []
    says = []
    for entry in text.split(","):
        value, _, meaning = (part.strip() for part in entry.casefold().rpartition("="))
        bound = as_number(value[1:]) if value[:1] in ("<", ">") else None
        if not value or meaning not in words:
            hint = "write VALUE=a, =b, =tie or =skip, as 1=a,2=b,0=tie; or higher, lower for scores"
            raise UsageError(f"--label-map: {entry!r} is not VALUE=MEANING", hint=hint)
        if bound is None:
            exact[_shown(value)] = meaning
            says.append(f"{_shown(value)} = {words[meaning]}")
        else:
            bounds.append((value[0], bound, meaning))
            says.append(f"{'below' if value[0] == '<' else 'above'} {bound:g} = {words[meaning]}")

    def read(fields: Fields) -> str | None:
        value = fields.value(layout.label)
        shown, number = _shown(value), _number(value)
        if shown in exact or number is None:
            return exact.get(shown, _side(value, layout.two))
        passed = [meaning for mark, bound, meaning in bounds if (number < bound if mark == "<" else number > bound)]
        middle = TIE if any(number == bound for _, bound, _ in bounds) else exact.get(_shown(number))
        return passed[0] if passed else middle

    return Reading(", ".join(says), read)


def _read_labels(layout: Layout, rows: Sequence[Fields]) -> Reading:
    """Return how a label column is read, by its name and all of its values; DataError if that is ambiguous."""
    if layout.label in _SIGNED_LABELS:
        return parse_label_map("<0=a,>0=b", layout)
    if layout.label == "labels" and layout.two.first == "human_ref_a":
        return parse_label_map("1=a,0=b", layout)  # SHP, as its publisher says
    rows = [fields for fields in rows if _side(fields.value(layout.label), layout.two) != TIE]
    numbers = Counter(number for fields in rows if (number := _number(fields.value(layout.label))) is not None)
    if numbers and numbers.total() * 2 >= len(rows):
        meaning = _meaning_of(numbers, layout.two)
        return parse_label_map(meaning, layout) if meaning else _refuse(layout, rows)
    a, b = layout.two
    letters = Reading(f"A or the first = {a} is better, B or the second = {b} is better",
                      lambda fields: _side(fields.value(layout.label), layout.two))  # fmt: skip
    readings = [letters, _equal_to(layout.two, layout, "the text of the better response")]
    if layout.models:
        readings.insert(0, _equal_to(layout.models, layout, "the name of the model whose response is better"))
    fits = [sum(one.read(fields) is not None for fields in rows) for one in readings]
    return readings[fits.index(max(fits))] if max(fits) * 2 >= len(rows) else _refuse(layout, rows)


def _meaning_of(numbers: Counter[float], two: Two) -> str:
    """Return the label map of a column of numbers; empty if it may have two. Up to a tenth of rows may be typos."""
    present = numbers.keys() & {0, 1, 2}
    if sum(numbers[number] for number in present) < numbers.total() - max(1, numbers.total() // 10):
        return "<1.5=a,>1.5=b" if all(1 <= number <= 2 for number in numbers) else ""
    if present == {1}:
        return {("1", "2"): "1=a,2=b", ("0", "1"): "0=a,1=b"}.get(two.suffixes, "")
    return "0=a,1=b" if present <= {0, 1} else "1=a,2=b" if present <= {1, 2} else ""


def _refuse(layout: Layout, rows: Sequence[Fields]) -> Reading:
    values = sorted({_shown(fields.value(layout.label)) for fields in rows})
    numbers = sorted(number for value in values if (number := as_number(value)) is not None)
    maps: tuple[str, ...] = ("VALUE=a,VALUE=b,VALUE=tie",)
    if numbers in ([1], [0, 1, 2]):
        maps = ("0=a,1=b", "1=a,2=b", "0=tie,1=a,2=b")
    elif len(values) == 2 and all(number >= 0 and number.is_integer() for number in numbers):
        maps = (f"{values[0]}=a,{values[1]}=b", f"{values[0]}=b,{values[1]}=a")
    elif len(numbers) == len(values):
        middle = 0 if numbers[0] < 0 else (numbers[0] + numbers[-1]) / 2 if numbers[-1] > 1 else 0.5
        maps = (f"<{middle:g}=a,>{middle:g}=b", f">{middle:g}=a,<{middle:g}=b")
    raise DataError(
        f"column {layout.label!r} ({_shown_values(layout, rows)}) does not say which of {' and '.join(layout.two)} "
        "is better",
        hint="say it: " + " or ".join(f"--label-map '{one}'" for one in maps),
    )


def _shown_values(layout: Layout, rows: Sequence[Fields]) -> str:
    """Return the most common values as the file has them, with counts."""
    values = Counter(str(fields.value(layout.label)).strip() for fields in rows)
    more = f" and {len(values) - _SHOWN_VALUES} more" if len(values) > _SHOWN_VALUES else ""
    common = values.most_common(_SHOWN_VALUES)
    return ", ".join(f"{v if len(v) <= _SHOWN_CHARS else v[:_SHOWN_CHARS] + '…'} ×{n}" for v, n in common) + more


def scored_responses(fields: Fields) -> tuple[list[tuple[float, str]], bool]:
    """Return (number, text) of each listed response, and whether the numbers are ranks, of which less is better.

    Empty if a row lists no responses with numbers, inside them or in another column. RowError for a missing number.
    """
    column = fields.first(LIST_COLUMNS)
    listed = fields.row.values.get(column)
    if not isinstance(listed, list) or not listed:
        return [], False
    if isinstance(listed[0], Mapping):
        key, name = text_key(listed[0]), next((one for one in (*LISTED_SCORES, *_RANKS) if one in listed[0]), "")
        objects = [one if isinstance(one, Mapping) else {} for one in listed]
        values: Any = [one.get(name) for one in objects]
        texts: list[Any] = [one.get(key) for one in objects]
    else:
        name = fields.first([f"{one}s" for one in (*LISTED_SCORES, *_RANKS)])
        texts, values = listed, fields.row.values.get(name)
    if not name or not isinstance(values, list):
        return [], False
    scored = [
        (number, text)
        for value, text in zip(values, texts, strict=False)
        if (number := as_number(value)) is not None and isinstance(text, str)
    ]
    if not len(scored) == len(listed) == len(values):
        raise fields.unfit(column, f"a text and a number in {name} for each response", listed)
    return scored, name.removesuffix("s") in _RANKS


def text_key(response: Mapping[str, Any]) -> str:
    """Return the name of a listed response's text; "" without one."""
    return next((key for key in TEXTS if isinstance(response.get(key), str)), "")
