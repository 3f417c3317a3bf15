"""Any file of preference pairs: published layouts first, else two responses and what says which is better."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from svr_async.adapters import helpsteer3, rmb
from svr_async.adapters.columns import (
    CHOSEN_PAIRS,
    ID_COLUMNS,
    LABEL_COLUMNS,
    LIST_COLUMNS,
    RUBRIC_COLUMNS,
    Layout,
    layout_of,
    looks_like_values,
    with_plain_names,
)
from svr_async.adapters.contract import Adapter
from svr_async.adapters.dataset import RowParser
from svr_async.adapters.fields import Fields, RowError
from svr_async.adapters.groups import scored_responses
from svr_async.adapters.labels import (
    Label,
    Reading,
    Verdict,
    by_scores,
    is_lower_better,
    is_missing,
    label_of,
    parse_label_map,
    settle,
    shown_values,
)
from svr_async.adapters.messages import PROMPT_COLUMNS, join_prompt, prompt_of, read_answer
from svr_async.adapters.records import Parsed, content_id, drawn_first, micro_scores
from svr_async.adapters.tables import Row
from svr_async.core.pair import NO_DOMAIN, PreferencePair

TIE = "tie (the data prefers neither)"
DIFFERENT_PROMPTS = "chosen and rejected answer different conversations"
RECORDED = "a judge's recorded results, not data"
SKIPPED = "left out by --label-map"
_WANTED = ("prompt", "chosen", "rejected", "response_a", "response_b", "label")


PUBLISHED: Mapping[frozenset[str], tuple[RowParser, str]] = {
    frozenset(("context", "response1", "response2", "overall_preference")): (helpsteer3.parse, helpsteer3.READING),
    frozenset(rmb.PAIR_COLUMNS): (rmb.parse, rmb.READING),
    frozenset(rmb.BEST_OF_N_COLUMNS): (rmb.parse, rmb.READING),
}  # fmt: skip
"""Rows with these columns are read as their publisher describes them."""


@dataclass(slots=True)
class _Reader:
    """How the rows of one file become pairs: the reading of each layout's label, and what the flags say."""

    named: frozenset[str]
    label_map: Reading | None
    lower: bool | None
    readings: dict[Layout, Reading]

    def layout(self, fields: Fields) -> Layout | None:
        return layout_of(tuple(fields.row.values), self.named)

    def parse(self, fields: Fields) -> Parsed:
        """Turn one row into a pair."""
        fields = _with_columns(fields)
        if published := _published(fields):
            return published[0](fields)
        layout = self.layout(fields)
        if layout is None:
            return self._best_and_worst(fields)
        if not layout.label and layout.scores is None:
            return _pair(fields, *layout.two)
        verdict = self._verdict(fields, layout)
        if verdict is Verdict.SKIP or fields.has("results"):
            return Parsed(skipped=(SKIPPED if verdict is Verdict.SKIP else RECORDED,))
        if verdict is Verdict.TIE:
            tied: PreferencePair | None = None
            with suppress(RowError):
                tied = next(iter(_pair(fields, *layout.two, first_is_chosen=True).pairs), None)
            return Parsed(skipped=(TIE,), tied=replace(tied, has_preference=False) if tied else None)
        return _pair(fields, *layout.two, first_is_chosen=verdict is Verdict.A)

    def _best_and_worst(self, fields: Fields) -> Parsed:
        scored, is_rank = scored_responses(fields) or ([], False)
        if not scored:
            raise _unknown_layout(fields)
        low, high = min(scored, key=lambda one: one[0]), max(scored, key=lambda one: one[0])
        if low[0] == high[0]:
            return Parsed(skipped=(TIE,))
        chosen, rejected = (low, high) if (is_rank if self.lower is None else self.lower) else (high, low)
        values = {**fields.row.values, "chosen": chosen[1], "rejected": rejected[1]}
        return _pair(Fields(replace(fields.row, values=values)), "chosen", "rejected")

    def _verdict(self, fields: Fields, layout: Layout) -> Verdict:
        if layout.scores:
            return by_scores(fields, layout.scores, lower=self.lower)
        label = label_of(fields, layout)
        if is_missing(label.value):
            raise fields.unfit(layout.label, "a label", label.value)
        reading = self.label_map or self.readings[layout]
        if (verdict := reading.read(label)) is None:
            error = fields.unfit(layout.label, f"a label ({reading.words(layout.two)}) or tie", label.value)
            error.hint = "fix the row, give all meanings with --label-map, or skip such rows with --lenient"
            raise error
        return verdict

    def says(self, layout: Layout, labels: Sequence[Label]) -> str:
        """Return how labels of a layout are read, for people."""
        if layout.label:
            reading = self.label_map or self.readings[layout]
            return f"{layout.label}: {reading.words(layout.two)} ({shown_values(labels)})"
        if layout.scores:
            less = is_lower_better(layout.scores) if self.lower is None else self.lower
            return f"{' and '.join(layout.scores)}: the {'lower' if less else 'higher'} is better"
        return f"{layout.two.first} is better than {layout.two.second}"


def read_file(rows: Sequence[Row], label_map: str, named: frozenset[str]) -> tuple[RowParser, Sequence[str]]:
    """Look at all rows and return what parses one, and how labels are read, for people.

    `label_map` is --label-map, `named` the names that --columns gives. DataError for a label that may mean two things.
    """
    lower = {"lower": True, "higher": False}.get(label_map.strip().casefold())
    reader = _Reader(named, parse_label_map(label_map) if label_map and lower is None else None, lower, {})
    labels: dict[Layout, list[Label]] = {}
    says: dict[str, None] = {}
    for row in rows:
        fields = _with_columns(Fields(row))
        if published := _published(fields):
            says[published[1]] = None
        elif layout := reader.layout(fields):
            label = label_of(fields, layout) if layout.label else None
            labels.setdefault(layout, []).extend([label] if label and not is_missing(label.value) else [])
        elif column := fields.first(LIST_COLUMNS):
            says[f"{column}: the best is better than the worst, by their scores or ranks"] = None
    for layout, found in labels.items():
        if layout.label and not reader.label_map:
            reader.readings[layout] = settle(layout, found)
        says[reader.says(layout, found)] = None
    return reader.parse, tuple(says)


def parse(fields: Fields) -> Parsed:
    """Turn one row into a pair without knowing the others."""
    return read_file([fields.row], "", frozenset())[0](fields)


def _published(fields: Fields) -> tuple[RowParser, str] | None:
    return next((how for columns, how in PUBLISHED.items() if columns <= fields.row.values.keys()), None)


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
    close = {column: difflib.get_close_matches(column, _WANTED, 1, 0.75) for column in found}
    near = [f"{column!r} for {match[0]!r}" for column, match in close.items() if match and match[0] != column]
    row_hint = "no header row? add one, such as prompt,chosen,rejected; or " if looks_like_values(found) else ""
    return RowError(
        fields.row,
        "unknown layout of preference pair",
        f"; columns found: {', '.join(found) or 'none'}; wanted: a prompt with response_a, response_b and label, "
        "or with chosen and rejected" + (f"; did you mean {', '.join(near)}?" if near else ""),
        hint=row_hint + "name the columns: --columns prompt=…,chosen=…,rejected=… or "
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
        return Parsed(skipped=(DIFFERENT_PROMPTS,))
    prompt = fields.filled(join_prompt(given, before), fields.first(PROMPT_COLUMNS) or first)
    own_id = fields.identifier(ID_COLUMNS)
    pair_id = own_id or content_id(prompt, a, b)
    chosen, rejected = (b, a) if first_is_chosen is False else (a, b)
    source = fields.row.values.get("source")
    pair = PreferencePair(
        id=pair_id,
        prompt=prompt,
        chosen=chosen,
        rejected=rejected,
        domain=fields.optional_text("domain") or NO_DOMAIN,
        subset=fields.optional_text("subset"),
        chosen_first=drawn_first(pair_id) if first_is_chosen is None else first_is_chosen,
        strength=fields.integer("strength", 0, 1_000_000) if fields.has("strength") else None,
        **fields.rubrics(RUBRIC_COLUMNS),
        source=source if isinstance(source, str) else "",
    )
    return Parsed(pairs=(pair,), id=own_id)


ADAPTER = Adapter(
    name="pairs",
    title="Any preference pairs",
    label="Preference pairs",
    licence="the data's own",
    training=True,
    ruled=False,
    sampled=True,
    schema={
        "prompt": f"text or messages; also {', '.join(PROMPT_COLUMNS[1:])}",
        "system": "optional text: a system turn before the prompt",
        "chosen": f"text, message, or messages; with `rejected` (also {', '.join(map(' + '.join, CHOSEN_PAIRS[1:]))})",
        "rejected": "the same; without a prompt both may be whole Human/Assistant transcripts",
        "response_a": "instead of chosen and rejected: two responses (also answer_1, output_b …) and a label",
        "response_b": "see response_a",
        "label": f"which is better; also {', '.join(LABEL_COLUMNS[1:])}",
        "id": "optional: text or whole number; a repeated id gets a number",
        "domain": "optional text",
        "subset": "optional text",
        "rubrics": "optional: criteria, one a line, or a list of texts or objects, which may have points",
        "strength": "optional whole number: how strong the preference is",
        "source": "optional text: where the pair is from; the default fit learns what sources have in common",
    },
    parse=parse,
    read_file=read_file,
    score=micro_scores,
)
