"""The best of several responses: margins between them, and the scores that explain those margins best.

    pairwise    responses side by side, every two or as a schedule says    N (N − 1) / 2 calls, or fewer
    pointwise   every response alone                                       N calls

Both give margins F_ij between responses; the scores are the least-squares solution of s_i − s_j ≈ F_ij with Σ s = 0
(`potentials.py`). With every margin there, s_i is the mean of F_ij over all j. Which pairs a schedule asks for:
`schedules.py`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
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
from svr_async.serving.many import all_of
from svr_async.serving.pairs import PairVerdict, Shown, judge_of, label_of, method_of, score_open_pair
from svr_async.serving.potentials import Margins, potentials
from svr_async.serving.schedules import Pair, Schedule, check_schedule, scheduled
from svr_async.serving.scores import weighted_rubrics
from svr_async.serving.texts import PromptLike, ResponseLike, as_prompt, as_responses
from svr_async.serving.views import number, ranking_sheet

How = Literal["auto", "pairwise", "pointwise"]
Ask = Callable[..., Awaitable[PairVerdict]]
Verdicts = dict[Pair, PairVerdict]
Plan = Callable[[Callable[[Sequence[Pair]], Awaitable[Margins]]], Awaitable[Margins]]
SHOWN = 5  # responses of a ranking that is printed in a line
PAIRWISE_UP_TO = 6  # 15 calls; beyond it `auto` scores each response alone


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """Responses by score, best first; ties stand in the order given.

    `order` holds their places in the list that was given; `scores` are in the order given, None for a response without
    a verdict, which stands last. `margins` holds F_ij for i < j, positive where i is better. `questions` counts what
    was asked, of the cache or by a call. `method` is `pairwise` or `pointwise`; `judge` is how results are labelled.
    `verdicts` holds what was said of two that were judged side by side, by (place of A, place of B), the first of equal
    responses standing for all; empty for `pointwise`.
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
        """The place of the best response, the first of those that tie; None where none has a verdict."""
        return self.order[0] if self.scores[self.order[0]] is not None else None

    @property
    def undecided(self) -> bool:
        """Whether nothing tells the responses apart: all scores that there are are equal, and `best` is no choice."""
        return len({score for score in self.scores if score is not None}) < 2

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values; places count from 0, margins are by `i-j`, and verdicts are left out."""
        margins = {f"{i}-{j}": margin for (i, j), margin in self.margins.items()}
        told = {"order": self.order, "scores": self.scores, "best": self.best, "undecided": self.undecided}
        return told | {"margins": margins, "method": self.method, "questions": self.questions, "judge": self.judge}

    def __repr__(self) -> str:
        scores = ", ".join(f"{place} ({number(self.scores[place])})" for place in self.order[:SHOWN])
        more = f" … {len(self.order) - SHOWN} more" if len(self.order) > SHOWN else ""
        return f"<Ranking {scores}{more}, {self.method}, by {self.judge}>"

    def _repr_html_(self) -> str:
        told = ranking_sheet(self.order, self.scores, method=self.method, questions=self.questions, judge=self.judge)
        return to_html(told)


async def rank(
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
    rounds: int | None = None,
    anchor: int | None = None,
) -> Ranking:
    """Rank N responses to a prompt by a bank, or, without one, by the judge alone: best-of-N.

    Method `pairwise` judges every two of them, for N (N − 1) / 2 calls (twice that with order `both`); `pointwise`
    scores each alone, for N calls, and tells close responses apart less well; `auto` is pairwise up to six responses,
    and wherever there is no bank: without rubrics nothing can be scored alone. Equal responses are judged once.

    A `schedule` judges fewer pairs, whatever N is: `circle` N (each with the next, the last with the first), `anchor`
    N − 1 (each with the one at the place `anchor`, by default the first), `swiss` at most N / 2 in each of `rounds`, of
    near scores; there are at least ⌈log2 N⌉ rounds, the default, which connect all responses.
    `rephrase` costs one call more. Prompt, responses and `engine` are what `score_pair` takes. UsageError without a
    response, and for what does not go together.
    """
    check_schedule(schedule, rounds=rounds, anchor=anchor)
    conversation = as_prompt(prompt)
    given = _given(as_responses(responses, conversation), anchor)
    texts = list(dict.fromkeys(given))
    how = _settled(method, len(texts) if bank is not None and schedule == "all" else 0)
    if how == "pointwise":
        _check_pointwise(bank, plain=order == "hash" and schedule == "all" and not rephrase)
    async with opened(engine) as asked:
        said: Verdicts = {}
        if how == "pointwise":
            margins, questions = await _scored_alone(conversation, texts, bank, asked, top_k)
        else:
            method_of(bank, asked, rephrase=rephrase)  # an engine that cannot rephrase is refused before any call
            settings: dict[str, Any] = {"bank": bank, "order": order, "top_k": top_k, "rephrase": rephrase}
            ask = partial(score_open_pair, conversation, engine=asked, **settings)
            plan = partial(scheduled, schedule, len(texts), rounds=rounds, anchor=texts.index(given[anchor or 0]))
            margins, said = await _side_by_side(texts, ask, asked, plan)
            questions = len({key for verdict in said.values() for key in verdict.requests})
        found = _ranking(given, texts, margins, questions=questions, method=how, judge=label_of(asked))
        return replace(found, verdicts=_by_given_places(said, given, texts))


rank_sync = in_sync(rank)


def _given(responses: Sequence[str], anchor: int | None) -> Sequence[str]:
    """Return the responses, or raise UsageError where there is none, or none at the place of the anchor."""
    if not responses:
        raise UsageError("there is no response to rank", hint="give at least one")
    if anchor is not None and not 0 <= anchor < len(responses):
        raise UsageError(f"anchor={anchor}: there are {len(responses)} responses", hint="anchor is an index from 0")
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


async def _side_by_side(texts: Sequence[str], ask: Ask, engine: Engine | Judge, plan: Plan) -> tuple[Margins, Verdicts]:
    said: Verdicts = {}

    async def judge(pairs: Sequence[Pair]) -> Margins:
        verdicts = await all_of(lambda pair: ask(a=texts[pair[0]], b=texts[pair[1]]), pairs, engine)
        said.update(zip(pairs, verdicts, strict=True))
        told = ((pair, said[pair].margin) for pair in pairs)
        return {pair: margin for pair, margin in told if margin is not None}

    return await plan(judge), said


def _by_given_places(said: Verdicts, given: Sequence[str], texts: Sequence[str]) -> Verdicts:
    return {(given.index(texts[i]), given.index(texts[j])): verdict for (i, j), verdict in said.items()}


async def _scored_alone(
    prompt: Prompt, texts: Sequence[str], bank: RubricBank | None, engine: Engine | Judge, top_k: int | None
) -> tuple[Margins, int]:
    """Score each response on the rubrics for the prompt; F_ij adds up over the rubrics that both have a score on."""
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
    """Bring margins between different texts back to the responses as given."""
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
