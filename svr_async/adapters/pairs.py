"""Any file of preference pairs: published forms first, else two responses and what says which is better."""

from __future__ import annotations

import difflib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from svr_async.adapters import helpsteer3, rmb
from svr_async.adapters.columns import (
    CHOSEN_PAIRS,
    ID_COLUMNS,
    LABEL_COLUMNS,
    LIST_COLUMNS,
    PROMPT_COLUMNS,
    RUBRIC_COLUMNS,
    with_plain_names,
)
from svr_async.adapters.contract import Adapter
from svr_async.adapters.conversations import join_prompt, read_answer
from svr_async.adapters.dataset import RowParser
from svr_async.adapters.fields import Fields, RowError
from svr_async.adapters.groups import best_and_worst
from svr_async.adapters.labels import Verdict, is_missing, shown
from svr_async.adapters.layouts import Layout, by_flag_column, by_one_hot, by_scores, labelled_by, layout_of
from svr_async.adapters.prompts import prompt_of
from svr_async.adapters.records import PairResult, Parsed, accuracy, content_id, drawn_first
from svr_async.adapters.survey import Readings, survey
from svr_async.adapters.tables import Row
from svr_async.core.pair import PreferencePair

ANNOTATORS = ("annotator1", "annotator2", "annotator3")
TIE = "tie (the data prefers neither)"
NO_MAJORITY = "the annotators disagree"
DIFFERENT_PROMPTS = "chosen and rejected answer different conversations"
RECORDED = "a judge's recorded results, not data"
TOLD = "left out by --labels"


@dataclass(frozen=True, slots=True)
class Shape:
    """A form of row that its publisher describes: it applies where all `columns` are present."""

    name: str
    columns: frozenset[str]
    parse: RowParser

    def fits(self, values: Mapping[str, Any]) -> bool:
        """Whether a row has this form."""
        return self.columns <= values.keys()


@dataclass(frozen=True, slots=True)
class Ends:
    """Two responses of a row, and whether the first is better; None where its order says so and another is drawn."""

    first: str
    second: str
    first_is_chosen: bool | None = None


def _parse_pandalm(fields: Fields) -> Parsed:
    """Read PandaLM's form: the majority of three annotators, 0 for a tie, 1 or 2 for the better response."""
    votes = Counter(fields.integer(column, 0, 2) for column in ANNOTATORS)
    winner, count = votes.most_common(1)[0]
    parsed = _finish(fields, Ends("response1", "response2", winner == 1))
    if count == 1:
        return Parsed(skipped=(NO_MAJORITY,))
    return parsed if winner else _tied(parsed)


SHAPES = (
    Shape("HelpSteer3", frozenset(("context", "response1", "response2", "overall_preference")), helpsteer3.parse),
    Shape("RMB", frozenset(rmb.PAIR_COLUMNS), rmb.parse),
    Shape("RMB best-of-N", frozenset(rmb.BEST_OF_N_COLUMNS), rmb.parse),
    Shape("PandaLM", frozenset(("instruction", "response1", "response2", *ANNOTATORS)), _parse_pandalm),
)
_PLAIN_COLUMNS = ("prompt", "chosen", "rejected", "response_a", "response_b", "label")


def _shape(values: Mapping[str, Any]) -> Shape | None:
    return next((shape for shape in SHAPES if shape.fits(values)), None)


def read_file(
    rows: Iterable[Row], labels: str = "", told: frozenset[str] = frozenset()
) -> tuple[RowParser, Sequence[str]]:
    """Look at all rows and return how to read one of them, and how labels are read, for people.

    `labels` is `--labels`, `told` the names that `--columns` gives. DataError where a label can be read in two ways.
    """
    readings = survey(_labelled_rows(rows, told), labels)
    return lambda fields: _parse(Fields(with_plain_names(fields.row)), readings, told), readings.says


def parse(fields: Fields) -> Parsed:
    """Turn one row into a pair, with nothing known of others."""
    return read_file([fields.row])[0](fields)


def _labelled_rows(rows: Iterable[Row], told: frozenset[str]) -> Iterator[tuple[Fields, Layout]]:
    for row in rows:
        plain = with_plain_names(row)
        if plain.problem or _shape(plain.values) or plain.values.get("results") is not None:
            continue
        prepared = _spread(Fields(plain))
        if layout := layout_of(tuple(prepared.row.values), told):
            yield prepared, layout


def _spread(fields: Fields) -> Fields:
    """Return a row with two responses in one list as one with a column for each."""
    values = fields.row.values
    for name in LIST_COLUMNS:
        listed = values.get(name)
        if isinstance(listed, list) and len(listed) == 2 and all(isinstance(one, str) for one in listed):
            spread = {"response_a": listed[0], "response_b": listed[1]}
            return Fields(replace(fields.row, values={**values, **spread}))
    return fields


def _parse(fields: Fields, readings: Readings, told: frozenset[str]) -> Parsed:
    """Turn one row into a pair by the first form that it has."""
    if shape := _shape(fields.row.values):
        return shape.parse(fields)
    if not told & {"chosen", "response_a"} and (ranked := best_and_worst(fields, lower=readings.lower)):
        return _ranked(fields, *ranked)
    fields = _spread(fields)
    layout = layout_of(tuple(fields.row.values), told)
    if layout is None:
        raise _unknown_form(fields)
    if layout.labelled:
        return _by_label(fields, layout, readings)
    return _finish(fields, Ends(*layout.two))


def _ranked(fields: Fields, best: str, worst: str) -> Parsed:
    if not best:
        return Parsed(skipped=(TIE,))
    values = {**fields.row.values, "chosen": best, "rejected": worst}
    return _finish(Fields(replace(fields.row, values=values)), Ends("chosen", "rejected"))


def _by_label(fields: Fields, layout: Layout, readings: Readings) -> Parsed:
    """Read a row with a label; what it is refused for is told beside its label, for all of one label to be missed."""
    if layout.label and fields.has("results"):
        return Parsed(skipped=(RECORDED,))
    verdict = _verdict(fields, layout, readings)
    value = f"column {layout.label!r}: {shown(fields.value(layout.label))}" if layout.label else str(verdict)
    if verdict is Verdict.SKIP:
        return Parsed(skipped=(TOLD,), value=value)
    if verdict is Verdict.TIE:
        with suppress(RowError):
            return replace(_tied(_finish(fields, Ends(*layout.two))), value=value)
        return Parsed(skipped=(TIE,), value=value)
    try:
        return _finish(fields, Ends(*layout.two, verdict is Verdict.A), value)
    except RowError as error:
        error.value = error.value or value
        raise


def _tied(parsed: Parsed) -> Parsed:
    """Return what a row that prefers neither becomes; its pair is kept beside those that are used."""
    return Parsed(skipped=(TIE,), tied=next((replace(pair, has_preference=False) for pair in parsed.pairs), None))


def _verdict(fields: Fields, layout: Layout, readings: Readings) -> Verdict:
    """Return what a row's label, flag or scores say."""
    if layout.label:
        return _read_label(fields, layout, readings)
    if layout.flag:
        return by_flag_column(fields, layout.flag[0], speaks_for_first=layout.flag[1])
    if layout.hot:
        return by_one_hot(fields, layout.hot)
    assert layout.scores is not None
    return by_scores(fields, layout.scores, lower=readings.lower)


def _read_label(fields: Fields, layout: Layout, readings: Readings) -> Verdict:
    labelled = labelled_by(fields, layout)
    if is_missing(labelled.value):
        raise fields.unfit(layout.label, "a value", labelled.value)
    reading = readings.of(layout)
    verdict = reading.read(labelled)
    if verdict is None:
        expected = reading.says.format(a=layout.two.first, b=layout.two.second)
        error = fields.unfit(layout.label, f"a label ({expected}) or tie", labelled.value)
        error.hint = f"mend the row, say what that is (--labels '{reading.flag},…') or skip such rows with --lenient"
        raise error
    return verdict


def _unknown_form(fields: Fields) -> RowError:
    found = [str(column) for column in fields.row.values]
    near = [
        f"{c!r} for {m[0]!r}"
        for c in found
        if (m := difflib.get_close_matches(c, _PLAIN_COLUMNS, 1, 0.75)) != [c] and m
    ]
    return RowError(
        fields.row,
        "no known form of preference pair",
        f"; columns found: {', '.join(found) or 'none'}; wanted a prompt and: response_a + response_b + label; "
        "chosen + rejected" + (f"; did you mean {', '.join(near)}?" if near else ""),
        hint="name the columns: --columns prompt=…,chosen=…,rejected=… or prompt=…,response_a=…,response_b=…,label=…; "
        "or skip such rows with --lenient",
    )


def _finish(fields: Fields, ends: Ends, value: str = "") -> Parsed:
    """Build the pair from two response columns; `value` is what the row's label says."""
    given = prompt_of(fields)
    alone = all(turn.role == "system" for turn in given)
    answers = []
    for column in (ends.first, ends.second):
        try:
            answers.append(read_answer(fields.value(column), transcript=alone))
        except ValueError as error:
            raise fields.unfit(column, str(error).removeprefix("expected "), fields.value(column)) from error
    (before, a), (other_before, b) = answers
    if before != other_before:
        return Parsed(skipped=(DIFFERENT_PROMPTS,), value=value)
    prompt = fields.filled(join_prompt(given, before), fields.first(PROMPT_COLUMNS) or ends.first)
    own_id = fields.identifier(ID_COLUMNS)
    pair_id = own_id or content_id(prompt, a, b)
    chosen, rejected = (b, a) if ends.first_is_chosen is False else (a, b)
    pair = PreferencePair(
        id=pair_id,
        prompt=prompt,
        chosen=chosen,
        rejected=rejected,
        domain=fields.optional_text("domain", "all"),
        subset=fields.optional_text("subset"),
        chosen_first=drawn_first(pair_id) if ends.first_is_chosen is None else ends.first_is_chosen,
        strength=fields.integer("strength", 0, 1_000_000) if fields.has("strength") else None,
        **fields.rubrics(RUBRIC_COLUMNS),
        source=_source(fields),
    )
    return Parsed(pairs=(pair,), id=own_id, value=value)


def _source(fields: Fields) -> str:
    """Return the name of where a pair is from; a column of that name that holds no text means something else."""
    return fields.text("source") if isinstance(fields.row.values.get("source"), str) else ""


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
        "system": "optional text: a system's turn before the prompt",
        "chosen": f"text, message, or messages; with `rejected` (also {', '.join(map(' + '.join, CHOSEN_PAIRS[1:]))})",
        "rejected": "the same; without a prompt both may be whole Human/Assistant transcripts",
        "response_a": "instead of chosen and rejected: two responses (also answer_1, output_b …) and a label",
        "response_b": "see response_a",
        "label": f"which is better, told from all rows; also {', '.join(LABEL_COLUMNS[1:])}, a_is_better …",
        "id": "optional: text or whole number; one that is repeated gets a number",
        "domain": "optional text",
        "subset": "optional text",
        "rubrics": "optional: criteria, one a line, or a list of texts or objects, which may have points",
        "strength": "optional whole number: how strong the preference is",
        "source": "optional text: where the pair is from; the default fit learns what sources have in common",
    },
    parse=parse,
    read_file=read_file,
    score=score,
)
