"""RMB (reward model benchmark): pairs and best-of-N lists by category, a stand-in for HelpSteer3 in training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from svr_async.adapters.contract import Adapter
from svr_async.adapters.fields import Fields, RowError
from svr_async.adapters.records import PairResult, Parsed, accuracy, accuracy_by, content_id, drawn_first
from svr_async.adapters.rewardbench2 import item_accuracy
from svr_async.core.pair import PreferencePair

PAIR_COLUMNS = ("conversation_input", "chosen", "reject")
BEST_OF_N_COLUMNS = ("conversation_input", "bon_best", "loser_list")
BEST_OF_N = "best-of-N records"
EMPTY = "an answer is empty"
IDENTICAL = "the two answers are identical"
_SET_NAMES = ("Pairwise_set", "BoN_set")


def parse(fields: Fields) -> Parsed:
    """Turn one record into a pair, or a best-of-N record into the best against each loser.

    Pairs with an empty answer or two identical answers are left out and counted. Best-of-N records are used
    only where a folder holds no pairwise ones.
    """
    prompt, best_of_n = fields.prompt("conversation_input"), fields.has("bon_best")
    best, losers = answers_of(fields) if best_of_n else (_answer(fields, "chosen"), [_answer(fields, "reject")])
    own_id = fields.identifier(("bon_uid",) if best_of_n else ("pair_uid",))
    name = own_id or content_id(prompt, best, *losers)
    item = f"bon/{name}" if best_of_n else ""
    domain, subset = _category(fields.optional_text("category_path"))
    reasons = [_unusable(best, loser) for loser in losers]
    pairs = tuple(
        PreferencePair(
            id=(pair_id := f"{item}/{index}" if item else name),
            prompt=prompt,
            chosen=best,
            rejected=loser,
            domain=domain,
            subset=subset,
            chosen_first=drawn_first(pair_id),
            item=item,
            slot=(0, index + 1) if item else (),
        )
        for index, (loser, reason) in enumerate(zip(losers, reasons, strict=True))
        if not reason
    )
    return Parsed(
        pairs=pairs,
        id=(item or name) if own_id and (item or pairs) else "",
        skipped=tuple(filter(None, reasons)),
        fallback=BEST_OF_N if best_of_n else "",
    )


def answers_of(fields: Fields) -> tuple[str, list[str]]:
    """Return the best answer of a best-of-N record, and the others."""
    losers = fields.value("loser_list")
    if not isinstance(losers, list) or not losers:
        raise fields.unfit("loser_list", "a list of answers", losers)
    return _answer(fields, "bon_best"), [_answer_text(fields, "loser_list", loser) for loser in losers]


def _unusable(chosen: str, rejected: str) -> str:
    if not chosen.strip() or not rejected.strip():
        return EMPTY
    return IDENTICAL if chosen == rejected else ""


def _category(path: str) -> tuple[str, str]:
    """Split "Pairwise_set/Helpfulness/Chat/Discussion" into ("helpfulness", "Chat/Discussion")."""
    parts = [part for part in path.split("/") if part]
    if parts and parts[0] in _SET_NAMES:
        parts = parts[1:]
    return (parts[0].casefold() if parts else "all"), "/".join(parts[1:])


def _answer(fields: Fields, column: str) -> str:
    return _answer_text(fields, column, fields.value(column))


def _answer_text(fields: Fields, column: str, value: Any) -> str:
    """Return the text of an answer, which is an object with `answer` and who wrote it."""
    if not isinstance(value, dict):
        raise fields.unfit(column, "an object with `answer`", value)
    if not isinstance(value.get("answer"), str):
        raise RowError(fields.row, f"column {column!r}: expected a text in `answer`")
    return str(value["answer"])


def score(results: Sequence[PairResult], tie_credit: float) -> dict[str, Any]:
    """Return accuracy, overall, by domain and by category; for best-of-N also the share of items won throughout."""
    items = [result for result in results if result.pair.item]
    return {
        "overall": accuracy(results, tie_credit),
        "by_domain": accuracy_by(lambda pair: pair.domain, results, tie_credit),
        "by_subset": accuracy_by(lambda pair: f"{pair.domain}/{pair.subset}", results, tie_credit),
        "best_of_n": item_accuracy(items, tie_credit) if items else None,
        "rule": "correct / total over pairs; best_of_n: every loser of an item must lose",
    }


ADAPTER = Adapter(
    name="rmb",
    title="RMB",
    licence="none stated in the git repository",
    homepage="https://github.com/Zhou-Zoey/RMB-Reward-Model-Benchmark",
    training=True,
    schema={
        "pair_uid": "text, unique (bon_uid in best-of-N records)",
        "conversation_input": "list of {role, content}, ending with the user",
        "chosen": "object with `answer` (bon_best in best-of-N records)",
        "reject": "object with `answer` (loser_list, a list of them, in best-of-N records)",
        "category_path": "text such as Pairwise_set/Helpfulness/Chat/Discussion",
    },
    parse=parse,
    score=score,
)
