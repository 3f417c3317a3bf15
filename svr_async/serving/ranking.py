"""The best of several responses: margins between them, and the scores that explain those margins best.

    pairwise    responses side by side, every two or as a schedule says    N (N − 1) / 2 calls, or fewer
    pointwise   every response alone                                       N calls

Both give margins F_ij between responses; the scores are the least-squares solution of s_i − s_j ≈ F_ij with Σ s = 0
(`schedules.py`). With all margins known, s_i is the mean of F_ij over all j.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import combinations
from typing import Any, Literal

from svr_async.core.pair import Prompt
from svr_async.core.rubric import Rubric
from svr_async.core.table import to_html
from svr_async.engine.concurrency import in_sync
from svr_async.errors import UsageError
from svr_async.judges.protocol import Judge
from svr_async.scoring.bank import RubricBank
from svr_async.serving.engine import Engine, opened
from svr_async.serving.pairs import PairVerdict, Shown, all_of, judge_of, label_of, method_of, score_open_pair
from svr_async.serving.schedules import Margins, Pair, Schedule, check_schedule, pairs_of, potentials
from svr_async.serving.scores import weighted_rubrics
from svr_async.serving.texts import PromptLike, ResponseLike, as_prompt, as_responses
from svr_async.serving.views import number, ranking_sheet

How = Literal["auto", "pairwise", "pointwise"]
Verdicts = dict[Pair, PairVerdict]
SHOWN = 5  # responses of a ranking that is printed in a line
PAIRWISE_UP_TO = 6  # 15 calls; beyond it `auto` scores each response alone


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """Responses by score, best first; ties keep the order given.

    `order` holds their places in the given list (from 0); `scores` are in the order given, None without a verdict.
    `margins` holds F_ij for i < j, positive if i is better. `questions` counts questions, cached or sent. `verdicts`
    holds the verdicts of pairwise comparisons by (place of A, place of B).
    """

    order: tuple[int, ...]
    scores: tuple[float | None, ...]
    margins: Mapping[tuple[int, int], float]
    questions: int
    method: str
    judge: str
    verdicts: Mapping[tuple[int, int], PairVerdict] = field(default_factory=dict)

    @property
    def best(self) -> int | None:
        """The place of the best response, the first of equal ones; None without any verdict."""
        return self.order[0] if self.scores[self.order[0]] is not None else None

    @property
    def undecided(self) -> bool:
        """Whether all known scores are equal, so `best` is arbitrary."""
        return len({score for score in self.scores if score is not None}) < 2

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values without verdicts; margins are keyed `i-j`."""
        margins = {f"{i}-{j}": margin for (i, j), margin in self.margins.items()}
        found = {"order": self.order, "scores": self.scores, "best": self.best, "undecided": self.undecided}
        return found | {"margins": margins, "method": self.method, "questions": self.questions, "judge": self.judge}

    def __repr__(self) -> str:
        scores = ", ".join(f"{place} ({number(self.scores[place])})" for place in self.order[:SHOWN])
        more = f" … {len(self.order) - SHOWN} more" if len(self.order) > SHOWN else ""
        return f"<Ranking {scores}{more}, {self.method}, by {self.judge}>"

    def _repr_html_(self) -> str:
        return to_html(
            ranking_sheet(self.order, self.scores, method=self.method, questions=self.questions, judge=self.judge)
        )


async def arank(
    prompt: PromptLike,
    responses: Sequence[ResponseLike],
    *,
    bank: RubricBank | None = None,
    engine: Engine | Judge | str,
    method: How = "auto",
    order: Shown = "hash",
    top_k: int | None = None,
    rephrase: bool = False,
    schedule: Schedule = "all",
    anchor: int | None = None,
) -> Ranking:
    """Rank N responses to a prompt by a bank, or by the judge alone: best of N.

    Args:
        prompt: as in `score_pair`.
        responses: as in `score_pair`; equal responses are judged once.
        bank: as in `score_pair`.
        engine: as in `score_pair`.
        method: `pairwise` compares responses, N (N − 1) / 2 calls; `pointwise` scores each alone by the bank, N calls,
            and separates close responses less well; `auto` is pairwise up to six responses and without a bank.
        order: as in `score_pair`; `both` doubles the calls of `pairwise`.
        top_k: as in `score_pair`.
        rephrase: as in `score_pair`.
        schedule: which pairs are compared: `all`, `circle` (N calls), or `anchor` (N − 1).
        anchor: place of the response (from 0) that `anchor` compares all others with.

    UsageError without a response, and for settings that exclude each other.
    """
    check_schedule(schedule, anchor)
    conversation = as_prompt(prompt)
    given = _given(as_responses(responses, conversation), anchor)
    texts = list(dict.fromkeys(given))
    how = _settled(method, len(texts) if bank is not None and schedule == "all" else 0)
    if how == "pointwise":
        _check_pointwise(bank, plain=order == "hash" and schedule == "all" and not rephrase)
    async with opened(engine) as asked:
        verdicts: Verdicts = {}
        if how == "pointwise":
            margins, questions = await _scored_alone(conversation, texts, bank, asked, top_k)
        else:
            method_of(bank, asked, rephrase=rephrase)  # refuses invalid settings before any call
            settings: dict[str, Any] = {"bank": bank, "order": order, "top_k": top_k, "rephrase": rephrase}
            ask = partial(score_open_pair, conversation, engine=asked, **settings)
            pairs = pairs_of(schedule, len(texts), anchor=texts.index(given[anchor or 0]))
            found = await all_of(lambda pair: ask(a=texts[pair[0]], b=texts[pair[1]]), pairs, asked)
            verdicts = dict(zip(pairs, found, strict=True))
            margins = {pair: one.margin for pair, one in verdicts.items() if one.margin is not None}
            questions = len({key for verdict in verdicts.values() for key in verdict.requests})
        ranking = _ranking(given, texts, margins, questions=questions, method=how, judge=label_of(asked))
        return replace(ranking, verdicts=_by_given_places(verdicts, given, texts))


rank = in_sync(arank)


def _given(responses: Sequence[str], anchor: int | None) -> Sequence[str]:
    """Return the responses; UsageError if there are none, or none at the anchor's place."""
    if not responses:
        raise UsageError("there is no response to rank", hint="give at least one")
    if anchor is not None and not 0 <= anchor < len(responses):
        raise UsageError(f"anchor={anchor} is not among {len(responses)} responses", hint="places count from 0")
    return responses


def _settled(method: How, n: int) -> str:
    if method not in {"auto", "pairwise", "pointwise"}:
        raise UsageError(f"method must be auto, pairwise or pointwise (got {method!r})", hint="auto is the default")
    if method == "auto":
        return "pairwise" if n <= PAIRWISE_UP_TO else "pointwise"
    return method


def _check_pointwise(bank: RubricBank | None, *, plain: bool) -> None:
    if bank is None:
        raise UsageError("pointwise ranking scores the rubrics of a bank", hint="bank=Bank.load(folder)")
    if not plain:
        raise UsageError(
            "pointwise ranking has no order, no schedule and no rephrasing", hint="method='pairwise' has them"
        )


def _by_given_places(verdicts: Verdicts, given: Sequence[str], texts: Sequence[str]) -> Verdicts:
    return {(given.index(texts[i]), given.index(texts[j])): verdict for (i, j), verdict in verdicts.items()}


async def _scored_alone(
    prompt: Prompt, texts: Sequence[str], bank: RubricBank | None, engine: Engine | Judge, top_k: int | None
) -> tuple[Margins, int]:
    """Score each response on the rubrics for the prompt; F_ij sums over the rubrics decided for both."""
    weighted = weighted_rubrics(bank, prompt, top_k)
    rubrics = [rubric for rubric, _ in weighted]
    answers = await all_of(lambda text: judge_of(engine).score(prompt, text, rubrics), texts, engine)
    known = {place: answer.value for place, answer in enumerate(answers) if answer.value is not None}
    margins = {(i, j): _difference(weighted, known[i], known[j]) for i, j in combinations(known, 2)}
    return margins, len({key for answer in answers for key in answer.requests})


def _difference(weighted: Sequence[tuple[Rubric, float]], a: Mapping[str, float], b: Mapping[str, float]) -> float:
    return sum(
        weight * (a[rubric.id] - b[rubric.id]) for rubric, weight in weighted if rubric.id in a and rubric.id in b
    )


def _ranking(
    responses: Sequence[str], texts: Sequence[str], margins: Margins, *, questions: int, method: str, judge: str
) -> Ranking:
    """Map margins between distinct texts back to the responses as given."""
    place = {text: number for number, text in enumerate(texts)}
    own = potentials(len(texts), margins)
    scores = tuple(own[place[text]] for text in responses)
    order = sorted(range(len(responses)), key=lambda n: (scores[n] is None, -(scores[n] or 0.0)))
    spread: Margins = {}
    for i, j in combinations(range(len(responses)), 2):
        one, other = place[responses[i]], place[responses[j]]
        if one == other:
            spread[i, j] = 0.0
        elif (min(one, other), max(one, other)) in margins:
            spread[i, j] = margins[one, other] if one < other else -margins[other, one]
    return Ranking(order=tuple(order), scores=scores, margins=spread, questions=questions, method=method, judge=judge)
