"""RubricBench (arXiv 2603.01562): 1,147 pairs with human rubrics in five domain groups; strict micro accuracy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from svr_async.adapters.contract import Adapter, OfficialCounts
from svr_async.adapters.fields import Fields, RowError, as_integer
from svr_async.adapters.records import PairResult, Parsed, accuracy, accuracy_by, content_id, mean
from svr_async.core.pair import PreferencePair

OTHER = "OTHER"
GROUPS: Mapping[str, tuple[str, ...]] = {
    "CHAT": ("human-preference", "general", "factuality", "focus", "helpful", "chat"),
    "CODE": ("code", "mbpp"),
    "STEM": ("stem", "math", "mmlu-pro", "gpqa"),
    "IF": ("ifeval", "precise if", "if"),
    "SAFETY": ("harmlessness", "safety"),
}
_GROUP_OF = {domain: group for group, domains in GROUPS.items() for domain in domains}
_RUBRIC_COLUMNS = ("rubrics", "reference_rubrics", "oracle_rubrics", "benchmark_rubrics")


def domain_group(domain: str) -> str:
    """Return the group of a fine domain, whatever its case; OTHER where it is in none."""
    return _GROUP_OF.get(domain.strip().casefold(), OTHER)


def chosen_is_first(fields: Fields) -> bool:
    """Read `label` (0: response A is better, 1: B) or `chosen_candidate` (a, b); both must agree where both are."""
    sides = {column: _side(fields, column) for column in ("label", "chosen_candidate") if fields.has(column)}
    if not sides:
        raise fields.missing("label")
    if len(set(sides.values())) > 1:
        raise RowError(fields.row, "columns 'label' and 'chosen_candidate' contradict each other")
    return next(iter(sides.values()))


def _side(fields: Fields, column: str) -> bool:
    value = fields.value(column)
    number = as_integer(value)
    name = str(value).strip().casefold() if number is None else {0: "a", 1: "b"}.get(number, "")
    if name not in ("a", "b"):
        expected = "0 (A is better) or 1 (B)" if column == "label" else "'a' or 'b'"
        raise fields.unfit(column, expected, value)
    return name == "a"


def parse(fields: Fields) -> Parsed:
    """Turn one case into a pair in its own order; `domain` is the group, `subset` the fine domain."""
    prompt = fields.prompt("instruction")
    a, b = fields.text("response_a"), fields.text("response_b")
    a_is_chosen = chosen_is_first(fields)
    domain = fields.text("domain")
    group = domain_group(domain)
    case_id = fields.identifier(("case_id", "id"))
    pair = PreferencePair(
        id=case_id or content_id(prompt, a, b),
        prompt=prompt,
        chosen=a if a_is_chosen else b,
        rejected=b if a_is_chosen else a,
        domain=group,
        subset=domain,
        chosen_first=a_is_chosen,
        **fields.rubrics(_RUBRIC_COLUMNS),
    )
    return Parsed(pairs=(pair,), id=case_id, group=group, notes=tuple(_remarks(group, domain, pair)))


def _remarks(group: str, domain: str, pair: PreferencePair) -> list[str]:
    remarks = [] if pair.rubrics else ["no reference rubrics"]
    return [*remarks, f"unknown domain {domain!r} put into {OTHER}"] if group == OTHER else remarks


def score(results: Sequence[PairResult], tie_credit: float) -> dict[str, Any]:
    """Return micro accuracy over all pairs, overall and by group, with coverage; no verdict counts as wrong."""
    return {
        "overall": accuracy(results, tie_credit),
        "by_group": accuracy_by(lambda pair: pair.domain, results, tie_credit),
        "coverage": mean([float(result.margin is not None) for result in results]),
        "rule": "correct / total over all pairs; a missing verdict is wrong",
    }


ADAPTER = Adapter(
    name="rubricbench",
    title="RubricBench",
    label="RubricBench",
    spelling=r"rubric[-_. ]?bench",
    sampled=True,
    reading="label: 0 = response_a is better, 1 = response_b is better (or chosen_candidate: a, b)",
    licence="CC BY 4.0 (paper); the data card states none",
    homepage="https://huggingface.co/datasets/DonJoey/rubricbench",
    hub_id="DonJoey/rubricbench",
    hub_files=("data/train-00000-of-00001.parquet",),
    counts=OfficialCounts(
        rows=(1147,), groups={"CHAT": 422, "CODE": 271, "STEM": 250, "IF": 124, "SAFETY": 80}, first_chosen=584
    ),
    schema={
        "case_id": "text, unique",
        "instruction": "text: what the user asked",
        "response_a": "text",
        "response_b": "text",
        "label": "0: response_a is better, 1: response_b (or `chosen_candidate`: a, b)",
        "rubrics": "criteria, one a line (or `reference_rubrics`: a list of texts or objects)",
        "domain": "text: fine domain, grouped into CHAT, CODE, STEM, IF and SAFETY",
    },
    parse=parse,
    score=score,
)
