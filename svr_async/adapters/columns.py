"""Names of columns as people write them: which hold two responses, which the label, scores, names and the prompt."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import product
from typing import NamedTuple

from svr_async.adapters.tables import Row
from svr_async.errors import DataError, UsageError

PROMPT_COLUMNS = (
    "prompt", "messages", "conversations", "conversation", "context", "instruction", "question", "query", "history",
    "post", "user_prompt", "user_input", "input",
)  # fmt: skip
SYSTEM_COLUMNS = ("system", "system_prompt")
ID_COLUMNS = ("id", "pair_id", "case_id", "uid", "question_id", "prompt_id", "idx")
LABEL_COLUMNS = (
    "label", "labels", "winner", "chosen_candidate", "preference", "preferred", "preferred_response", "better",
    "better_response", "better_response_id", "best", "choice", "verdict", "gold", "gold_label", "human_label",
    "selected", "chosen",
)  # fmt: skip
CHOSEN_PAIRS = (
    ("chosen", "rejected"), ("chosen", "reject"), ("chosen_response", "rejected_response"),
    ("response_chosen", "response_rejected"), ("preferred", "rejected"), ("preferred", "dispreferred"),
    ("preferred", "non_preferred"), ("preferred_output", "non_preferred_output"), ("accepted", "rejected"),
)  # fmt: skip
LIST_COLUMNS = ("responses", "completions", "answers", "outputs", "candidates")
RUBRIC_COLUMNS = ("rubrics", "reference_rubrics")
HIGHER, LOWER = ("score", "rating", "reward"), ("rank", "ranking")

_STEMS = (
    "response", "answer", "output", "completion", "conversation", "candidate", "reply", "generation", "text",
    "summary", "human_ref",
)  # fmt: skip
_SUFFIXES = (("a", "b"), ("1", "2"), ("0", "1"))
_UNPLAIN = re.compile(r"[\s\-.]+")


class Two(NamedTuple):
    """The two columns of one kind, for the first and for the second response."""

    first: str
    second: str


RESPONSE_PAIRS = tuple(
    Two(f"{stem}{mark}{a}", f"{stem}{mark}{b}") for stem, (a, b), mark in product(_STEMS, _SUFFIXES, ("_", ""))
)


def plain_name(name: str) -> str:
    """Return a column's name in small letters, with `_` for what parts its words: "Response A" is response_a."""
    return _UNPLAIN.sub("_", str(name).strip().casefold())


@lru_cache(maxsize=1024)
def _plain_names(names: tuple[str, ...]) -> Mapping[str, str]:
    """Return each column's plain name; the one it has where two columns would share a plain one."""
    plain = [plain_name(name) for name in names]
    return {name: one if plain.count(one) == 1 else name for name, one in zip(names, plain, strict=True)}


def with_plain_names(row: Row) -> Row:
    """Return a row whose columns have plain names; the row itself where they have."""
    names = _plain_names(tuple(row.values))
    if all(name == plain for name, plain in names.items()):
        return row
    return replace(row, values={names[name]: value for name, value in row.values.items()})


def parse_columns(text: str, known: Collection[str]) -> dict[str, str]:
    """Read `--columns prompt=question,id=key`: for each name of a schema, the file's column that holds it."""
    found: dict[str, str] = {}
    for entry in filter(None, text.split(",")):
        name, mark, column = (part.strip() for part in entry.partition("="))
        if name not in known or not mark or not column:
            raise UsageError(
                f"--columns: {entry!r} names no column", hint=f"write NAME=COLUMN, NAME one of {', '.join(known)}"
            )
        found[name] = column
    return found


def renamed(row: Row, columns: Mapping[str, str]) -> Row:
    """Return a row with the named columns under the schema's names; a column in their way is left out."""
    values = row.values
    if row.problem:
        return row
    meant = {plain: name for name, plain in _plain_names(tuple(values)).items()} | {name: name for name in values}
    for column in columns.values():
        if column not in meant:
            found = ", ".join(map(str, values)) or "none"
            raise DataError(f"{row.where}: --columns names {column!r}; columns found: {found}", hint="correct the name")
    taken = {name: meant[column] for name, column in columns.items()}
    kept = {name: value for name, value in values.items() if name not in taken and name not in taken.values()}
    return replace(row, values=kept | {name: values[column] for name, column in taken.items()})


def response_columns(names: Collection[str]) -> list[Two]:
    """Return the pairs of columns that may hold the two responses; several where a row has three."""
    return [two for two in RESPONSE_PAIRS if two.first in names and two.second in names]


def further_responses(two: Two, names: Collection[str]) -> tuple[str, ...]:
    """Return the columns named as a third and fourth response beside two, as response_c or response_3."""
    a, b = suffixes(two)
    stem = two.first.removesuffix(a)
    ends = {"a": "cd", "1": "034", "0": "23"}.get(a, "")
    return tuple(f"{stem}{end}" for end in ends if f"{stem}{end}" in names and b != end)


def chosen_columns(names: Collection[str]) -> Two | None:
    """Return the columns that hold the preferred and the other response."""
    return next((Two(*two) for two in CHOSEN_PAIRS if two[0] in names and two[1] in names), None)


def suffixes(two: Two) -> Two:
    """Return in what the names of two columns differ: "a" and "b"; "chosen" and "rejected"."""
    if two.first.rpartition("_")[0] == two.second.rpartition("_")[0] and "_" in two.first:
        return Two(two.first.rpartition("_")[2], two.second.rpartition("_")[2])
    return Two(two.first[-1], two.second[-1]) if two.first[:-1] == two.second[:-1] else two


def beside(two: Two, stems: Iterable[str], names: Collection[str]) -> Two | None:
    """Return the columns that hold something of each response, as score_a and score_b beside response_a."""
    a, b = suffixes(two)
    for stem in stems:
        for pattern in (f"{stem}_{{}}", f"{stem}{{}}", f"{{}}_{stem}"):
            if pattern.format(a) in names and pattern.format(b) in names:
                return Two(pattern.format(a), pattern.format(b))
        if f"{two.first}_{stem}" in names and f"{two.second}_{stem}" in names:
            return Two(f"{two.first}_{stem}", f"{two.second}_{stem}")
    return None


def model_columns(two: Two, names: Collection[str]) -> Two | None:
    """Return the columns that name who wrote each response: model_a, generator_1 or response_a_model."""
    return beside(two, ("model", "generator", "model_name", "name"), names)


def score_columns(two: Two, names: Collection[str]) -> Two | None:
    """Return the columns that hold a number for each response, of which more is better, or less (a rank)."""
    return beside(two, (*HIGHER, *LOWER), names)


def lower_is_better(columns: Two) -> bool:
    """Whether the name of a score's column says that less is better."""
    return any(stem in columns.first.split("_") or columns.first.startswith(stem) for stem in LOWER)


def label_columns(names: Collection[str], two: Two) -> Sequence[str]:
    """Return the columns that may hold the label of two responses."""
    return [name for name in LABEL_COLUMNS if name in names and name not in two]


def flag_columns(two: Two) -> Mapping[str, bool]:
    """Return names that say what a flag in them means, and whether it then speaks for the first response."""
    a, b = suffixes(two)
    forms = ("{}_is_better", "is_{}_better", "{}_better", "{}_wins", "{}_won", "{}_is_preferred", "{}_preferred",
             "prefer_{}", "prefers_{}")  # fmt: skip
    ends = {True: {a, two.first}, False: {b, two.second}}
    if {a, b} == {"1", "2"} or {a, b} == {"a", "b"}:
        ends = {True: ends[True] | {"first"}, False: ends[False] | {"second"}}
    return {form.format(end): first for first, names in ends.items() for form in forms for end in names}


def one_hot_columns(two: Two, names: Collection[str]) -> tuple[str, str, str] | None:
    """Return the columns of a label spread over three: winner_model_a, winner_model_b, winner_tie."""
    a, b = suffixes(two)
    for stem in ("winner_model_", "winner_", "winner_response_"):
        if f"{stem}{a}" in names and f"{stem}{b}" in names:
            return f"{stem}{a}", f"{stem}{b}", "winner_tie"
    return None
