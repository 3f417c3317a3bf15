"""The judge calls of training over many pairs: order, parts, orientation, and pairs that fail."""

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import pytest
from stand_ins import UnaskedJudge

from svr_async.core.pair import PreferencePair, Presentation, Side, user_prompt
from svr_async.core.rubric import Rubric
from svr_async.core.verdict import Outcome, RubricComparison, Verdict
from svr_async.engine.concurrency import ShutdownController, StoppedError
from svr_async.errors import AuthError
from svr_async.judges.protocol import Answer, Comparisons
from svr_async.judges.same_criterion import CriteriaQuestion
from svr_async.training.rounds.judge_calls import PoolTask, StageEndsError, TrainingJudges, induce, judge_pools, probe
from svr_async.training.rounds.stages import unanswered

RUBRICS = [Rubric(text=f"Point {n}") for n in range(7)]
PAIRS = [
    PreferencePair(id=f"p{n}", prompt=user_prompt("q"), chosen="good", rejected="bad", chosen_first=n % 2 == 0)
    for n in range(12)
]

T = TypeVar("T")


class Scripted(UnaskedJudge):
    """A judge that prefers "good", an author that writes the id; both fail for the pairs in `failing`."""

    name = label = "scripted"

    def __init__(self, failing: Iterable[str] = (), error: Exception | None = None) -> None:
        self.failing, self.error = set(failing), error
        self.parts: list[list[str]] = []

    async def _answer(self, pair_id: str, value: T) -> Answer[T]:
        await asyncio.sleep(0.002 * (hash(pair_id) % 3))
        if pair_id in self.failing:
            if self.error is not None:
                raise self.error
            return Answer(value=None, outcome=Outcome.PARSE_ERROR)
        return Answer(value=value)

    async def compare(
        self, shown: Presentation, rubrics: Sequence[Rubric], *, overall: bool, note: str = ""
    ) -> Answer[Comparisons]:
        self.parts.append([rubric.id for rubric in rubrics])
        side = Side.A if shown.response_a == "good" else Side.B
        passes = {side: Verdict.PASS, side.other(): Verdict.FAIL}
        rows = tuple(RubricComparison(r.id, passes[Side.A], passes[Side.B], side) for r in rubrics)
        return await self._answer(shown.pair_id, Comparisons(rows=rows))

    async def induce(self, pair: PreferencePair, *, contrastive: bool = True) -> Answer[tuple[Rubric, ...]]:
        return await self._answer(pair.id, (Rubric(text=f"{pair.id} {contrastive}"),))

    async def probe(self, pair: PreferencePair) -> Answer[str]:
        return await self._answer(pair.id, f"worse {pair.id}")

    async def same_criterion(self, asked: CriteriaQuestion) -> Answer[Mapping[str, str | None]]:
        return Answer(value={})


def crew(scripted: Scripted, **settings: Any) -> TrainingJudges:
    """Return a crew of one script."""
    return TrainingJudges(judge=scripted, author=scripted, workers=4, **settings)


async def test_results_come_in_the_order_of_the_pairs_and_failures_are_counted_and_left_out() -> None:
    """Whatever ends first: entry n belongs to pair n; a pair that failed has no rubrics and no probe."""
    seen: list[Any] = []
    rubrics, asked = await induce(crew(Scripted({"p3"}), on_done=seen.append), PAIRS)
    assert [[rubric.text for rubric in found] for found in rubrics] == [
        [] if pair.id == "p3" else [f"{pair.id} True"] for pair in PAIRS
    ]
    assert (unanswered(asked), dict(asked)) == (1, {"scored": 11, "parse_error": 1})
    assert seen == list(range(1, 13))
    described, _ = await induce(crew(Scripted()), PAIRS[:1], contrastive=False)
    assert described[0][0].text == "p0 False"
    probes, asked = await probe(crew(Scripted({"p0"})), PAIRS)
    assert probes == [None, *(f"worse {pair.id}" for pair in PAIRS[1:])]
    assert unanswered(asked) == 1


async def test_no_stage_begins_where_the_policy_ends_the_run() -> None:
    """What may not begin asks nobody and tells nobody; a stage under way is not cut short, the next one is."""
    scripted, begun = Scripted(), []
    told = {"on_begin": lambda what, total: begun.append((what, total))}
    with pytest.raises(StageEndsError):
        await induce(crew(scripted, may_begin=lambda: False, **told), PAIRS)
    assert (begun, scripted.parts) == ([], [])
    once = crew(scripted, may_begin=lambda: not begun, **told)
    rubrics, _ = await induce(once, PAIRS)
    assert (len(rubrics), begun) == (len(PAIRS), [("inducing", len(PAIRS))])
    with pytest.raises(StageEndsError):
        await probe(once, PAIRS)


async def test_pools_are_asked_in_parts_in_order_of_ids_and_oriented_to_the_chosen_response() -> None:
    """At most so many rubrics a call, each once; in any data order and order shown the chosen response wins."""
    scripted = Scripted({"p5"})
    found, asked = await judge_pools(crew(scripted, rubrics_per_call=3), [PoolTask(pair, RUBRICS) for pair in PAIRS])
    for pair, z in zip(PAIRS, found, strict=True):
        assert z == ({} if pair.id == "p5" else dict.fromkeys((rubric.id for rubric in RUBRICS), 1.25))
    ordered = sorted(rubric.id for rubric in RUBRICS)
    assert {tuple(part) for part in scripted.parts} == {tuple(ordered[n : n + 3]) for n in (0, 3, 6)}
    assert unanswered(asked) == 3


async def test_what_ends_the_run_is_raised() -> None:
    """A refused key stops all pairs."""
    with pytest.raises(AuthError):
        await probe(crew(Scripted({"p4"}, AuthError("refused"))), PAIRS)


async def test_what_is_under_way_when_an_error_ends_the_run_may_end() -> None:
    """Their answers are paid for: those that come soon are counted, nothing further is begun, then or later."""
    begun: list[str] = []
    ended: list[int] = []

    class Slow(Scripted):
        async def probe(self, pair: PreferencePair) -> Answer[str]:
            begun.append(pair.id)
            if pair.id == "p1":
                raise AuthError("refused")
            await asyncio.sleep(0.05)
            return await super().probe(pair)

    stopped = crew(Slow(), on_done=ended.append)
    for _ in range(2):
        with pytest.raises(AuthError):
            await probe(stopped, PAIRS)
    assert begun == ["p0", "p1", "p2", "p3"][: len(begun)]
    assert len(begun) >= 2
    assert ended == list(range(1, len(begun)))


async def test_a_signal_ends_what_is_asked() -> None:
    """Who listens while something is asked may stop it; StoppedError says how to go on."""
    listened = []

    @contextmanager
    def listening() -> Iterator[None]:
        listened.append("in")
        asyncio.get_running_loop().call_later(0.01, shutdown.interrupt, 15)
        yield
        listened.append("out")

    class Slow(Scripted):
        async def probe(self, pair: PreferencePair) -> Answer[str]:
            await asyncio.sleep(0.03)
            return await super().probe(pair)

    shutdown = ShutdownController()
    with pytest.raises(StoppedError, match="stopped by SIGTERM") as caught:
        await probe(crew(Slow(), shutdown=shutdown, listening=listening), PAIRS)
    assert caught.value.exit_code == 143
    assert listened == ["in", "out"]


async def test_nothing_to_ask_is_nothing() -> None:
    """No pairs give no answers."""
    assert (await judge_pools(crew(Scripted()), []))[0] == []
