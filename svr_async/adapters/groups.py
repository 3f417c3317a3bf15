"""Prompts with several responses each, to be ranked: rows of a list, with or without a label of the best."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from svr_async.adapters import rmb
from svr_async.adapters.columns import ID_COLUMNS, LIST_COLUMNS, with_plain_names
from svr_async.adapters.conversations import read_answer
from svr_async.adapters.fields import Fields, RowError
from svr_async.adapters.prompts import prompt_of
from svr_async.adapters.ranked import scored_responses, text_key
from svr_async.adapters.records import content_id
from svr_async.adapters.source import open_source
from svr_async.adapters.tables import Row, read_rows
from svr_async.core.pair import Prompt, hashed_fraction
from svr_async.errors import DataError

WANTED = "a prompt and a list of " + ", ".join(LIST_COLUMNS)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseGroup:
    """A prompt with N responses in the order of the data; `best` are the places that the data call best, if it says.

    `id` is the row's own, else a hash of its texts, and unique in a file.
    """

    id: str
    prompt: Prompt
    responses: tuple[str, ...]
    best: frozenset[int] = frozenset()


def read_groups(path: Path) -> list[ResponseGroup]:
    """Read a file or folder of rows with a prompt and a list of responses: texts, messages, or objects with a text.

    Numbers with the responses (scores, ratings, ranks) say which is best, as in UltraFeedback; best-of-N records of RMB
    are read as they are published. DataError names the first row that is neither, and where there is none.
    """
    groups = list(_with_own_ids(_read(row) for row in _rows(path)))
    if not groups:
        raise DataError(f"no rows in {path}", hint=f"give {WANTED}")
    return groups


def _rows(path: Path) -> Iterator[Row]:
    source = open_source(path)
    return read_rows(source.path, files=source.files)


def _with_own_ids(groups: Iterable[ResponseGroup]) -> Iterator[ResponseGroup]:
    seen: Counter[str] = Counter()
    for group in groups:
        seen[group.id] += 1
        again = f"{group.id}#{seen[group.id]}" if seen[group.id] > 1 else group.id
        yield ResponseGroup(id=again, prompt=group.prompt, responses=group.responses, best=group.best)


def _read(row: Row) -> ResponseGroup:
    if row.problem:
        raise RowError(row, row.problem)
    fields = Fields(with_plain_names(row))
    if fields.has("bon_best"):
        return _best_of_n(fields)
    prompt = prompt_of(fields)
    if not prompt:
        raise RowError(row, "no prompt in it", hint=f"give {WANTED}")
    responses = _responses(fields)
    own = fields.identifier(ID_COLUMNS)
    return ResponseGroup(
        id=own or content_id(prompt, *responses), prompt=prompt, responses=responses, best=_labelled(fields)
    )


def _responses(fields: Fields) -> tuple[str, ...]:
    column = fields.first(LIST_COLUMNS)
    if not column:
        raise fields.missing(LIST_COLUMNS[0])
    listed = fields.value(column)
    if not isinstance(listed, list) or not listed:
        raise fields.unfit(column, "a list of responses", listed)
    return tuple(_text(fields, column, one) for one in listed)


def _text(fields: Fields, column: str, value: Any) -> str:
    key = text_key(value) if isinstance(value, Mapping) and "role" not in value else ""
    try:
        return str(value[key]) if key else read_answer(value, transcript=False).response
    except ValueError as error:
        raise fields.unfit(column, "responses (texts, messages, or objects with a text)", value, within=True) from error


def _labelled(fields: Fields) -> frozenset[int]:
    """Return the places of the best responses by the numbers beside them; none where all are alike."""
    found = scored_responses(fields)
    if found is None:
        return frozenset()
    numbers = [-number if found[1] else number for number, _ in found[0]]
    best = frozenset(place for place, number in enumerate(numbers) if number == max(numbers))
    return best if len(best) < len(numbers) else frozenset()


def _best_of_n(fields: Fields) -> ResponseGroup:
    """Read a record of RMB; its order, which tells which is best, gives way to one by a hash."""
    prompt, best = fields.prompt("conversation_input"), rmb.answer_text(fields, "bon_best", fields.value("bon_best"))
    losers = fields.value("loser_list")
    if not isinstance(losers, list) or not losers:
        raise fields.unfit("loser_list", "a list of answers", losers)
    own = fields.identifier(("bon_uid",)) or content_id(prompt, best)
    texts = [best, *(rmb.answer_text(fields, "loser_list", loser) for loser in losers)]
    order = _drawn(own, len(texts))
    return ResponseGroup(
        id=own, prompt=prompt, responses=tuple(texts[n] for n in order), best=frozenset({order.index(0)})
    )


def _drawn(name: str, n: int) -> Sequence[int]:
    return sorted(range(n), key=lambda place: hashed_fraction("listed", name, str(place)))
