"""The best of several responses: margins between them, and the scores that fit these margins best.

    pointwise           each response alone                          N calls
    pairwise   all      every two                                    N (N − 1) / 2 calls
               circle   each with the next, the last with the first  N calls

Both give margins F_ij between responses; the scores are the least-squares solution of s_i − s_j ≈ F_ij with Σ s = 0.
With all margins known, s_i is the mean of F_ij over all j. In a circle no response depends on one judgement alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, Literal, get_args

import numpy as np

from svr_async.core.pair import Prompt
from svr_async.core.rubric import Rubric
from svr_async.core.table import Line, Table, to_html
from svr_async.engine.concurrency import in_sync
from svr_async.errors import UsageError
from svr_async.scoring.bank import RubricBank
from svr_async.serving.engine import EngineLike, opened
from svr_async.serving.pairs import PairVerdict, Shown, all_of, ascore_pair, judge_of, method_of, number
from svr_async.serving.scores import weighted_rubrics
from svr_async.serving.texts import PromptLike, ResponseLike, as_prompt, as_response

How = Literal["auto", "pairwise", "pointwise"]
Schedule = Literal["all", "circle"]
Pair = tuple[int, int]
Margins = dict[Pair, float]
"""(i, j) to F_ij, positive if i is better."""
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
        ranked = {"order": self.order, "scores": self.scores, "best": self.best, "undecided": self.undecided}
        return ranked | {"margins": margins, "method": self.method, "questions": self.questions, "judge": self.judge}

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
    engine: EngineLike,
    method: How = "auto",
    order: Shown = "hash",
    top_k: int | None = None,
    rephrase: bool = False,
    schedule: Schedule = "all",
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
        schedule: which pairs are compared: `all`, or `circle` (N calls).

    UsageError without a response, and for settings that exclude each other.
    """
    for name, value, known in (("method", method, get_args(How)), ("schedule", schedule, get_args(Schedule))):
        if value not in known:
            raise UsageError(f"{name} must be one of {', '.join(known)} (got {value!r})", hint=f"{known[0]} is usual")
    if isinstance(responses, str) or not responses:
        raise UsageError("responses must be a list of at least one text", hint="give [text, text, …]")
    conversation = as_prompt(prompt)
    texts = [as_response(response, conversation) for response in responses]
    distinct = sorted({texts.index(text) for text in texts})  # places of the first responses with their text
    few = bank is None or schedule != "all" or len(distinct) <= PAIRWISE_UP_TO
    if method == "pairwise" or (method == "auto" and few):
        pairs = [(distinct[i], distinct[j]) for i, j in pairs_of(schedule, len(distinct))]
        how: dict[str, Any] = {"bank": bank, "order": order, "top_k": top_k, "rephrase": rephrase}
        return await _compared(conversation, texts, pairs, engine, how)
    if order != "hash" or schedule != "all" or rephrase:
        hint = "method='pairwise' has them"
        raise UsageError("pointwise ranking has no order, no schedule and no rephrasing", hint=hint)
    weighted = weighted_rubrics(bank, conversation, top_k)
    return await _scored_alone(conversation, texts, distinct, engine, weighted)


rank = in_sync(arank)


def pairs_of(schedule: Schedule, n: int) -> list[Pair]:
    """Return the pairs (i, j), i < j, that a schedule compares of n responses."""
    if schedule == "circle":
        return sorted({(min(i, (i + 1) % n), max(i, (i + 1) % n)) for i in range(n) if n > 1})
    return list(combinations(range(n), 2))


async def _compared(
    prompt: Prompt, texts: Sequence[str], pairs: Sequence[Pair], engine: EngineLike, how: Mapping[str, Any]
) -> Ranking:
    """Rank by verdicts on pairs."""
    async with opened(engine) as asked:
        method_of(how["bank"], asked, rephrase=how["rephrase"])  # refuses invalid settings before any call
        judged = await all_of(
            lambda pair: ascore_pair(prompt, texts[pair[0]], texts[pair[1]], engine=asked, **how), pairs, asked
        )
        verdicts = dict(zip(pairs, judged, strict=True))
        margins = {pair: verdict.margin for pair, verdict in verdicts.items() if verdict.margin is not None}
        questions = len({key for verdict in judged for key in verdict.requests})
        return _ranking(texts, margins, questions=questions, method="pairwise", judge=asked.label, verdicts=verdicts)


async def _scored_alone(
    prompt: Prompt,
    texts: Sequence[str],
    places: Sequence[int],
    engine: EngineLike,
    weighted: list[tuple[Rubric, float]],
) -> Ranking:
    """Rank by scores on the rubrics for the prompt; F_ij sums over the rubrics decided for both."""
    rubrics = [rubric for rubric, _ in weighted]
    async with opened(engine) as asked:
        answers = await all_of(lambda place: judge_of(asked).score(prompt, texts[place], rubrics), places, asked)
        label = asked.label
    known = {place: answer.value for place, answer in zip(places, answers, strict=True) if answer.value is not None}
    margins = {}
    for i, j in combinations(known, 2):
        both = [(weight, rubric.id) for rubric, weight in weighted if rubric.id in known[i] and rubric.id in known[j]]
        margins[i, j] = sum(weight * (known[i][name] - known[j][name]) for weight, name in both)
    questions = len({key for answer in answers for key in answer.requests})
    return _ranking(texts, margins, questions=questions, method="pointwise", judge=label)


def _ranking(texts: Sequence[str], margins: Margins, **facts: Any) -> Ranking:
    """Rank by margins between distinct texts; equal responses share the score and the margins of the first."""
    first = [texts.index(text) for text in texts]
    known = potentials(sorted(set(first)), margins)
    scores = tuple(known.get(place) for place in first)
    order = sorted(range(len(texts)), key=lambda n: (scores[n] is None, -(scores[n] or 0.0)))
    spread: Margins = {}
    for i, j in combinations(range(len(texts)), 2):
        one, other = first[i], first[j]
        if one == other:
            spread[i, j] = 0.0
        elif (min(one, other), max(one, other)) in margins:
            spread[i, j] = margins[one, other] if one < other else -margins[other, one]
    return Ranking(order=tuple(order), scores=scores, margins=spread, **facts)


def potentials(members: Sequence[int], margins: Mapping[Pair, float]) -> dict[int, float]:
    """Return scores of members: least squares of s_i − s_j ≈ F_ij, with Σ s = 0 over the scored ones.

    Only the largest connected group has scores, since nothing compares it with the others. A single member has 0.
    """
    group = {member: column for column, member in enumerate(_largest_group(members, margins))}
    inside = {(group[i], group[j]): margin for (i, j), margin in margins.items() if i in group and j in group}
    differences = np.zeros((len(inside), len(group)))
    for row, (i, j) in enumerate(inside):
        differences[row, [i, j]] = 1.0, -1.0
    # Shifting all scores changes no difference: the solution of least norm is the one with Σ s = 0.
    solved = np.linalg.lstsq(differences, np.array([*inside.values()]), rcond=None)[0]
    return {member: round(float(solved[column]), SAME_SCORE_DIGITS) + 0.0 for member, column in group.items()}


def _largest_group(members: Sequence[int], margins: Mapping[Pair, float]) -> list[int]:
    """Return the largest set of members that margins connect, the first of equal ones; empty without any margin."""
    mark = {member: member for member in members}
    for i, j in margins:
        old, new = max(mark[i], mark[j]), min(mark[i], mark[j])
        mark = {member: new if own == old else own for member, own in mark.items()}
    sizes = Counter(mark.values())
    largest = max(sizes, key=lambda own: (sizes[own], -own), default=-1)
    return [member for member in members if mark[member] == largest] if len(members) == 1 or sizes[largest] > 1 else []
