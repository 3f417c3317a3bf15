"""The judge calls of training: induction, judged pools and probes, over many pairs at once.

Each function is straight-line work a pair; concurrency is `engine.shutdown`. A pair whose question fails for good is
counted and left out; what ends the run (key, budget, storage …) is an SvrError, raised when calls under way have ended.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Hashable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from svr_async.core.pair import PreferencePair, hashed_order, present
from svr_async.core.rubric import Rubric
from svr_async.engine.concurrency import ShutdownController
from svr_async.judges.limits import WHOLE, Share, places_of, share_in_words
from svr_async.judges.protocol import Answer, Author, Comparisons, Judge
from svr_async.training.rounds.answers import unanswered
from svr_async.training.rounds.config import PrefixOrder
from svr_async.training.rounds.ledger import oriented

if TYPE_CHECKING:
    from svr_async.engine.engine import CallEngine

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
        return unanswered(self.outcomes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Crew:
    """Who is asked, how many at a time, and who is told: of what begins with how many questions, and of each answer.

    `prefix` is the order of the calls of one pair, which begin alike; no answer depends on it. `shutdown` ends what is
    asked, for good; `listening` is entered for as long as something is, to tell it of signals. `may_begin` is the
    policy of a run that ends between two stages: it is asked before a stage's first question, and before a fit. Of
    each stage only `share` is asked; the rest has to be in the cache.
    """

    judge: Judge
    author: Author
    workers: int = 64
    rubrics_per_call: int = RUBRICS_PER_CALL
    prefix: PrefixOrder = PrefixOrder.LEADER
    on_done: OnDone = lambda _: None
    on_begin: OnBegin = lambda _what, _total: None
    shutdown: ShutdownController = field(default_factory=ShutdownController)
    listening: Callable[[], AbstractContextManager[None]] = nullcontext
    may_begin: Callable[[], bool] = lambda: True
    share: Share = WHOLE


class StageEndsError(Exception):
    """No further stage may begin; whoever set that policy takes this."""


class ShardEndsError(Exception):
    """The part of a stage that falls to this machine is judged; the stage cannot end without the others' replies."""


def begin_stage(crew: Crew) -> None:
    """Raise StageEndsError where the policy is that no further stage begins."""
    if not crew.may_begin():
        raise StageEndsError


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

    answers = await _over(crew, "inducing", pairs, work, [pair.prompt for pair in pairs])
    return [answer.value or () for answer in answers], _tally(answers)


async def judge_pools(crew: Crew, tasks: Sequence[PoolTask]) -> tuple[list[dict[str, float]], Asked]:
    """Return z by rubric id for each task, chosen minus rejected; rubrics without a verdict are absent."""
    if crew.prefix is PrefixOrder.LEADER:
        answers = await _over(crew, "judging", tasks, partial(_in_turn, crew), [task.pair.prompt for task in tasks])
    else:
        answers = await _part_by_part(crew, tasks)
    z = [_oriented(task, found) for task, found in zip(tasks, answers, strict=True)]
    return z, _tally([answer for found in answers for answer in found])


async def _in_turn(crew: Crew, task: PoolTask) -> list[Answer[Comparisons]]:
    """Ask the parts of a pool one after another: the first computes the beginning that the others share."""
    return [await _compare(crew, task, part) for part in _parts(task, crew.rubrics_per_call)]


async def _part_by_part(crew: Crew, tasks: Sequence[PoolTask]) -> list[list[Answer[Comparisons]]]:
    """Ask each part by itself: those of a pool next to each other, or all first parts, then all second ones."""
    parts = [_parts(task, crew.rubrics_per_call) for task in tasks]
    places = [(row, column) for row, held in enumerate(parts) for column in range(len(held))]
    if crew.prefix is PrefixOrder.OFF:
        places.sort(key=lambda place: place[1])

    async def work(place: tuple[int, int]) -> Answer[Comparisons]:
        return await _compare(crew, tasks[place[0]], parts[place[0]][place[1]])

    prompts = [tasks[row].pair.prompt for row, _ in places]
    found = dict(zip(places, await _over(crew, "judging", places, work, prompts), strict=True))
    return [[found[row, column] for column in range(len(held))] for row, held in enumerate(parts)]


async def _compare(crew: Crew, task: PoolTask, rubrics: Sequence[Rubric]) -> Answer[Comparisons]:
    return await crew.judge.compare(present(task.pair, hashed_order(task.pair.id)), rubrics, overall=False)


def _oriented(task: PoolTask, answers: Sequence[Answer[Comparisons]]) -> dict[str, float]:
    values = [answer.value for answer in answers if answer.value is not None]
    return oriented(task.pair, hashed_order(task.pair.id), values)


async def probe(crew: Crew, pairs: Sequence[PreferencePair]) -> tuple[list[str | None], Asked]:
    """Return a plausible but worse response for each pair; None where the question failed."""
    answers = await _over(crew, "probing", pairs, crew.author.probe, [pair.prompt for pair in pairs])
    return [answer.value for answer in answers], _tally(answers)


def _parts(task: PoolTask, size: int) -> list[Sequence[Rubric]]:
    ordered = sorted(task.rubrics, key=lambda rubric: rubric.id)
    return [ordered[start : start + size] for start in range(0, len(ordered), size)]


async def _over(
    crew: Crew, what: str, items: Sequence[T], work: Callable[[T], Awaitable[R]], prompts: Sequence[Hashable]
) -> list[R]:
    begin_stage(crew)
    own = places_of(prompts, crew.share)
    crew.on_begin(what, len(own))
    results = await _at(crew, own, items, work)
    if len(own) < len(items):
        rest = sorted(set(range(len(items))).difference(own))
        with _from_cache(crew.shutdown.engines) as missing:
            results |= await _at(replace(crew, on_done=lambda _: None), rest, items, work)
        if missing:
            raise ShardEndsError(_told_end(what, crew.share, len(own), len(missing)))
    return [results[index] for index in range(len(items))]


async def _at(crew: Crew, places: Sequence[int], items: Sequence[T], work: Callable[[T], Awaitable[R]]) -> dict[int, R]:
    """Work on the items at these places, and return what came of them by place."""
    results: dict[int, R] = {}

    def keep(index: int, result: R) -> None:
        results[places[index]] = result
        crew.on_done(len(results))

    with crew.listening():
        await crew.shutdown.run(work, [items[place] for place in places], workers=crew.workers, on_result=keep)
    crew.shutdown.reraise()
    return results


@contextmanager
def _from_cache(engines: Sequence[CallEngine]) -> Iterator[set[bytes]]:
    """Have only the cache answer for a while; yields the keys of the questions that it does not hold."""
    missing: set[bytes] = set()
    before = [(engine, engine.config, engine.on_missing) for engine in engines]
    for engine in engines:
        engine.config = replace(engine.config, offline=True)
        engine.on_missing = lambda question: missing.add(question.request.key)
    try:
        yield missing
    finally:
        for engine, config, on_missing in before:
            engine.config, engine.on_missing = config, on_missing


def _told_end(what: str, share: Share, own: int, missing: int) -> str:
    return (
        f"shard {share_in_words(share)} of {what} is done, {own:,} items of it; {missing:,} questions are for other "
        "shards: bring their replies (svr cache export, import) and give the command again for what follows"
    )


def _tally(answers: Sequence[Answer[Any]]) -> Asked:
    return Asked(outcomes=Counter(answer.outcome.value for answer in answers))
