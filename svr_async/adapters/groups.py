"""Rows with a prompt and a list of responses: to be ranked, or scored, as UltraFeedback's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from svr_async.adapters.fields import Fields, RowError, prompt_of, read_answer
from svr_async.adapters.hub import open_source
from svr_async.adapters.layouts import ID_COLUMNS, LIST_COLUMNS, as_number, with_plain_names
from svr_async.adapters.records import content_id
from svr_async.adapters.tables import Row, read_rows
from svr_async.adapters.training_sets import best_and_losers
from svr_async.core.pair import Prompt, hashed_fraction
from svr_async.errors import DataError

_WANTED = "a prompt and a list of " + ", ".join(LIST_COLUMNS)
_TEXTS = ("response", "answer", "completion", "output", "text", "content")
_SCORES = ("fine_grained_score", "fine-grained_score", "score", "rating", "reward", "overall_score")
_RANKS = ("rank", "ranking")


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseGroup:
    """A prompt with N responses in the order of the data; `best` are the places of the best ones, if known.

    `id` is the row's own, else a hash of its texts, and unique in a file.
    """

    id: str
    prompt: Prompt
    responses: tuple[str, ...]
    best: frozenset[int] = frozenset()


def read_groups(path: Path) -> list[ResponseGroup]:
    """Read a file or folder of rows with a prompt and a list of responses: texts, messages, or objects with a text.

    Numbers with the responses (scores, ratings, ranks) say which is best. Best-of-N records of RMB are read too.
    DataError names the first row of another layout.
    """
    source = open_source(path)
    groups, seen = [], Counter[str]()
    for row in read_rows(source.path, files=source.files):
        group = _read(row)
        seen[group.id] += 1
        groups.append(replace(group, id=f"{group.id}#{seen[group.id]}") if seen[group.id] > 1 else group)
    if not groups:
        raise DataError(f"no rows in {path}", hint=f"give {_WANTED}")
    return groups


def _read(row: Row) -> ResponseGroup:
    fields = Fields(with_plain_names(Fields(row).checked().row))
    if fields.has("bon_best"):
        return _best_of_n(fields)
    prompt = prompt_of(fields)
    if not prompt:
        raise RowError(row, "no prompt in it", hint=f"give {_WANTED}")
    column = fields.first(LIST_COLUMNS)
    if not column:
        raise fields.missing(LIST_COLUMNS[0])
    listed = fields.value(column)
    if not isinstance(listed, list) or not listed:
        raise fields.unfit(column, "a list of responses", listed)
    responses = tuple(_text(fields, column, one) for one in listed)
    group_id = fields.identifier(ID_COLUMNS) or content_id(prompt, *responses)
    scored, is_rank = scored_responses(fields)
    numbers = [-number if is_rank else number for number, _ in scored]
    best = frozenset(place for place, number in enumerate(numbers) if number == max(numbers))
    if len(best) == len(numbers):  # all are equal
        best = frozenset()
    return ResponseGroup(id=group_id, prompt=prompt, responses=responses, best=best)


def _text(fields: Fields, column: str, value: Any) -> str:
    key = _text_key(value) if isinstance(value, Mapping) and "role" not in value else ""
    try:
        return str(value[key]) if key else read_answer(value, transcript=False)[1]
    except ValueError as error:
        raise fields.unfit(column, "responses (texts, messages, or objects with a text)", value) from error


def _best_of_n(fields: Fields) -> ResponseGroup:
    """Read a record of RMB; its order says which is best, so it is replaced by one drawn by a hash."""
    prompt, best, losers = best_and_losers(fields)
    own = fields.identifier(("bon_uid",)) or content_id(prompt, best)
    texts = [best, *losers]
    order = sorted(range(len(texts)), key=lambda place: hashed_fraction("listed", own, str(place)))
    responses = tuple(texts[place] for place in order)
    return ResponseGroup(id=own, prompt=prompt, responses=responses, best=frozenset({order.index(0)}))


def scored_responses(fields: Fields) -> tuple[list[tuple[float, str]], bool]:
    """Return (number, text) of each listed response, and whether the numbers are ranks, of which less is better.

    Empty if a row lists no responses with numbers, inside them or in another column. RowError for a missing number.
    """
    column = fields.first(LIST_COLUMNS)
    listed = fields.row.values.get(column)
    if not isinstance(listed, list) or not listed:
        return [], False
    if isinstance(listed[0], Mapping):
        key, name = _text_key(listed[0]), next((one for one in (*_SCORES, *_RANKS) if one in listed[0]), "")
        objects = [one if isinstance(one, Mapping) else {} for one in listed]
        values: Any = [one.get(name) for one in objects]
        texts: list[Any] = [one.get(key) for one in objects]
    else:
        name = fields.first([f"{one}s" for one in (*_SCORES, *_RANKS)])
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


def _text_key(response: Mapping[str, Any]) -> str:
    return next((key for key in _TEXTS if isinstance(response.get(key), str)), "")
