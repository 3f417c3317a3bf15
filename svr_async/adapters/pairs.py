"""Any file of preference pairs: layouts with published rules first, else two responses and what says which is better."""

from __future__ import annotations

import difflib
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

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
    by_flag,
    by_one_hot,
    by_scores,
    is_missing,
    label_of,
    lower_is_better,
    parse_label_map,
    settle,
    shown_values,
)
from svr_async.adapters.messages import PROMPT_COLUMNS, join_prompt, prompt_of, read_answer
from svr_async.adapters.records import PairResult, Parsed, accuracy, content_id, drawn_first
from svr_async.adapters.tables import Row
from svr_async.core.pair import NO_DOMAIN, PreferencePair
from svr_async.errors import DataError

ANNOTATORS = ("annotator1", "annotator2", "annotator3")
TIE = "tie (the data prefers neither)"
NO_MAJORITY = "the annotators disagree"
DIFFERENT_PROMPTS = "chosen and rejected answer different conversations"
RECORDED = "a judge's recorded results, not data"
SKIPPED = "left out by --label-map"
_WANTED = ("prompt", "chosen", "rejected", "response_a", "response_b", "label")
_SIDES = (Verdict.A, Verdict.B)


def _parse_pandalm(fields: Fields) -> Parsed:
    votes = Counter(fields.integer(column, 0, 2) for column in ANNOTATORS)
    winner, count = votes.most_common(1)[0]
    if count == 1:
        return Parsed(skipped=(NO_MAJORITY,))
    parsed = _pair(fields, "response1", "response2", first_is_chosen=winner == 1)
    return parsed if winner else _tied(parsed)


PUBLISHED: Mapping[frozenset[str], tuple[RowParser, str]] = {
    frozenset(("context", "response1", "response2", "overall_preference")): (helpsteer3.parse, helpsteer3.READING),
    frozenset(rmb.PAIR_COLUMNS): (rmb.parse, rmb.READING),
    frozenset(rmb.BEST_OF_N_COLUMNS): (rmb.parse, rmb.READING),
    frozenset(("instruction", "response1", "response2", *ANNOTATORS)): (
        _parse_pandalm, "majority of annotator1, annotator2, annotator3: 1 = response1 is better, 2 = response2",
    ),
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
        if layout is None and (ranked := scored_responses(fields)):
            return self._best_and_worst(fields, *ranked)
        if layout is None:
            raise _unknown_layout(fields)
        if layout.by_position:
            return _pair(fields, *layout.two)
        if layout.label and fields.has("results"):
            return Parsed(skipped=(RECORDED,))
        verdict = self._verdict(fields, layout)
        if verdict is Verdict.SKIP:
            return Parsed(skipped=(SKIPPED,))
        if verdict is Verdict.TIE:
            with suppress(RowError):
                return _tied(_pair(fields, *layout.two, first_is_chosen=True))
            return Parsed(skipped=(TIE,))
        return _pair(fields, *layout.two, first_is_chosen=verdict is Verdict.A)

    def _best_and_worst(self, fields: Fields, scored: Sequence[tuple[float, str]], is_rank: bool) -> Parsed:
        less = is_rank if self.lower is None else self.lower
        low, high = min(scored, key=lambda one: one[0]), max(scored, key=lambda one: one[0])
        if low[0] == high[0]:
            return Parsed(skipped=(TIE,))
        chosen, rejected = (low, high) if less else (high, low)
        values = {**fields.row.values, "chosen": chosen[1], "rejected": rejected[1]}
        return _pair(Fields(replace(fields.row, values=values)), "chosen", "rejected")

    def _verdict(self, fields: Fields, layout: Layout) -> Verdict:
        if layout.flag:
            return by_flag(fields, layout.flag[0], speaks_for_first=layout.flag[1])
        if layout.one_hot:
            return by_one_hot(fields, layout.one_hot)
        if not layout.label:
            assert layout.scores is not None
            return by_scores(fields, layout.scores, lower=self.lower)
        label = label_of(fields, layout)
        if is_missing(label.value):
            raise fields.unfit(layout.label, "a label", label.value)
        reading = self.label_map or self.readings[layout]
        if (verdict := reading.read(label)) is None:
            error = fields.unfit(layout.label, f"a label ({reading.words(layout.two)}) or tie", label.value)
            error.hint = f"fix the row, extend --label-map '{reading.flag},…', or skip such rows with --lenient"
            raise error
        return verdict

    def says(self, layout: Layout, labels: Sequence[Label]) -> str:
        """Return how labels of a layout are read, for people."""
        two = layout.two
        if layout.label:
            words = (self.label_map or self.readings[layout]).words(two)
            return f"{layout.label}: {words} ({shown_values(labels)})"
        if layout.flag:
            name, first = layout.flag
            return f"{name}: true = {two[not first]} is better, false = {two[first]} is better"
        if layout.one_hot:
            return f"{layout.one_hot[0]} = 1: {two.first} is better, {layout.one_hot[1]} = 1: {two.second} is better"
        if layout.by_position or layout.scores is None:
            return f"{two.first} is better than {two.second}"
        less = lower_is_better(layout.scores) if self.lower is None else self.lower
        return f"{' and '.join(layout.scores)}: the {'lower' if less else 'higher'} is better"

    def refuse_contradiction(self, layout: Layout, rows: Sequence[Fields]) -> None:
        """Raise DataError if the scores of most rows disagree with their label, or with chosen and rejected."""
        if layout.scores is None or self.label_map or not (layout.label or layout.by_position):
            return
        agree: Counter[bool] = Counter()
        for fields in rows:
            with suppress(RowError):
                by_score = by_scores(fields, layout.scores, lower=self.lower)
                verdict = Verdict.A if layout.by_position else self._verdict(fields, layout)
                if by_score in _SIDES and verdict in _SIDES:
                    agree[by_score is verdict] += 1
        if agree[False] > agree[True]:
            what = layout.label or f"{layout.two.first} as the better response"
            swap = f"--columns chosen={layout.two.second},rejected={layout.two.first}"
            raise DataError(
                f"{what} contradicts {' and '.join(layout.scores)} in {agree[False]} of {agree.total()} rows",
                hint=f"{'--label-map 1=a,0=b' if layout.label else swap} turns it round; "
                "--label-map lower if lower scores are better",
            )


def read_file(rows: Sequence[Row], label_map: str, named: frozenset[str]) -> tuple[RowParser, Sequence[str]]:
    """Look at all rows and return what parses one, and how labels are read, for people.

    `label_map` is --label-map, `named` the names that --columns gives. DataError for a label that may mean two things.
    """
    lower = {"lower": True, "higher": False}.get(label_map.strip().casefold())
    reader = _Reader(named, parse_label_map(label_map), lower, {})
    by_layout: dict[Layout, list[Fields]] = defaultdict(list)
    says: dict[str, None] = {}
    for row in rows:
        if row.problem:
            continue
        fields = _with_columns(Fields(row))
        if published := _published(fields):
            says[published[1]] = None
        elif layout := reader.layout(fields):
            by_layout[layout].append(fields)
        elif fields.first(LIST_COLUMNS):
            says[f"{fields.first(LIST_COLUMNS)}: the best against the worst, by their scores or ranks"] = None
    for layout, part in by_layout.items():
        labels = [label_of(one, layout) for one in part if layout.label and not is_missing(one.value(layout.label))]
        if layout.label and not reader.label_map:
            reader.readings[layout] = settle(layout, labels)
        reader.refuse_contradiction(layout, part)
        says[reader.says(layout, labels)] = None
    return lambda fields: reader.parse(fields), tuple(says)


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


def _tied(parsed: Parsed) -> Parsed:
    return Parsed(skipped=(TIE,), tied=next((replace(pair, has_preference=False) for pair in parsed.pairs), None))


def _unknown_layout(fields: Fields) -> RowError:
    found = [str(column) for column in fields.row.values]
    close: Callable[[str], list[str]] = lambda c: difflib.get_close_matches(c, _WANTED, 1, 0.75)
    near = [f"{c!r} for {m[0]!r}" for c in found if (m := close(c)) and m[0] != c]
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
    column, source = fields.first(RUBRIC_COLUMNS), fields.row.values.get("source")
    pair = PreferencePair(
        id=pair_id,
        prompt=prompt,
        chosen=chosen,
        rejected=rejected,
        domain=fields.optional_text("domain") or NO_DOMAIN,
        subset=fields.optional_text("subset"),
        chosen_first=drawn_first(pair_id) if first_is_chosen is None else first_is_chosen,
        strength=fields.integer("strength", 0, 1_000_000) if fields.has("strength") else None,
        rubrics=fields.rubrics(column) if column else (),
        source=source if isinstance(source, str) else "",
    )
    return Parsed(pairs=(pair,), id=own_id)


def score(results: Sequence[PairResult], tie_credit: float) -> dict[str, Any]:
    """Micro accuracy over all pairs, overall, by domain and by subset; no verdict counts as wrong."""
    by_domain: dict[str, list[PairResult]] = defaultdict(list)
    by_subset: dict[str, list[PairResult]] = defaultdict(list)
    for result in results:
        by_domain[result.pair.domain].append(result)
        by_subset[result.pair.subset].append(result)
    return {
        "overall": accuracy(results, tie_credit),
        "by_domain": {name: accuracy(part, tie_credit) for name, part in sorted(by_domain.items())},
        "by_subset": {name: accuracy(part, tie_credit) for name, part in sorted(by_subset.items()) if name},
        "rule": "correct / total over all pairs; a missing verdict is wrong",
    }


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
        "label": f"which is better; also {', '.join(LABEL_COLUMNS[1:])}, a_is_better …",
        "id": "optional: text or whole number; a repeated id gets a number",
        "domain": "optional text",
        "subset": "optional text",
        "rubrics": "optional: criteria, one a line, or a list",
        "strength": "optional whole number: how strong the preference is",
        "source": "optional text: where the pair is from; the default fit learns what sources have in common",
    },
    parse=parse,
    read_file=read_file,
    score=score,
)
