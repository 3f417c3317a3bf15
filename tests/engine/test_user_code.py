"""Programs that cancel calls, end their loop early or fork: nothing hangs, and nothing stored is paid twice."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from endpoint import SimConfig
from msgspec.structs import replace
from rig import ask, completion, engine_at, scripted_engine, serving, until

from svr_async import Engine, ajudge_pairs
from svr_async.engine.engine import CallEngine, Completion
from svr_async.engine.request import Question
from svr_async.errors import UsageError

N = 60


def _asked(url: str, number: int) -> Question[str]:
    """Return a question for a simulated model."""
    question = ask(f"question {number}", max_tokens=1000)
    return replace(question, request=replace(question.request, model="gpt-oss-120b", endpoint=url))


async def test_cancelled_calls_leak_nothing(cache_folder: Path) -> None:
    """Cancelled at any moment and asked again: all slots come back, and a cancelled call costs at most itself."""
    rng = random.Random(5)
    with serving(SimConfig(latency_ms=15.0)) as sim:
        async with engine_at(sim.base_url, cache_folder, concurrency=8) as engine:
            for _ in range(4):
                tasks = [asyncio.create_task(engine.complete(_asked(sim.base_url, n))) for n in range(N)]
                for task in rng.sample(tasks, N // 2):
                    await asyncio.sleep(rng.uniform(0, 0.01))
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                assert (engine.stats().in_flight, engine.stats().waiting) == (0, 0)
            for n in range(N):
                assert (await engine.complete(_asked(sim.base_url, n))).value is not None
            kept = engine.cache.stats()["rows"]
        counts = [*sim.paid().values()]
    assert kept == len(counts) == N
    assert sum(counts) <= N + 4 * N // 2  # each cancelled call once
    assert max(counts) <= 4


async def _late(text: str) -> object:
    await asyncio.sleep(0.001 * int(text[1:]))
    return completion(text)


def test_a_forked_child_opens_its_own_engine(cache_folder: Path) -> None:
    """On the cache of its parent, whose engine stays open: both get answers."""

    async def child() -> int:
        async with scripted_engine(cache_folder, lambda *_: _late("q1")) as (engine, transport):
            theirs, own = await engine.complete(ask("before")), await engine.complete(ask("own"))
            return 0 if (theirs.value, own.value, len(transport.sent)) == ("q1", "q1", 1) else 1

    async def parent() -> int:
        async with scripted_engine(cache_folder, lambda *_: _late("q1")) as (engine, transport):
            assert (await engine.complete(ask("before"))).value == "q1"
            pid = os.fork()
            if not pid:
                os._exit(_alone(child))
            code = os.waitstatus_to_exitcode((await asyncio.to_thread(os.waitpid, pid, 0))[1])
            assert (await engine.complete(ask("own"))).value == "q1"
            assert len(transport.sent) == 1
            return code

    assert asyncio.run(asyncio.wait_for(parent(), 40)) == 0


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_in_one_call_does_not_hang_joined_calls(cache_folder: Path, kind: type[BaseException]) -> None:
    """As in a notebook, whose event loop continues: one of them calls instead."""
    read: list[str] = []

    def parse(text: str) -> str:
        read.append(text)
        if len(read) == 1:
            raise kind
        return text

    async def asked(engine: CallEngine) -> None:
        tasks.extend(asyncio.create_task(engine.complete(replace(ask(), parse=parse))) for _ in range(3))
        await asyncio.wait(tasks)

    tasks: list[asyncio.Task[Completion[str]]] = []
    context = scripted_engine(cache_folder, lambda *_: _late("q1"))
    with asyncio.Runner() as runner:
        engine, _ = runner.run(context.__aenter__())
        with pytest.raises(kind):
            runner.run(asked(engine))
        done, waiting = runner.get_loop().run_until_complete(asyncio.wait(tasks, timeout=10))
        assert sorted(str(task.exception() or task.result().value) for task in done) == ["", "q1", "q1"]
        assert not waiting
        runner.run(context.__aexit__(None, None, None))


async def test_an_engine_closed_in_use_sends_nothing_more(cache_folder: Path) -> None:
    """The caller gets an error; calls in flight are not sent again, and the engine does not open again."""
    with serving(SimConfig(latency_ms=50.0)) as sim:
        engine = await Engine(f"{sim.base_url}#gpt-oss-120b", cache=cache_folder, concurrency=4).open()
        judging = asyncio.create_task(ajudge_pairs([(f"q{n}", "a", "b") for n in range(40)], engine=engine))
        await until(lambda: engine.is_open and (stats := engine.stats()) is not None and stats.sent >= 8)
        stats = engine.stats()
        assert stats is not None
        await engine.close()
        with pytest.raises(UsageError, match=r"closed while it was being asked|is not open"):
            await asyncio.wait_for(judging, 10)
        assert sim.paid().total() <= stats.sent


def _alone(work: Callable[[], Coroutine[Any, Any, int]]) -> int:
    """Run a coroutine in a forked child on a new loop; 99 if anything fails."""
    signal.alarm(20)
    try:
        asyncio.events._set_running_loop(None)  # the parent's, which does not run here
        return asyncio.run(work())
    except BaseException:  # noqa: BLE001  (the parent sees the exit code)
        return 99
