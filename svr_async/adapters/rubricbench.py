"""RubricBench (arXiv 2603.01562): 1,147 pairs with human rubrics in five domain groups; strict micro accuracy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from svr_async.adapters.contract import Adapter
from svr_async.adapters.fields import Fields, RowError
from svr_async.adapters.records import PairResult, Parsed, accuracy, accuracy_by, mean, pair_of

OTHER = "OTHER"
GROUPS: Mapping[str, tuple[str, ...]] = {
    "CHAT": ("human-preference", "general", "factuality", "focus", "helpful", "chat"),
    "CODE": ("code", "mbpp"),
    "STEM": ("stem", "math", "mmlu-pro", "gpqa"),
    "IF": ("ifeval", "precise if", "if"),
    "SAFETY": ("harmlessness", "safety"),
}
_GROUP_OF = {domain: group for group, domains in GROUPS.items() for domain in domains}
_SIDES = {"label": {"0": True, "1": False}, "chosen_candidate": {"a": True, "b": False}}
_RUBRIC_COLUMNS = ("rubrics", "reference_rubrics", "oracle_rubrics", "benchmark_rubrics")


def _chosen_is_first(fields: Fields) -> bool:
    """Read `label` (0: response A is better, 1: B) or `chosen_candidate` (a, b); if both are there, they must agree."""
    found = set()
    for column, sides in _SIDES.items():
        if fields.has(column):
            value = str(fields.value(column)).strip().casefold().removesuffix(".0")
            if value not in sides:
                raise fields.unfit(column, "0 (A is better) or 1 (B)" if "0" in sides else "a or b", value)
            found.add(sides[value])
    if not found:
        raise fields.missing("label")
    if len(found) > 1:
        raise RowError(fields.row, "columns 'label' and 'chosen_candidate' contradict each other")
    return found.pop()


def parse(fields: Fields) -> Parsed:
    """Turn one row into a pair in the data's order; `domain` is its group, `subset` its fine domain."""
    prompt = fields.prompt("instruction")
    a, b = fields.text("response_a"), fields.text("response_b")
    a_is_chosen = _chosen_is_first(fields)
    domain = fields.text("domain")
    group = _GROUP_OF.get(domain.strip().casefold(), OTHER)
    case_id = fields.identifier(("case_id", "id"))
    kind = {"domain": group, "subset": domain, **fields.rubrics(_RUBRIC_COLUMNS)}
    pair = pair_of(prompt, a, b, case_id, first_is_better=a_is_chosen, **kind)
    remarks = {"no reference rubrics": not pair.rubrics, f"unknown domain {domain!r} put into {OTHER}": group == OTHER}
    return Parsed(pairs=(pair,), id=case_id, group=group, notes=tuple(text for text, odd in remarks.items() if odd))


def score(results: Sequence[PairResult], tie_credit: float) -> dict[str, Any]:
    """Return micro accuracy over all pairs, overall and by group, with coverage; no verdict counts as wrong."""
    return {
        "overall": accuracy(results, tie_credit),
        "by_group": accuracy_by(lambda pair: pair.domain, results, tie_credit),
        "coverage": mean([float(result.margin is not None) for result in results]),
        "rule": "correct / total over all pairs; a missing verdict is wrong",
    }


RUBRICBENCH = Adapter(
    name="rubricbench",
    title="RubricBench",
    spelling=r"rubric[-_. ]?bench",
    reading="label: 0 = response_a is better, 1 = response_b is better (or chosen_candidate: a, b)",
    licence="CC BY 4.0 (paper); not stated in the data card",
    hub_id="DonJoey/rubricbench",
    hub_files=("data/train-00000-of-00001.parquet",),
    rows=(1147,),
    groups={"CHAT": 422, "CODE": 271, "STEM": 250, "IF": 124, "SAFETY": 80},
    columns=("case_id", "instruction", "response_a", "response_b", "label", "rubrics", "domain"),
    parse=parse,
    score=score,
)
