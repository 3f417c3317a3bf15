"""Finds the parts of a pair by column names: two responses, and what says which is better."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from typing import NamedTuple

from svr_async.adapters.tables import Row
from svr_async.errors import DataError, UsageError

ID_COLUMNS = ("id", "pair_id", "case_id", "uid", "question_id", "prompt_id", "idx")
LABEL_COLUMNS = (
    "label", "labels", "winner", "chosen_candidate", "preference", "preferred", "preferred_response", "better",
    "better_response", "better_response_id", "best", "choice", "verdict", "gold", "gold_label", "human_label",
    "selected", "chosen", "preference_strength", "overall_preference",
)  # fmt: skip
SIGNED_LABELS = ("preference_strength", "overall_preference")  # HelpSteer: below 0 the first response is better
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
_FURTHER = {"a": "cd", "1": "034", "0": "23"}


class Two(NamedTuple):
    """Two columns of one kind: for the first and for the second response."""

    first: str
    second: str


RESPONSES = Two("response_a", "response_b")


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The columns of the two responses, and what says which is better: a `label` column, or two `scores`.

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
        name, mark, column = (part.strip() for part in entry.partition("="))
        if name not in known or not mark or not column:
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


def looks_like_values(names: Iterable[str]) -> bool:
    """Whether a table's header looks like a row of data: sentences, numbers or empty cells."""
    return any(len(str(n).split()) > 5 or not str(n).strip() or re.search(r"^[\d.]+$|[.?!]$", str(n)) for n in names)


@lru_cache(maxsize=1024)
def layout_of(names: tuple[str, ...], named: frozenset[str] = frozenset()) -> Layout | None:
    """Return which columns hold the parts of a pair, or None; `named` are the parts that --columns names.

    DataError if several columns may be the label, or there are more than two responses.
    """
    chosen = next((Two(*two) for two in CHOSEN_PAIRS if set(two) <= set(names)), None)
    if chosen and {"chosen", "rejected"} & named:
        return Layout(two=chosen)
    stems = product(_STEMS, _SUFFIXES, ("_", ""))
    pairs = [Two(f"{stem}{mark}{a}", f"{stem}{mark}{b}") for stem, (a, b), mark in stems]
    for two in [RESPONSES] if named >= set(RESPONSES) else pairs:
        if set(two) <= set(names) and (found := _labelled(two, names, named, chosen)):
            return found
    return Layout(two=chosen) if chosen else None


def _labelled(two: Two, names: Collection[str], named: frozenset[str], chosen: Two | None) -> Layout | None:
    """Return the layout of two responses with what says which is better; None if nothing does."""
    names = [name for name in names if name not in (chosen or ())]
    labels = ["label"] if "label" in named else [name for name in LABEL_COLUMNS if name in names and name not in two]
    labels = [name for name in labels if name not in SIGNED_LABELS] or labels  # the others may be only how strong
    if chosen and not labels:
        labels = [chosen.first]  # "chosen" with two response columns names one of them, by letter or text
    if len(labels) > 1:
        listed = ", ".join(labels)
        raise DataError(f"several columns may be the label: {listed}", hint=f"choose one: --columns label={labels[0]}")
    a, b = suffixes(two)
    stem = two.first.removesuffix(a)
    more = [stem + end for end in _FURTHER.get(a, "") if end != b and stem + end in names]
    if more and not named >= set(RESPONSES):
        listed = ", ".join((*two, *more))
        hint = f"choose two: --columns response_a={two.first},response_b={two.second}"
        raise DataError(f"more than two responses: {listed}", hint=hint)
    if labels:
        models = beside(two, ("model", "generator", "model_name", "name"), names)
        return Layout(two=two, label=labels[0], models=models)
    scores = beside(two, (*HIGHER, *LOWER), names)
    return Layout(two=two, scores=scores) if scores else None


def suffixes(two: Two) -> Two:
    """Return how the names of two columns differ: "a" and "b"; "chosen" and "rejected"."""
    stem, mark, end = two.first.rpartition("_")
    if mark and two.second.startswith(stem + mark):
        return Two(end, two.second.removeprefix(stem + mark))
    return Two(two.first[-1], two.second[-1]) if two.first[:-1] == two.second[:-1] else two


def beside(two: Two, stems: Iterable[str], names: Collection[str]) -> Two | None:
    """Return the columns with something of each response, as score_a and score_b for response_a and response_b."""
    a, b = suffixes(two)
    for stem in stems:
        forms = ((f"{stem}_{a}", f"{stem}_{b}"), (f"{stem}{a}", f"{stem}{b}"), (f"{a}_{stem}", f"{b}_{stem}"),
                 (f"{two.first}_{stem}", f"{two.second}_{stem}"))  # fmt: skip
        for form in forms:
            if set(form) <= set(names):
                return Two(*form)
    return None
