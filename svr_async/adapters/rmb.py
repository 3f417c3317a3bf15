"""RMB (reward model benchmark): pairs by category, a stand-in for HelpSteer3 in training; best-of-N lists to rank."""

from __future__ import annotations

from typing import Any

from svr_async.adapters.contract import Adapter
from svr_async.adapters.fields import Fields, RowError
from svr_async.adapters.records import Parsed, content_id, drawn_first, micro_scores
from svr_async.core.pair import NO_DOMAIN, PreferencePair, Prompt

PAIR_COLUMNS = ("conversation_input", "chosen", "reject")
BEST_OF_N_COLUMNS = ("conversation_input", "bon_best", "loser_list")
READING = "chosen is better than reject"
BEST_OF_N = "best-of-N records, left out (svr rank reads them)"
EMPTY = "an answer is empty"
IDENTICAL = "the two answers are identical"
_SET_NAMES = ("Pairwise_set", "BoN_set")


def parse(fields: Fields) -> Parsed:
    """Turn one record into a pair; an empty answer, two identical ones and best-of-N records are left out."""
    if fields.has("bon_best"):
        return Parsed(skipped=(BEST_OF_N,))
    prompt = fields.prompt("conversation_input")
    chosen, rejected = (_answer(fields, column, fields.value(column)) for column in ("chosen", "reject"))
    given = fields.identifier(("pair_uid",))
    if chosen == rejected or not chosen.strip() or not rejected.strip():
        return Parsed(skipped=(IDENTICAL if chosen.strip() and chosen == rejected else EMPTY,))
    pair_id = given or content_id(prompt, chosen, rejected)
    first, *rest = [
        part for part in fields.optional_text("category_path").split("/") if part and part not in _SET_NAMES
    ] or [""]
    pair = PreferencePair(
        id=pair_id,
        prompt=prompt,
        chosen=chosen,
        rejected=rejected,
        domain=first.casefold() or NO_DOMAIN,
        subset="/".join(rest),
        chosen_first=drawn_first(pair_id),
    )
    return Parsed(pairs=(pair,), id=given)


def best_and_losers(fields: Fields) -> tuple[Prompt, str, list[str]]:
    """Return the prompt, the best answer and the others of a best-of-N record."""
    prompt, best = fields.prompt("conversation_input"), _answer(fields, "bon_best", fields.value("bon_best"))
    losers = fields.value("loser_list")
    if not isinstance(losers, list) or not losers:
        raise fields.unfit("loser_list", "a list of answers", losers)
    return prompt, best, [_answer(fields, "loser_list", loser) for loser in losers]


def _answer(fields: Fields, column: str, value: Any) -> str:
    if not isinstance(value, dict):
        raise fields.unfit(column, "an object with `answer`", value)
    if not isinstance(value.get("answer"), str):
        raise RowError(fields.row, f"column {column!r}: expected a text in `answer`")
    return str(value["answer"])


ADAPTER = Adapter(
    name="rmb",
    title="RMB",
    licence="none stated in the git repository",
    homepage="https://github.com/Zhou-Zoey/RMB-Reward-Model-Benchmark",
    training=True,
    reading=READING,
    schema={
        "pair_uid": "text, unique",
        "conversation_input": "list of {role, content}, ending with the user",
        "chosen": "object with `answer`",
        "reject": "object with `answer`",
        "category_path": "text such as Pairwise_set/Helpfulness/Chat/Discussion",
    },
    parse=parse,
    score=micro_scores,
)
