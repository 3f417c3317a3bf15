"""Any file of preference pairs: published layouts first, else two responses and a label or scores."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from svr_async.adapters.contract import Adapter, RowParser, open_rows
from svr_async.adapters.fields import PROMPT_COLUMNS, Fields, RowError, join_prompt, prompt_of, read_answer
from svr_async.adapters.layouts import (
    CHOSEN,
    ID_COLUMNS,
    LIST_COLUMNS,
    RUBRIC_COLUMNS,
    SKIP,
    TIE,
    A,
    Layout,
    layout_of,
    lower_is_better,
    parse_columns,
    reading_of,
    renamed,
    responses_of,
    scored_responses,
    with_plain_names,
)
from svr_async.adapters.records import Parsed, micro_scores, pair_of
from svr_async.adapters.tables import Encoding, Pairs, Row
from svr_async.adapters.training_sets import HELPSTEER3, RMB
from svr_async.core.pair import NO_DOMAIN, PreferencePair
from svr_async.errors import DataError

TIED = "tie (the data prefers neither)"
DIFFERENT_PROMPTS = "chosen and rejected answer different conversations"
RECORDED = "a judge's recorded results, not data"
SKIPPED = "left out by --label-map"
_VALUE = re.compile(r"\s*|[\d.]+|.*[.?!]|\S+(\s+\S+){5,}")  # what a column's name is not

_PUBLISHED: Mapping[frozenset[str], Adapter] = {
    frozenset(("context", "response1", "response2", "overall_preference")): HELPSTEER3,
    frozenset(("conversation_input", "chosen", "reject")): RMB,
    frozenset(("conversation_input", "bon_best", "loser_list")): RMB,
}
"""Rows with these columns are read as their publisher describes them."""


def read_file(rows: Sequence[Row], label_map: str, named: frozenset[str]) -> tuple[RowParser, Sequence[str]]:
    """Read all rows; return the parser of a row, and in words how labels are read.

    `label_map` is --label-map, `named` the names that --columns gives. DataError for a label that may mean two things.
    """
    by_layout: dict[Layout, list[Fields]] = {}
    says: dict[str, None] = {}
    for row in rows:
        fields = _with_columns(Fields(row))
        if published := _published(fields):
            says[published.reading] = None
        elif layout := layout_of(tuple(fields.row.values), named):
            by_layout.setdefault(layout, []).append(fields)
        elif column := fields.first(LIST_COLUMNS):
            says[f"{column}: the best is better than the worst, by their scores or ranks"] = None
    readings = {layout: reading_of(layout, found, label_map) for layout, found in by_layout.items()}

    def parse_row(fields: Fields) -> Parsed:
        fields = _with_columns(fields)
        if published := _published(fields):
            return published.parse(fields)
        layout = layout_of(tuple(fields.row.values), named)
        if layout is None:
            return _best_and_worst(fields, lower_is_better(label_map))
        verdict = readings[layout].read(fields)
        if verdict == SKIP or fields.has("results"):
            return Parsed(skipped=SKIPPED if verdict == SKIP else RECORDED)
        if verdict != TIE:
            return _pair(fields, *layout.two, first_is_chosen=None if verdict == CHOSEN else verdict == A)
        tied: PreferencePair | None = None
        with suppress(RowError):
            tied = next(iter(_pair(fields, *layout.two, first_is_chosen=True).pairs), None)
        return Parsed(skipped=TIED, tied=replace(tied, has_preference=False) if tied else None)

    return parse_row, [*says, *dict.fromkeys(reading.says for reading in readings.values())]


def _best_and_worst(fields: Fields, lower: bool | None) -> Parsed:
    scored, is_rank = scored_responses(fields)
    if not scored:
        raise _unknown_layout(fields)
    low, high = min(scored, key=lambda one: one[0]), max(scored, key=lambda one: one[0])
    if low[0] == high[0]:
        return Parsed(skipped=TIED)
    chosen, rejected = (low, high) if (is_rank if lower is None else lower) else (high, low)
    values = {**fields.row.values, "chosen": chosen[1], "rejected": rejected[1]}
    return _pair(Fields(replace(fields.row, values=values)), "chosen", "rejected")


def read_unlabelled(pairs: Pairs, columns: str = "") -> list[PreferencePair]:
    """Return a pair for each row, labelled or not; `chosen` is the first response, or that of a column `chosen`.

    DataError for the first row that cannot be read.
    """
    named = parse_columns(columns, _COLUMNS)
    found: list[PreferencePair] = []
    for row in open_rows(pairs, Encoding())[0]:
        fields = _with_columns(Fields(renamed(row, named)).checked())
        two = responses_of(tuple(fields.row.values))
        if two is None:
            raise _unknown_layout(fields)
        read = _pair(fields, *two, first_is_chosen=True)
        if read.skipped:
            raise DataError(f"{row.where}: {read.skipped}", hint="give both responses to one prompt")
        found += read.pairs
    return found


def parse(fields: Fields) -> Parsed:
    """Turn one row into a pair without knowing the others."""
    return read_file([fields.row], "", frozenset())[0](fields)


def _published(fields: Fields) -> Adapter | None:
    return next((adapter for columns, adapter in _PUBLISHED.items() if columns <= fields.row.values.keys()), None)


def _with_columns(fields: Fields) -> Fields:
    """Return a row with plain column names, and two responses in one list in two columns."""
    row = with_plain_names(fields.row)
    for name in LIST_COLUMNS:
        listed = row.values.get(name)
        if isinstance(listed, list) and len(listed) == 2 and all(isinstance(one, str) for one in listed):
            return Fields(replace(row, values={**row.values, "response_a": listed[0], "response_b": listed[1]}))
    return Fields(row)


def _unknown_layout(fields: Fields) -> RowError:
    found = [str(column) for column in fields.row.values]
    header = "" if not any(map(_VALUE.fullmatch, found)) else "no header row? add one; or "
    return RowError(
        fields.row,
        "unknown layout of preference pair",
        f"; columns found: {', '.join(found) or 'none'}; wanted: a prompt with response_a, response_b and label, "
        "or with chosen and rejected",
        hint=f"{header}name the columns: --columns prompt=…,chosen=…,rejected=… or "
        "prompt=…,response_a=…,response_b=…,label=…; or skip such rows with --lenient",
    )


def _pair(fields: Fields, first: str, second: str, *, first_is_chosen: bool | None = None) -> Parsed:
    """Build the pair from two columns; None: the first is better, and which one is listed first is drawn by a hash."""
    given = prompt_of(fields)
    alone = all(turn.role == "system" for turn in given)
    answers = []
    for column in (first, second):
        try:
            answers.append(read_answer(fields.value(column), transcript=alone))
        except ValueError as error:
            raise fields.unfit(column, str(error).removeprefix("expected "), fields.value(column)) from error
    (before, a), (other_before, b) = answers
    if before != other_before:
        return Parsed(skipped=DIFFERENT_PROMPTS)
    prompt = fields.filled(join_prompt(given, before), fields.first(PROMPT_COLUMNS) or first)
    own_id = fields.identifier(ID_COLUMNS)
    source = fields.row.values.get("source")
    more = {
        "domain": fields.optional_text("domain") or NO_DOMAIN,
        "subset": fields.optional_text("subset"),
        "strength": fields.integer("strength", 0, 1_000_000) if fields.has("strength") else None,
        "source": source if isinstance(source, str) else "",
        **fields.rubrics(RUBRIC_COLUMNS),
    }
    pair = pair_of(prompt, a, b, own_id, first_is_better=first_is_chosen, **more)
    return Parsed(pairs=(pair,), id=own_id)


_COLUMNS = (
    "prompt", "system", "chosen", "rejected", "response_a", "response_b", "label", "id", "domain", "subset", "rubrics",
    "strength", "source",
)  # fmt: skip
PAIRS = Adapter(
    name="pairs",
    title="Preference pairs",
    licence="the data's own",
    training=True,
    ruled=False,
    columns=_COLUMNS,
    parse=parse,
    read_file=read_file,
    score=micro_scores,
)
