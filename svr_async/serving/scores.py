"""One response scored alone by a bank's rubrics, without another beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from svr_async.core.pair import Prompt
from svr_async.core.rubric import Rubric
from svr_async.core.table import to_html
from svr_async.core.verdict import Outcome
from svr_async.engine.concurrency import in_sync
from svr_async.errors import UsageError
from svr_async.judges.protocol import Judge
from svr_async.scoring.bank import RubricBank
from svr_async.serving.engine import Engine, opened
from svr_async.serving.pairs import chooser_of, judge_of, label_of
from svr_async.serving.texts import PromptLike, ResponseLike, as_prompt, as_response
from svr_async.serving.views import score_sheet


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredRubric:
    """What a judge made of a response on one rubric: `value` in [0, 1], None where it could not tell.

    `importance` is alpha times weight.
    """

    rubric: Rubric
    importance: float
    value: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """How well a response does on the rubrics for its prompt.

    `value` in [0, 1] is the mean over the rubrics that the judge could decide, weighed by their importance; None where
    it decided none that counts, or where there is no answer: `outcome` and `detail` say why. `judge` is how the result
    must be labelled.
    """

    value: float | None
    outcome: Outcome
    parts: tuple[ScoredRubric, ...] = ()
    detail: str = ""
    requests: tuple[str, ...] = ()
    judge: str = ""

    def __repr__(self) -> str:
        return f"<Score {self._scored}, {len(self.parts)} rubrics, by {self.judge}>"

    def _repr_html_(self) -> str:
        parts = ((part.rubric, part.importance, part.value) for part in self.parts)
        return to_html(score_sheet(self._scored, parts, judge=self.judge, detail=self.detail))

    @property
    def _scored(self) -> str:
        return f"no score: {self.outcome.value}" if self.value is None else f"{self.value:.2f} of 1"


async def score(
    prompt: PromptLike,
    response: ResponseLike,
    *,
    bank: RubricBank,
    engine: Engine | Judge | str,
    top_k: int | None = None,
) -> Score:
    """Score one response to a prompt on the bank's rubrics for the prompt, in one call (paper `sec:analysis_ablation`).

    Cheaper than pairs where many responses are compared, and in the paper 3.1 points less accurate. Prompt, response
    and `engine` are what `score_pair` takes. UsageError, or what stops an engine, is raised; a failed call is an
    outcome.
    """
    conversation = as_prompt(prompt)
    text, weighted = as_response(response, conversation), weighted_rubrics(bank, conversation, top_k)
    async with opened(engine) as asked:
        answer = await judge_of(asked).score(conversation, text, [rubric for rubric, _ in weighted])
        found = answer.value or {}
        parts = tuple(
            ScoredRubric(rubric=rubric, importance=importance, value=found.get(rubric.id))
            for rubric, importance in weighted
        )
        return Score(
            value=_mean(parts),
            outcome=answer.outcome,
            parts=parts if answer.value is not None else (),
            detail=answer.detail,
            requests=answer.requests,
            judge=label_of(asked),
        )


score_sync = in_sync(score)


def weighted_rubrics(bank: RubricBank | None, prompt: Prompt, top_k: int | None) -> list[tuple[Rubric, float]]:
    """Return the rubrics of a bank for a prompt with their importances, in the order of their ids; UsageError."""
    if not isinstance(bank, RubricBank):
        raise UsageError("scoring a response alone takes the rubrics of a bank", hint="bank=Bank.load(folder)")
    chooser = chooser_of(bank, top_k)
    weighted = [(chooser.bank.rubrics[entry.index].rubric, entry.importance) for entry in chooser.choose(prompt)]
    return sorted(weighted, key=lambda item: item[0].id)


def _mean(parts: Sequence[ScoredRubric]) -> float | None:
    told = [(part.importance, part.value) for part in parts if part.value is not None]
    whole = sum(importance for importance, _ in told)
    return sum(importance * value for importance, value in told) / whole if whole else None
