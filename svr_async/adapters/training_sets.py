"""Sets to train on: HelpSteer3 Preference (arXiv 2505.11475), and RMB."""

from __future__ import annotations

import html
from typing import Any

from svr_async.adapters.contract import Adapter
from svr_async.adapters.fields import Fields
from svr_async.adapters.records import Parsed, micro_scores, pair_of
from svr_async.core.pair import NO_DOMAIN, Message

TIE = "tie (overall_preference is 0)"
BEST_OF_N = "best-of-N records, left out"
EMPTY = "an answer is empty"
IDENTICAL = "the two answers are identical"
_TRAIN_ROWS, _VALIDATION_ROWS = 38_459, 2_017
_SET_NAMES = ("", "Pairwise_set", "BoN_set")


def _plain(text: str) -> str:
    """Return a text without HTML entities and outer white space, as the paper's code reads it."""
    return html.unescape(text).strip()


def parse_helpsteer3(fields: Fields) -> Parsed:
    """Turn one row into a pair: below 0 response1 is chosen, above 0 response2; 0 is a tie and is left out."""
    context = tuple(Message(turn.role, _plain(turn.content)) for turn in fields.prompt("context"))
    prompt = fields.filled(context, "context")
    first, second = _plain(fields.text("response1")), _plain(fields.text("response2"))
    preference = fields.integer("overall_preference", -3, 3)
    kind: dict[str, Any] = {"has_preference": preference != 0, "strength": abs(preference)}
    kind |= {"domain": fields.optional_text("domain") or NO_DOMAIN, "subset": fields.optional_text("language")}
    pair = pair_of(prompt, first, second, first_is_better=preference < 0, **kind)
    return Parsed(pairs=(pair,)) if preference else Parsed(skipped=TIE, tied=pair)


def parse_rmb(fields: Fields) -> Parsed:
    """Turn one record into a pair; an empty answer, two identical ones and best-of-N records are left out."""
    if fields.has("bon_best"):
        return Parsed(skipped=BEST_OF_N)
    prompt = fields.prompt("conversation_input")
    chosen, rejected = (_answer(fields, column, fields.value(column)) for column in ("chosen", "reject"))
    given = fields.identifier(("pair_uid",))
    if not chosen.strip() or not rejected.strip():
        return Parsed(skipped=EMPTY)
    if chosen == rejected:
        return Parsed(skipped=IDENTICAL)
    first, *rest = [part for part in fields.optional_text("category_path").split("/") if part not in _SET_NAMES] or [""]
    domain = first.casefold() or NO_DOMAIN
    return Parsed(pairs=(pair_of(prompt, chosen, rejected, given, domain=domain, subset="/".join(rest)),), id=given)


def _answer(fields: Fields, column: str, value: Any) -> str:
    if isinstance(value, dict) and isinstance(value.get("answer"), str):
        return str(value["answer"])
    raise fields.unfit(column, "an object with a text in `answer`", value)


HELPSTEER3 = Adapter(
    name="helpsteer3",
    title="HelpSteer3 Preference",
    licence="CC BY 4.0",
    hub_id="nvidia/HelpSteer3",
    hub_files=("preference/train.jsonl.gz", "preference/validation.jsonl.gz"),
    rows=(_TRAIN_ROWS, _VALIDATION_ROWS, _TRAIN_ROWS + _VALIDATION_ROWS),
    training=True,
    reading="overall_preference: below 0 = response1 is better, above 0 = response2 is better",
    ruled=False,
    columns=("domain", "language", "context", "response1", "response2", "overall_preference"),
    parse=parse_helpsteer3,
    score=micro_scores,
)
RMB = Adapter(
    name="rmb",
    title="RMB",
    licence="not stated in the git repository",
    training=True,
    reading="chosen is better than reject",
    columns=("pair_uid", "conversation_input", "chosen", "reject", "category_path"),
    parse=parse_rmb,
    score=micro_scores,
)
