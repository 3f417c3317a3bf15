"""The calls of training: induction, criteria, judged pools and probes, over many pairs at once.

Each function is straight-line work for a pair; concurrency is `engine.concurrency`. A pair whose question fails for
good is counted and left out; what ends the run (key, budget, storage …) is an SvrError after running calls have ended.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

from svr_async.core.pair import Order, PreferencePair, Presentation, hashed_order, present
from svr_async.core.rubric import Rubric
from svr_async.engine.concurrency import ShutdownController
from svr_async.judges.limits import WHOLE, Share, places_of, share_in_words
from svr_async.judges.protocol import Answer, Author, Comparisons, Judge
from svr_async.judges.same_criterion import CriteriaQuestion

if TYPE_CHECKING:
    from svr_async.engine.engine import CallEngine

T = TypeVar("T")
R = TypeVar("R")
RUBRICS_PER_CALL = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingJudges:
    """Who is asked, how many at a time, and callbacks: at the start of a stage of N questions, and at each answer.

    `shutdown` ends the questions for good; `listening` is entered while questions run, to pass it signals. `may_begin`
    is asked before a stage's first question and before a fit: a run may end between two stages. Only `share` of each
    stage is asked; the rest has to be in the cache.
    """

    judge: Judge
    author: Author
    workers: int = 64
    rubrics_per_call: int = RUBRICS_PER_CALL
    on_done: Callable[[int], None] = lambda _: None
    on_begin: Callable[[str, int], None] = lambda _what, _total: None
    shutdown: ShutdownController = field(default_factory=ShutdownController)
    listening: Callable[[], AbstractContextManager[None]] = nullcontext
    may_begin: Callable[[], bool] = lambda: True
    share: Share = WHOLE


class StageEndsError(Exception):
    """No further stage may begin; the caller that set `may_begin` handles this."""


class ShardEndsError(Exception):
    """This machine's part of a stage is judged; the stage needs the replies of the others to end."""


def begin_stage(judges: TrainingJudges) -> None:
    """Raise StageEndsError if no further stage may begin."""
    if not judges.may_begin():
        raise StageEndsError


@dataclass(frozen=True, slots=True)
class PoolTask:
    """A pair and the rubrics to judge it on, in the bank's stable order of ids."""

    pair: PreferencePair
    rubrics: Sequence[Rubric]


async def induce(
    judges: TrainingJudges, pairs: Sequence[PreferencePair], *, contrastive: bool = True
) -> tuple[list[tuple[Rubric, ...]], Counter[str]]:
    """Return the rubrics proposed for each pair, none if the question failed, and how many had which outcome."""

    async def work(pair: PreferencePair) -> Answer[tuple[Rubric, ...]]:
        return await judges.author.induce(pair, contrastive=contrastive)

    answers = await _over(judges, "inducing", pairs, work, [pair.prompt for pair in pairs])
    return [answer.value or () for answer in answers], _tally(answers)


async def probe(judges: TrainingJudges, pairs: Sequence[PreferencePair]) -> tuple[list[str | None], Counter[str]]:
    """Return a plausible but worse response for each pair; None if the question failed."""
    answers = await _over(judges, "probing", pairs, judges.author.probe, [pair.prompt for pair in pairs])
    return [answer.value for answer in answers], _tally(answers)


async def same_criterion(
    judges: TrainingJudges, questions: Sequence[CriteriaQuestion]
) -> tuple[list[Mapping[str, str | None]], Counter[str]]:
    """Return, for each question, which listed rubric each new one repeats; nothing if the question failed."""
    answers = await _over(judges, "comparing criteria", questions, judges.author.same_criterion, questions)
    return [answer.value or {} for answer in answers], _tally(answers)


async def judge_pools(judges: TrainingJudges, tasks: Sequence[PoolTask]) -> tuple[list[dict[str, float]], Counter[str]]:
    """Return z by rubric id for each task, chosen minus rejected; rubrics without a verdict are absent.

    The parts of a pool are asked one after another, so that the first computes the prefix that the others share.
    """

    async def work(task: PoolTask) -> list[Answer[Comparisons]]:
        ordered, size = sorted(task.rubrics, key=lambda rubric: rubric.id), judges.rubrics_per_call
        shown = present(task.pair, hashed_order(task.pair.id))
        parts = [ordered[start : start + size] for start in range(0, len(ordered), size)]
        return [await judges.judge.compare(shown, part, overall=False) for part in parts]

    answers = await _over(judges, "judging", tasks, work, [task.pair.prompt for task in tasks])
    z = [
        oriented(task.pair, [one.value for one in found if one.value is not None])
        for task, found in zip(tasks, answers, strict=True)
    ]
    return z, _tally([answer for found in answers for answer in found])


async def cached_preferences(judges: TrainingJudges, shown: Sequence[Presentation]) -> list[float] | None:
    """Return the margins of direct verdicts, A over B, if a model's are all in the cache; nothing is sent."""
    engines = judges.shutdown.engines
    if not engines:
        return None
    margins = []
    with _from_cache(engines):
        for one in shown:
            answer = await judges.judge.prefer(one)
            if answer.value is None:
                return None
            margins.append(answer.value.margin)
    return margins


def oriented(pair: PreferencePair, answers: Sequence[Comparisons]) -> dict[str, float]:
    """Return z by rubric id from verdicts: positive favours the chosen response."""
    sign = sign_of(pair)
    return {row.rubric_id: sign * row.delta for answer in answers for row in answer.rows}


def sign_of(pair: PreferencePair) -> float:
    """Return 1 if the chosen response is shown as A, else −1."""
    return 1.0 if pair.chosen_first == (hashed_order(pair.id) is Order.AB) else -1.0


def _tally(answers: Sequence[Answer[Any]]) -> Counter[str]:
    return Counter(answer.outcome.value for answer in answers)


async def _over(
    judges: TrainingJudges,
    what: str,
    items: Sequence[T],
    work: Callable[[T], Awaitable[R]],
    prompts: Sequence[Hashable],
) -> list[R]:
    """Work on all items: on this shard's own by asking, on the others from the cache."""
    begin_stage(judges)
    own = places_of(prompts, judges.share)
    judges.on_begin(what, len(own))
    results = await _at(judges, own, items, work)
    if len(own) < len(items):
        rest = sorted(set(range(len(items))).difference(own))
        with _from_cache(judges.shutdown.engines) as missing:
            results |= await _at(replace(judges, on_done=lambda _: None), rest, items, work)
        if missing:
            raise ShardEndsError(
                f"shard {share_in_words(judges.share)} of {what} is done, {len(own):,} items of it; {len(missing):,} "
                "questions are for other shards: bring their replies (svr cache export, import) and repeat the command"
            )
    return [results[index] for index in range(len(items))]


async def _at(
    judges: TrainingJudges, places: Sequence[int], items: Sequence[T], work: Callable[[T], Awaitable[R]]
) -> dict[int, R]:
    results: dict[int, R] = {}

    def keep(index: int, result: R) -> None:
        results[places[index]] = result
        judges.on_done(len(results))

    with judges.listening():
        chosen = [items[place] for place in places]
        await judges.shutdown.run(work, chosen, workers=judges.workers, on_result=keep)
    judges.shutdown.reraise()
    return results


@contextmanager
def _from_cache(engines: Sequence[CallEngine]) -> Iterator[set[bytes]]:
    """Let only the cache answer for a while; yields the keys of the questions that it does not hold."""
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
