"""What programs do to an engine: cancel at any moment, end their loop early, fork; nothing hangs, nothing is paid twice."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from pathlib import Path

from rig import ask, engine_at, scripted_engine, serving

from svr_async.engine.memo import Memo
from svr_async.simulation.config import SimConfig

N = 60


def _asked(url: str, number: int) -> object:
    """Return a question for a simulated model."""
    from dataclasses import replace

    question = ask(f"question {number}")
    return replace(question, request=replace(question.request, model="gpt-oss-120b", endpoint=url))


async def test_cancelled_at_any_moment_and_asked_again_nothing_kept_is_paid_twice(memo_folder: Path) -> None:
    """Waiting for a slot, sent, being committed: what a cancelled call may cost is that call, and all slots come back."""
    rng = random.Random(5)
    with serving(SimConfig(latency_ms=15.0)) as sim:
        async with engine_at(sim.base_url, memo_folder, concurrency=8) as engine:
            for _ in range(4):
                tasks = [asyncio.create_task(engine.complete(_asked(sim.base_url, n))) for n in range(N)]  # type: ignore[arg-type]
                for task in rng.sample(tasks, N // 2):
                    await asyncio.sleep(rng.uniform(0, 0.01))
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                assert (engine.stats().in_flight, engine.stats().waiting) == (0, 0)
            for n in range(N):
                assert (await engine.complete(_asked(sim.base_url, n))).value is not None  # type: ignore[arg-type]
            kept = engine.memo.stats().rows
        counts = [row["paid"] for row in sim.counts().values()]
    assert kept == len(counts) == N
    assert sum(counts) <= N + 4 * N // 2  # each cancelled call once
    assert max(counts) <= 4


def test_a_loop_that_ends_with_an_engine_open(memo_folder: Path) -> None:
    """What was answered is kept, and the memo opens again: for the same process, without waiting."""
    answered: list[str] = []

    async def forgets_to_close() -> None:
        context = scripted_engine(memo_folder, lambda request, _: _late(request.messages[0][1]))
        engine, _ = await context.__aenter__()
        tasks = [asyncio.create_task(engine.complete(ask(f"q{n}"))) for n in range(40)]
        for task in asyncio.as_completed(tasks[:8]):
            answered.append(str((await task).value))

    asyncio.run(asyncio.wait_for(forgets_to_close(), 20))
    memo = Memo.open(memo_folder)
    try:
        texts = {reply.text for key in list(memo.keys()) if (reply := memo.get(key)) is not None}
    finally:
        memo.close()
    assert len(answered) == 8
    assert set(answered) <= texts


async def _late(text: str) -> object:
    from rig import completion

    await asyncio.sleep(0.001 * int(text[1:]))
    return completion(text)


def test_a_child_of_a_fork_opens_an_engine_of_its_own(memo_folder: Path) -> None:
    """On the memo of its parent, whose engine is open and goes on: both are answered."""

    async def child() -> int:
        async with scripted_engine(memo_folder, lambda *_: _late("q1")) as (engine, transport):
            theirs, own = await engine.complete(ask("before")), await engine.complete(ask("own"))
            return 0 if (theirs.value, own.value, len(transport.sent)) == ("q1", "q1", 1) else 1

    async def parent() -> int:
        async with scripted_engine(memo_folder, lambda *_: _late("q1")) as (engine, transport):
            assert (await engine.complete(ask("before"))).value == "q1"
            pid = os.fork()
            if not pid:
                os._exit(_alone(child))
            code = os.waitstatus_to_exitcode((await asyncio.to_thread(os.waitpid, pid, 0))[1])
            assert (await engine.complete(ask("own"))).value == "q1"
            assert len(transport.sent) == 1
            return code

    assert asyncio.run(asyncio.wait_for(parent(), 40)) == 0


def _alone(work: object) -> int:
    """Run a coroutine in a child on a loop of its own; 99 where anything goes wrong."""
    signal.alarm(20)
    try:
        asyncio.events._set_running_loop(None)  # the parent's, which does not run here
        return asyncio.run(work())  # type: ignore[operator]
    except BaseException:  # noqa: BLE001  (whatever it is, the parent is told)
        return 99
