"""The best of several responses: margins between them, and the scores that explain those margins best.

    pointwise           each response alone                        N calls
    pairwise   all      every two                                  N (N − 1) / 2 calls
               circle   each with the next, the last with the first  N calls
               anchor   each with one of them                      N − 1 calls

All give margins F_ij between responses; the scores are the least-squares solution of s_i − s_j ≈ F_ij with Σ s = 0.
With all margins known, s_i is the mean of F_ij over all j. In a circle no response depends on one judgement alone; with
an anchor all scores depend on one response.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import combinations
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from svr_async.core.pair import Prompt
from svr_async.core.table import Line, Table, to_html
from svr_async.engine.concurrency import in_sync
from svr_async.errors import UsageError
from svr_async.judges.protocol import Judge
from svr_async.scoring.bank import RubricBank
from svr_async.serving.engine import Engine, opened
from svr_async.serving.pairs import PairVerdict, Shown, all_of, ascore_pair, judge_of, method_of, number
from svr_async.serving.scores import weighted_rubrics
from svr_async.serving.texts import PromptLike, ResponseLike, as_prompt, as_responses

How = Literal["auto", "pairwise", "pointwise"]
Schedule = Literal["all", "circle", "anchor"]
Pair = tuple[int, int]
Margins = dict[Pair, float]
"""(i, j) to F_ij, positive if i is better."""
Verdicts = dict[Pair, PairVerdict]
SAME_SCORE_DIGITS = 9  # the last bits of a sum must not break a tie
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
        rows = [(str(rank), str(place), number(self.scores[place])) for rank, place in enumerate(self.order, start=1)]
        head = Line(f"{len(rows)} responses, {self.method}, {self.questions} questions")
        return to_html((head, Line(self.judge, label="judge"), Table(("rank", "response", "score"), rows)))


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
    _check(method, schedule, anchor, len(responses))
    conversation = as_prompt(prompt)
    given = as_responses(responses, conversation)
    texts = list(dict.fromkeys(given))
    few = bank is None or schedule != "all" or len(texts) <= PAIRWISE_UP_TO
    pointwise = method == "pointwise" or (method == "auto" and not few)
    if pointwise and (order != "hash" or schedule != "all" or rephrase):
        hint = "method='pairwise' has them"
        raise UsageError("pointwise ranking has no order, no schedule and no rephrasing", hint=hint)
    async with opened(engine) as asked:
        verdicts: Verdicts = {}
        if pointwise:
            margins, questions = await _scored_alone(conversation, texts, bank, asked, top_k)
        else:
            method_of(bank, asked, rephrase=rephrase)  # refuses invalid settings before any call
            settings: dict[str, Any] = {"bank": bank, "order": order, "top_k": top_k, "rephrase": rephrase}
            ask = partial(ascore_pair, conversation, engine=asked, **settings)
            pairs = pairs_of(schedule, len(texts), anchor=texts.index(given[anchor or 0]))
            found = await all_of(lambda pair: ask(a=texts[pair[0]], b=texts[pair[1]]), pairs, asked)
            verdicts = dict(zip(pairs, found, strict=True))
            margins = {pair: one.margin for pair, one in verdicts.items() if one.margin is not None}
            questions = len({key for verdict in verdicts.values() for key in verdict.requests})
        how = "pointwise" if pointwise else "pairwise"
        ranking = _ranking(given, texts, margins, questions=questions, method=how, judge=asked.label)
    places = [given.index(text) for text in texts]
    return replace(ranking, verdicts={(places[i], places[j]): verdict for (i, j), verdict in verdicts.items()})


rank = in_sync(arank)


def _check(method: str, schedule: str, anchor: int | None, count: int) -> None:
    """Raise UsageError for settings that do not exist or exclude each other, and without a response."""
    for name, value, known in (("method", method, get_args(How)), ("schedule", schedule, get_args(Schedule))):
        if value not in known:
            raise UsageError(f"{name} must be one of {', '.join(known)} (got {value!r})", hint=f"{known[0]} is usual")
    if not count:
        raise UsageError("there is no response to rank", hint="give at least one")
    if anchor is not None and schedule != "anchor":
        raise UsageError(f"anchor={anchor} with schedule={schedule!r}", hint="schedule='anchor' takes a place")
    if anchor is not None and not 0 <= anchor < count:
        raise UsageError(f"anchor={anchor} is not among {count} responses", hint="places count from 0")


def pairs_of(schedule: Schedule, n: int, *, anchor: int = 0) -> list[Pair]:
    """Return the pairs (i, j), i < j, that a schedule compares of n responses; `anchor` is the place that all meet."""
    if schedule == "circle":
        return sorted({_ordered(i, (i + 1) % n) for i in range(n) if n > 1})
    if schedule == "anchor":
        return [_ordered(anchor, i) for i in range(n) if i != anchor]
    return list(combinations(range(n), 2))


def _ordered(i: int, j: int) -> Pair:
    return (i, j) if i < j else (j, i)


async def _scored_alone(
    prompt: Prompt, texts: Sequence[str], bank: RubricBank | None, engine: Engine | Judge, top_k: int | None
) -> tuple[Margins, int]:
    """Score each response on the rubrics for the prompt; F_ij sums over the rubrics decided for both."""
    weighted = weighted_rubrics(bank, prompt, top_k)
    rubrics = [rubric for rubric, _ in weighted]
    answers = await all_of(lambda text: judge_of(engine).score(prompt, text, rubrics), texts, engine)
    known = {place: answer.value for place, answer in enumerate(answers) if answer.value is not None}
    margins = {}
    for i, j in combinations(known, 2):
        both = [(weight, rubric.id) for rubric, weight in weighted if rubric.id in known[i] and rubric.id in known[j]]
        margins[i, j] = sum(weight * (known[i][name] - known[j][name]) for weight, name in both)
    return margins, len({key for answer in answers for key in answer.requests})


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


def potentials(n: int, margins: Mapping[Pair, float]) -> tuple[float | None, ...]:
    """Return scores of n responses: least squares of s_i − s_j ≈ F_ij, with Σ s = 0 over the scored ones.

    Only the largest connected group has scores, since nothing compares it with the others. A single response has 0.
    """
    group = _largest_group(n, margins)
    if not group:
        return (None,) * n
    row = {member: place for place, member in enumerate(group)}
    inside = {(row[i], row[j]): margin for (i, j), margin in margins.items() if i in row and j in row}
    laplacian, pull = _equations(len(group), inside)
    solved = np.linalg.lstsq(laplacian, pull, rcond=None)[0]
    return tuple(_rounded(solved[row[m]]) if m in row else None for m in range(n))


def _largest_group(n: int, margins: Mapping[Pair, float]) -> list[int]:
    """Return the largest set of responses that margins connect, the first of equal ones; empty without any margin."""
    mark = list(range(n))
    for i, j in margins:
        old, new = max(mark[i], mark[j]), min(mark[i], mark[j])
        mark = [new if own == old else own for own in mark]
    most = max(set(mark), key=lambda own: (mark.count(own), -own))
    return [place for place in range(n) if mark[place] == most] if n == 1 or mark.count(most) > 1 else []


def _equations(n: int, margins: Mapping[Pair, float]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return L and b of the normal equations L·s = b."""
    laplacian, pull = np.zeros((n, n)), np.zeros(n)
    if margins:
        i, j = np.array(list(margins)).T
        np.add.at(laplacian, (np.r_[i, j], np.r_[i, j]), 1.0)
        np.add.at(laplacian, (np.r_[i, j], np.r_[j, i]), -1.0)
        forces = np.array(list(margins.values()))
        np.add.at(pull, np.r_[i, j], np.r_[forces, -forces])
    return laplacian, pull


def _rounded(score: float) -> float:
    return round(float(score), SAME_SCORE_DIGITS) + 0.0
