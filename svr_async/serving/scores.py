"""Scores one response alone: by the rubrics of a bank, or by rubrics with points."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from svr_async.core.pair import Prompt
from svr_async.core.rubric import Rubric
from svr_async.core.table import Parts, Table, to_html
from svr_async.core.verdict import Outcome
from svr_async.engine.concurrency import in_sync
from svr_async.errors import UsageError
from svr_async.scoring.bank import RubricBank
from svr_async.scoring.methods.simple import read_rubric
from svr_async.serving.engine import EngineLike, opened
from svr_async.serving.pairs import chooser_of, heading, judge_of, number
from svr_async.serving.texts import PromptLike, ResponseLike, as_prompt, as_response

SATISFIED = 0.5  # a criterion is satisfied from this score on


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredRubric:
    """The score of a response on one rubric: `value` in [0, 1], None if undecided; `importance` is its weight."""

    rubric: Rubric
    importance: float
    value: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """The score of a response on rubrics.

    By a bank, `value` in [0, 1] is the mean over the decided rubrics, weighted by importance. By points it is
    Σ points · satisfied over all criteria. None without a result: `outcome` and `detail` say why.
    """

    value: float | None
    outcome: Outcome
    parts: tuple[ScoredRubric, ...] = ()
    detail: str = ""
    requests: tuple[str, ...] = ()
    judge: str = ""

    @property
    def coverage(self) -> float:
        """The share of rubrics that the judge decided."""
        return sum(part.value is not None for part in self.parts) / max(1, len(self.parts))

    def __repr__(self) -> str:
        return f"<Score {self._scored}, {len(self.parts)} rubrics, by {self.judge}>"

    def _repr_html_(self) -> str:
        return to_html(self._sheet())

    def _sheet(self) -> Parts:
        yield from heading(self._scored, self.judge, self.detail)
        parts = sorted(self.parts, key=lambda part: -part.importance)
        rows = ((part.rubric.text, number(part.importance, ".2f"), number(part.value, ".2f")) for part in parts)
        yield Table(("rubric", "counts", "score"), tuple(rows))

    @property
    def _scored(self) -> str:
        return f"no score: {self.outcome.value}" if self.value is None else f"{self.value:.2f}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reward:
    """The reward of one response; `reason` is empty, or why the value is the declared fallback.

    `coverage` is the share of its questions that were answered; `members` counts the compared responses, 1 for one
    scored alone.
    """

    value: float
    reason: str = ""
    coverage: float = 1.0
    members: int = 1

    def numbers(self) -> dict[str, float]:
        """Return the same keys for every reward, all numbers."""
        return {
            "svr_score": self.value,
            "svr_fallback": float(bool(self.reason)),
            "svr_coverage": self.coverage,
            "svr_members": float(self.members),
        }

    def facts(self, judge: str) -> dict[str, Any]:
        """Return the same keys for every reward, with the reason and the judge."""
        return {**self.numbers(), "svr_fallback": bool(self.reason), "svr_reason": self.reason, "svr_judge": judge}


async def ascore(
    prompt: PromptLike,
    response: ResponseLike,
    *,
    bank: RubricBank | None = None,
    rubrics: Iterable[Any] = (),
    engine: EngineLike,
    top_k: int | None = None,
) -> Score:
    """Score one response in one call: by the bank's rubrics for the prompt, or by `rubrics` with points.

    A rubric with points is a mapping of `criterion` (or `description`, `text`) and `points` (or `weight`, default 1,
    negative for faults). Other arguments are those of `score_pair`. Scoring by a bank is cheaper than comparing pairs
    and, in the paper, 3.1 points less accurate (`sec:analysis_ablation`).
    """
    conversation = as_prompt(prompt)
    text, criteria = as_response(response, conversation), read_criteria(rubrics)
    weighted = criteria or weighted_rubrics(bank, conversation, top_k)
    async with opened(engine) as asked:
        answer = await judge_of(asked).score(conversation, text, [rubric for rubric, _ in weighted])
        values, label = answer.value or {}, asked.label
    parts = tuple(ScoredRubric(rubric=r, importance=weight, value=values.get(r.id)) for r, weight in weighted)
    points = sum(part.importance for part in parts if (part.value or 0.0) >= SATISFIED)
    value, outcome, detail = points if criteria else _mean(parts), answer.outcome, answer.detail
    missing = [part.rubric.text for part in parts if part.value is None]
    if criteria and missing:  # a missing verdict is not a failed criterion
        value, detail = None, detail or f"no verdict on {missing[0]!r}"
        outcome = Outcome.PARSE_ERROR if outcome is Outcome.SCORED else outcome
    parts = () if answer.value is None else parts
    return Score(value=value, outcome=outcome, parts=parts, detail=detail, requests=answer.requests, judge=label)


score = in_sync(ascore)


def read_criteria(rubrics: Iterable[Any]) -> list[tuple[Rubric, float]]:
    """Return rubrics with their points; UsageError names an invalid one."""
    criteria = []
    for place, rubric in enumerate(rubrics, start=1):
        try:
            criteria.append(read_rubric(rubric))
        except ValueError as error:
            raise UsageError(f"rubric {place}: {error}", hint='write {"criterion": …, "points": …}') from error
    return criteria


def weighted_rubrics(bank: RubricBank | None, prompt: Prompt, top_k: int | None) -> list[tuple[Rubric, float]]:
    """Return the rubrics of a bank for a prompt with their importances, sorted by id; UsageError without a bank."""
    if not isinstance(bank, RubricBank):
        raise UsageError("scoring a response alone needs a bank or rubrics", hint="bank=Bank.load(folder)")
    chooser = chooser_of(bank, top_k)
    weighted = [(chooser.bank.rubrics[entry.index].rubric, entry.importance) for entry in chooser.choose(prompt)]
    return sorted(weighted, key=lambda item: item[0].id)


def _mean(parts: Sequence[ScoredRubric]) -> float | None:
    known = [(part.importance, part.value) for part in parts if part.value is not None]
    total = sum(importance for importance, _ in known)
    return sum(importance * value for importance, value in known) / total if total else None
