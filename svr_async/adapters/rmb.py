"""RMB (reward model benchmark): pairs and best-of-N lists by category, a stand-in for HelpSteer3 in training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from svr_async.adapters.contract import Adapter
from svr_async.adapters.fields import Fields, RowError
from svr_async.adapters.records import PairResult, Parsed, accuracy, accuracy_by, content_id, drawn_first
from svr_async.adapters.rewardbench2 import item_accuracy
from svr_async.core.pair import NO_DOMAIN, PreferencePair, Prompt

PAIR_COLUMNS = ("conversation_input", "chosen", "reject")
BEST_OF_N_COLUMNS = ("conversation_input", "bon_best", "loser_list")
BEST_OF_N = "best-of-N records, left out as there are pairs"
READING = "chosen (or bon_best) is better than reject (or loser_list)"
EMPTY = "an answer is empty"
IDENTICAL = "the two answers are identical"
_SET_NAMES = ("Pairwise_set", "BoN_set")


def parse(fields: Fields) -> Parsed:
    """Turn one record into a pair, or a best-of-N record into the best against each loser.

    Pairs with an empty answer or two identical answers are left out and counted. Best-of-N records are used
    only where a folder holds no pairwise ones.
    """
    return _parse_best_of_n(fields) if fields.has("bon_best") else _parse_pair(fields)


def _parse_pair(fields: Fields) -> Parsed:
    prompt = fields.prompt("conversation_input")
    chosen, rejected = _answer(fields, "chosen"), _answer(fields, "reject")
    given = fields.identifier(("pair_uid",))
    if reason := _unusable(chosen, rejected):
        return Parsed(skipped=(reason,))
    return Parsed(
        pairs=(_pair(fields, prompt, chosen, rejected, given or content_id(prompt, chosen, rejected)),), id=given
    )


def _parse_best_of_n(fields: Fields) -> Parsed:
    prompt, best, answers = best_and_losers(fields)
    own_id = fields.identifier(("bon_uid",))
    item = f"bon/{own_id or content_id(prompt, best, *answers)}"
    reasons = [_unusable(best, answer) for answer in answers]
    pairs = tuple(
        _pair(fields, prompt, best, answer, f"{item}/{index}", item=item, slot=(0, index + 1))
        for index, (answer, reason) in enumerate(zip(answers, reasons, strict=True))
        if not reason
    )
    return Parsed(pairs=pairs, id=item if own_id else "", skipped=tuple(filter(None, reasons)), fallback=BEST_OF_N)


def best_and_losers(fields: Fields) -> tuple[Prompt, str, list[str]]:
    """Return the prompt, the best answer and the others of a best-of-N record."""
    prompt, best = fields.prompt("conversation_input"), _answer(fields, "bon_best")
    losers = fields.value("loser_list")
    if not isinstance(losers, list) or not losers:
        raise fields.unfit("loser_list", "a list of answers", losers)
    return prompt, best, [_answer_text(fields, "loser_list", loser) for loser in losers]


def _unusable(chosen: str, rejected: str) -> str:
    if not chosen.strip() or not rejected.strip():
        return EMPTY
    return IDENTICAL if chosen == rejected else ""


def _pair(
    fields: Fields,
    prompt: Prompt,
    chosen: str,
    rejected: str,
    pair_id: str,
    *,
    item: str = "",
    slot: tuple[int, ...] = (),
) -> PreferencePair:
    domain, subset = _category(fields.optional_text("category_path"))
    return PreferencePair(
        id=pair_id,
        prompt=prompt,
        chosen=chosen,
        rejected=rejected,
        domain=domain,
        subset=subset,
        chosen_first=drawn_first(pair_id),
        item=item,
        slot=slot,
    )


def _category(path: str) -> tuple[str, str]:
    """Split "Pairwise_set/Helpfulness/Chat/Discussion" into ("helpfulness", "Chat/Discussion")."""
    parts = [part for part in path.split("/") if part]
    if parts and parts[0] in _SET_NAMES:
        parts = parts[1:]
    return (parts[0].casefold() if parts else NO_DOMAIN), "/".join(parts[1:])


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
    """Micro accuracy, overall, by domain and by category; for best-of-N also the share of items won throughout."""
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
    reading=READING,
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
