"""Reads the file of `svr rank`: rows with a prompt and a list of responses. Apart, so that --help stays light."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from svr_async.adapters.fields import Fields, RowError, prompt_of, read_answer
from svr_async.adapters.hub import open_source
from svr_async.adapters.layouts import ID_COLUMNS, LIST_COLUMNS, scored_responses, text_key, with_plain_names
from svr_async.adapters.records import content_id
from svr_async.adapters.tables import Row, read_rows
from svr_async.errors import DataError
from svr_async.serving.best_of_n import ResponseGroup

WANTED = "a prompt and a list of " + ", ".join(LIST_COLUMNS)


def read_groups(path: Path) -> list[ResponseGroup]:
    """Read a file or folder of rows with a prompt and a list of responses: texts, messages, or objects with a text.

    Numbers with the responses (scores, ratings, ranks) say which is best. DataError names a row of another layout.
    """
    source = open_source(path)
    groups, seen = [], Counter[str]()
    for row in read_rows(source.path, files=source.files):
        group = _read(row)
        seen[group.id] += 1
        groups.append(replace(group, id=f"{group.id}#{seen[group.id]}") if seen[group.id] > 1 else group)
    if not groups:
        raise DataError(f"no rows in {path}", hint=f"give {WANTED}")
    return groups


def _read(row: Row) -> ResponseGroup:
    fields = Fields(with_plain_names(Fields(row).checked().row))
    prompt = prompt_of(fields)
    if not prompt:
        raise RowError(row, "no prompt in it", hint=f"give {WANTED}")
    column = fields.first(LIST_COLUMNS) or LIST_COLUMNS[0]
    listed = fields.value(column)
    if not isinstance(listed, list) or not listed:
        raise fields.unfit(column, "a list of responses", listed)
    responses = tuple(_text(fields, column, one) for one in listed)
    group_id = fields.identifier(ID_COLUMNS) or content_id(prompt, *responses)
    scored, is_rank = scored_responses(fields)
    numbers = [-number if is_rank else number for number, _ in scored]
    best = frozenset(place for place, number in enumerate(numbers) if max(numbers) == number > min(numbers))
    return ResponseGroup(id=group_id, prompt=prompt, responses=responses, best=best)


def _text(fields: Fields, column: str, value: Any) -> str:
    key = text_key(value) if isinstance(value, Mapping) and "role" not in value else ""
    try:
        return str(value[key]) if key else read_answer(value, transcript=False)[1]
    except ValueError as error:
        raise fields.unfit(column, "responses (texts, messages, or objects with a text)", value) from error
