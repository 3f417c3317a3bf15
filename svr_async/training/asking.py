"""The judge calls of training: induction, judged pools and probes, over many pairs at once.

Each function is straight-line work a pair; concurrency is `engine.flow.bounded_map`. A pair whose question fails for
good is counted and left out; what ends the run (key, budget, storage …) is an SvrError.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, TypeVar

from svr_async.engine.flow import bounded_map
from svr_async.judges.protocol import Answer, Author, Judge
from svr_async.training.ledger import oriented
from svr_async.vocabulary.pair import PreferencePair, hashed_order, present
from svr_async.vocabulary.rubric import Rubric

T = TypeVar("T")
R = TypeVar("R")
RUBRICS_PER_CALL = 9

OnDone = Callable[[int], None]
OnBegin = Callable[[str, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """How many questions had which outcome."""

    outcomes: Counter[str] = field(default_factory=Counter)

    def failed(self) -> int:
        """Questions without an answer."""
        return sum(count for outcome, count in self.outcomes.items() if outcome != "scored")


@dataclass(frozen=True, slots=True, kw_only=True)
class Crew:
    """Who is asked, how many at a time, and who is told: of what begins with how many questions, and of each answer."""

    judge: Judge
    author: Author
    workers: int = 64
    rubrics_per_call: int = RUBRICS_PER_CALL
    on_done: OnDone = lambda _: None
    on_begin: OnBegin = lambda _what, _total: None


@dataclass(frozen=True, slots=True)
class PoolTask:
    """A pair and the rubrics to judge it on, in the bank's stable order of ids."""

    pair: PreferencePair
    rubrics: Sequence[Rubric]


async def induce(
    crew: Crew, pairs: Sequence[PreferencePair], *, contrastive: bool = True
) -> tuple[list[tuple[Rubric, ...]], Asked]:
    """Return the rubrics proposed for each pair, in the order of the pairs; none where the question failed."""

    async def work(pair: PreferencePair) -> Answer[tuple[Rubric, ...]]:
        return await crew.author.induce(pair, contrastive=contrastive)

    answers = await _over(crew, "inducing", pairs, work)
    return [answer.value or () for answer in answers], _tally(answers)


async def judge_pools(crew: Crew, tasks: Sequence[PoolTask]) -> tuple[list[dict[str, float]], Asked]:
    """Return z by rubric id for each task, chosen minus rejected; rubrics without a verdict are absent."""

    async def work(task: PoolTask) -> tuple[dict[str, float], list[Answer[Any]]]:
        order = hashed_order(task.pair.id)
        shown = present(task.pair, order)
        answers = [await crew.judge.compare(shown, part, overall=False) for part in _parts(task, crew.rubrics_per_call)]
        return oriented(task.pair, order, [a.value for a in answers if a.value is not None]), answers

    done = await _over(crew, "judging", tasks, work)
    return [z for z, _ in done], _tally([answer for _, answers in done for answer in answers])


async def probe(crew: Crew, pairs: Sequence[PreferencePair]) -> tuple[list[str | None], Asked]:
    """Return a plausible but worse response for each pair; None where the question failed."""
    answers = await _over(crew, "probing", pairs, crew.author.probe)
    return [answer.value for answer in answers], _tally(answers)


def _parts(task: PoolTask, size: int) -> list[Sequence[Rubric]]:
    ordered = sorted(task.rubrics, key=lambda rubric: rubric.id)
    return [ordered[start : start + size] for start in range(0, len(ordered), size)]


async def _over(crew: Crew, what: str, items: Sequence[T], work: Callable[[T], Awaitable[R]]) -> list[R]:
    results: dict[int, R] = {}
    crew.on_begin(what, len(items))
    async with aclosing(bounded_map(work, items, workers=crew.workers)) as done:
        async for index, result in done:
            results[index] = result
            crew.on_done(len(results))
    return [results[index] for index in range(len(items))]


def _tally(answers: Sequence[Answer[Any]]) -> Asked:
    return Asked(outcomes=Counter(answer.outcome.value for answer in answers))
