"""Any file of preference pairs: a table of the forms that rows come in, tried in order."""

from __future__ import annotations

import difflib
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from svr_async.adapters import helpsteer3, rmb
from svr_async.adapters.contract import Adapter
from svr_async.adapters.conversations import join_prompt, read_answer
from svr_async.adapters.dataset import RowParser
from svr_async.adapters.fields import Fields, RowError, as_integer
from svr_async.adapters.records import PairResult, Parsed, accuracy, content_id, drawn_first
from svr_async.vocabulary.pair import PreferencePair, Prompt, user_prompt

PROMPT_COLUMNS = (
    "prompt", "messages", "conversations", "conversation", "context", "instruction", "question", "query",
)  # fmt: skip
ID_COLUMNS = ("id", "pair_id", "case_id", "uid", "idx")
LABEL_COLUMNS = ("label", "winner", "chosen_candidate", "preference")
RUBRIC_COLUMNS = ("rubrics", "reference_rubrics")
ANNOTATORS = ("annotator1", "annotator2", "annotator3")
TIE = "tie (the data prefers neither)"
NO_MAJORITY = "the annotators disagree"
DIFFERENT_PROMPTS = "chosen and rejected answer different conversations"
_A_NAMES = ("0", "a", "response_a", "model_a", "[[a]]")
_B_NAMES = ("1", "b", "response_b", "model_b", "[[b]]")
_TIE_NAMES = ("tie", "tie (bothbad)", "bothbad", "both", "equal", "same", "neither", "draw", "c", "[[c]]")


@dataclass(frozen=True, slots=True)
class Shape:
    """One form of row: it applies where all `columns` are present and, if `one_of` is given, one of those."""

    name: str
    columns: tuple[str, ...]
    parse: RowParser
    one_of: tuple[str, ...] = ()

    def fits(self, fields: Fields) -> bool:
        """Whether a row has this form."""
        values = fields.row.values
        return all(c in values for c in self.columns) and (not self.one_of or any(c in values for c in self.one_of))

    def __str__(self) -> str:
        wanted = [*self.columns, "|".join(self.one_of)] if self.one_of else self.columns
        return " + ".join(wanted)


def _prompt(fields: Fields) -> Prompt:
    """Return the prompt from the first prompt column there is; an alpaca-style `input` goes below the instruction."""
    column = fields.first(PROMPT_COLUMNS)
    if not column:
        return ()
    if column == "instruction":
        return _instruction(fields)
    return fields.prompt(column)


def _instruction(fields: Fields) -> Prompt:
    extra = fields.optional_text("input")
    if not extra.strip() or not isinstance(fields.value("instruction"), str):
        return fields.prompt("instruction")
    instruction = fields.text("instruction")
    return user_prompt(f"{instruction}\n\n{extra}" if instruction.strip() else extra)


def _parse_labelled(fields: Fields) -> Parsed:
    """Read `response_a`, `response_b` and a label; the two may be texts, messages or lists of messages."""
    label = _label(fields)
    if label is None:
        return Parsed(skipped=(TIE,))
    return _finish(fields, _prompt(fields), "response_a", "response_b", first_is_chosen=label == 0)


def _label(fields: Fields) -> int | None:
    """Return 0 where A is better, 1 where B is, None for a tie."""
    column = fields.first(LABEL_COLUMNS)
    if not column:
        raise fields.missing("label")
    value = fields.value(column)
    number = as_integer(value)
    name = str(value if number is None else number).strip().casefold()
    if name in _TIE_NAMES:
        return None
    if name not in _A_NAMES + _B_NAMES or isinstance(value, bool):
        raise fields.unfit(column, "0, 1, A, B, response_a, response_b or tie", value)
    return 0 if name in _A_NAMES else 1


def _parse_chosen(fields: Fields) -> Parsed:
    """Read `chosen` and `rejected`: texts, messages, lists of messages, or whole transcripts without a prompt."""
    return _finish(fields, _prompt(fields), "chosen", "rejected", first_is_chosen=None)


def _parse_llmbar(fields: Fields) -> Parsed:
    """Read LLMBar's form: `input`, `output_1`, `output_2`, label 1 or 2; files of judges' results are left out."""
    if fields.has("results"):
        return Parsed(skipped=("a judge's recorded results, not data",))
    label = fields.integer("label", 1, 2)
    return _finish(fields, fields.prompt("input"), "output_1", "output_2", first_is_chosen=label == 1)


def _parse_pandalm(fields: Fields) -> Parsed:
    """Read PandaLM's form: the majority of three annotators, 0 for a tie, 1 or 2 for the better response."""
    votes = Counter(fields.integer(column, 0, 2) for column in ANNOTATORS)
    winner, count = votes.most_common(1)[0]
    prompt = _instruction(fields)
    parsed = _finish(fields, prompt, "response1", "response2", first_is_chosen=winner == 1)
    if count == 1:
        return Parsed(skipped=(NO_MAJORITY,))
    return parsed if winner else Parsed(skipped=(TIE,))


def _finish(fields: Fields, given: Prompt, first: str, second: str, *, first_is_chosen: bool | None) -> Parsed:
    """Build the pair from two response columns; None for `first_is_chosen`: the first is chosen, the order is drawn."""
    answers = []
    for column in (first, second):
        try:
            answers.append(read_answer(fields.value(column), transcript=not given))
        except ValueError as error:
            raise fields.unfit(column, str(error).removeprefix("expected "), fields.value(column)) from error
    (before, a), (other_before, b) = answers
    if before != other_before:
        return Parsed(skipped=(DIFFERENT_PROMPTS,))
    prompt = fields.filled(join_prompt(given, before), fields.first(PROMPT_COLUMNS) or first)
    own_id = fields.identifier(ID_COLUMNS)
    pair_id = own_id or content_id(prompt, a, b)
    chosen, rejected = (b, a) if first_is_chosen is False else (a, b)
    column = fields.first(RUBRIC_COLUMNS)
    pair = PreferencePair(
        id=pair_id,
        prompt=prompt,
        chosen=chosen,
        rejected=rejected,
        domain=fields.optional_text("domain", "all"),
        subset=fields.optional_text("subset"),
        chosen_first=drawn_first(pair_id) if first_is_chosen is None else first_is_chosen,
        strength=fields.integer("strength", 0, 1_000_000) if fields.has("strength") else None,
        rubrics=fields.rubrics(column) if column else (),
        source=_source(fields),
    )
    return Parsed(pairs=(pair,), id=own_id)


def _source(fields: Fields) -> str:
    """Return the name of where a pair is from; a column of that name that holds no text means something else."""
    return fields.text("source") if isinstance(fields.row.values.get("source"), str) else ""


SHAPES = (
    Shape("HelpSteer3", ("context", "response1", "response2", "overall_preference"), helpsteer3.parse),
    Shape("RMB", rmb.PAIR_COLUMNS, rmb.parse),
    Shape("RMB best-of-N", rmb.BEST_OF_N_COLUMNS, rmb.parse),
    Shape("PandaLM", ("instruction", "response1", "response2", *ANNOTATORS), _parse_pandalm),
    Shape("LLMBar", ("input", "output_1", "output_2", "label"), _parse_llmbar),
    Shape("labelled", ("response_a", "response_b"), _parse_labelled, LABEL_COLUMNS),
    Shape("chosen and rejected", ("chosen", "rejected"), _parse_chosen),
)
_PLAIN_COLUMNS = ("prompt", "chosen", "rejected", "response_a", "response_b", "label")


def parse(fields: Fields) -> Parsed:
    """Turn one row into a pair by the first form that it has."""
    for shape in SHAPES:
        if shape.fits(fields):
            return shape.parse(fields)
    found = [str(column) for column in fields.row.values]
    near = [
        f"{c!r} for {m[0]!r}"
        for c in found
        if (m := difflib.get_close_matches(c, _PLAIN_COLUMNS, 1, 0.75)) != [c] and m
    ]
    wanted = "; ".join(map(str, SHAPES[-2:]))
    raise RowError(
        fields.row,
        "no known form of preference pair",
        f"; columns found: {', '.join(found) or 'none'}; wanted a prompt and: {wanted}"
        + (f"; did you mean {', '.join(near)}?" if near else ""),
    )


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
        "prompt": "text or list of {role, content} (or messages, conversations, instruction + input, question …)",
        "chosen": "text, message, or list of messages; with `rejected`",
        "rejected": "the same; without a prompt both may be whole Human/Assistant transcripts",
        "response_a": "instead of chosen and rejected: two responses and a label",
        "response_b": "see response_a",
        "label": "0, A or response_a; 1, B or response_b; ties are left out and counted",
        "id": "optional: text or whole number, unique",
        "domain": "optional text",
        "subset": "optional text",
        "rubrics": "optional: criteria, one a line, or a list",
        "strength": "optional whole number: how strong the preference is",
        "source": "optional text: where the pair is from; the default fit learns what sources have in common",
    },
    parse=parse,
    score=score,
)
