"""`svr serve` and a bare engine in one run, and how long 500 clients at once wait. SIMULATED judge.

    python benchmarks/speed/serve.py             about two minutes on a quiet machine
    python benchmarks/speed/serve.py --quick     half a minute

The simulated judge, the server and the client are processes of their own. "Bare" asks the same kind of questions with
the library's `score_pair` and `score` in the client's process; "served" by `/v1/svr/compare` and `/score`. Both ask new
questions each time, in turn and repeatedly, with as many under way; the ratio is the median of those of neighbouring
runs. Then each trainer's shape: 504 requests at once, 63 groups of eight in a circle, nothing of it in the cache: the
time to the reply of each, and whether every group has its rewards (none the fallback, their sum zero).
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import aiohttp
from targets import Figure, hand_over

from svr_async import Engine, ascore, ascore_pair
from svr_async.core.rubric import Rubric
from svr_async.scoring.bank import BankRubric, InferenceSettings, RubricBank
from svr_async.simulation.catalogue import CRITERIA
from svr_async.simulation.world import World

GROUP = 8
AT_ONCE = 504
AT_LEAST = 0.8
Ask = Callable[[int], Awaitable[Any]]


class Questions:
    """Planted prompts with two responses each; each number is another question, as its texts end in it."""

    def __init__(self, count: int) -> None:
        self.pairs = [item.pair for item in World().pairs(count, "test")]

    def of(self, number: int) -> tuple[str, str, str]:
        pair = self.pairs[number % len(self.pairs)]
        return pair.prompt[0].content, f"{pair.chosen} ({number})", f"{pair.rejected} ({number})"

    def group(self, number: int) -> tuple[str, list[str]]:
        """Return a prompt that no other group has, and eight responses."""
        first = number * GROUP
        prompt = f"{self.of(first)[0]} ({number})"
        return prompt, [self.of(first + place)[1 + place % 2] for place in range(GROUP)]


def write_bank(folder: Path) -> Path:
    rubrics = tuple(BankRubric(rubric=Rubric(text=entry.rubric)) for entry in CRITERIA[:12])
    RubricBank(rubrics=rubrics, name="planted", inference=InferenceSettings(top_k=6)).save(folder)
    return folder


@contextmanager
def running(*args: object) -> Iterator[str]:
    """Run `svr` as a process; yields the address in its first line."""
    command = [sys.executable, "-m", "svr_async", *map(str, args)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert " at http" in line, line
        try:
            yield line.split(" at ")[1].split()[0]
        finally:
            process.terminate()


async def rate(ask: Ask, numbers: Iterator[int], calls: int, in_flight: int) -> float:
    """Return answers a second, without the first and last tenth of them, when fewer are under way."""
    room = asyncio.Semaphore(in_flight)
    ended: list[float] = []

    async def one(number: int) -> None:
        async with room:
            await ask(number)
            ended.append(time.perf_counter())

    await asyncio.gather(*(one(next(numbers)) for _ in range(calls)))
    first, last = calls // 10, calls - calls // 10 - 1
    return (last - first) / (ended[last] - ended[first])


async def ratios(
    questions: Questions, bank: RubricBank, judge: str, url: str, folder: Path, args: argparse.Namespace
) -> list[Figure]:
    """Return served over bare, for comparisons and for scores."""
    numbers = itertools.count()
    figures = []
    connector = aiohttp.TCPConnector(limit=0)
    async with (
        aiohttp.ClientSession(connector=connector) as client,
        Engine(judge, cache=folder / "bare", concurrency=args.in_flight) as engine,
    ):

        async def answer(path: str, body: Any) -> Any:
            async with client.post(url + path, json=body) as reply:
                assert reply.status == 200, await reply.text()
                assert reply.headers["X-SVR-Fallback"] == "0"
                return await reply.json()

        async def bare_pair(number: int) -> None:
            assert (await ascore_pair(*questions.of(number), bank=bank, engine=engine)).margin is not None

        async def served_pair(number: int) -> None:
            prompt, a, b = questions.of(number)
            await answer("/v1/svr/compare", {"prompt": prompt, "a": a, "b": b})

        async def bare_score(number: int) -> None:
            assert (await ascore(*questions.of(number)[:2], bank=bank, engine=engine)).value is not None

        async def served_score(number: int) -> None:
            prompt, text, _ = questions.of(number)
            await answer("/score", {"queries": prompt, "documents": text})

        for name, bare, served in (
            ("/v1/svr/compare", bare_pair, served_pair),
            ("/score", bare_score, served_score),
        ):
            await rate(served, numbers, 2 * args.in_flight, args.in_flight)  # warm
            await rate(bare, numbers, 2 * args.in_flight, args.in_flight)
            found = []
            for turn in range(args.repeats):
                order = (bare, served) if turn % 2 else (served, bare)
                rates = {ask: await rate(ask, numbers, args.calls, args.in_flight) for ask in order}
                found.append((rates[bare], rates[served]))
                print(f"{name}: bare {rates[bare]:.0f}/s, served {rates[served]:.0f}/s", flush=True)
            ratio = statistics.median(served / bare for bare, served in found)
            figures.append(
                Figure(name=f"serve: {name} over a bare engine", value=ratio, unit="×", target=AT_LEAST, at_least=True)
            )
    return figures


def bodies(shape: str, prompt: str, texts: list[str], group: str) -> Iterator[tuple[str, Any]]:
    """Yield path and body for each member of a group, as a trainer sends them."""
    for place, text in enumerate(texts):
        names = {"group": group, "member": place, "group_size": GROUP}
        if shape == "OpenRLHF":
            yield "/get_reward", {"query": [prompt + text], "prompts": [prompt], "labels": [""], **names}
        elif shape == "verl":
            yield "/reward?key=score", {"prompt": prompt, "response": text, **names}
        else:
            message = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}
            yield (
                f"/verify?group_size={GROUP}",
                {
                    "responses_create_params": {"input": [{"role": "user", "content": prompt}]},
                    "response": {"output": [message]},
                    "group_id": group,
                    "group_attempt": 0,
                    "_ng_rollout_index": place,
                },
            )


def reward_of(shape: str, reply: Any) -> float:
    return float({"OpenRLHF": lambda: reply["rewards"][0], "verl": lambda: reply["score"]}.get(
        shape, lambda: reply["reward"])())  # fmt: skip


async def at_once(questions: Questions, url: str, shape: str, first: int) -> tuple[float, float, float]:
    """Send 504 requests at once; return the median, the 99th percentile and the longest time to a reply."""
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector) as client:

        async def one(path: str, body: Any) -> tuple[float, float]:
            started = time.perf_counter()
            async with client.post(url + path, json=body) as reply:
                assert (reply.status, reply.headers["X-SVR-Fallback"]) == (200, "0")
                return time.perf_counter() - started, reward_of(shape, await reply.json())

        asked = []
        for number in range(AT_ONCE // GROUP):
            prompt, texts = questions.group(first + number)
            asked += [one(*member) for member in bodies(shape, prompt, texts, f"{shape}-{number}")]
        found = await asyncio.gather(*asked)
    for start in range(0, AT_ONCE, GROUP):
        assert abs(sum(reward for _, reward in found[start : start + GROUP])) < 1e-6
    times = sorted(seconds for seconds, _ in found)
    return statistics.median(times), times[int(0.99 * len(times))], times[-1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--latency-ms", type=float, default=300.0, help="median of the simulated judge")
    parser.add_argument("--in-flight", type=int, default=64)
    parser.add_argument("--figures", type=Path, help="append figures to this file")
    args = parser.parse_args()
    args.repeats, args.calls = (3, 256) if args.quick else (3, 768)
    questions = Questions(200)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        bank = RubricBank.load(write_bank(folder / "bank"))
        slow = ("--latency-ms", args.latency_ms) if args.latency_ms else ()
        with running("sim", "--port", 0, *slow) as endpoint:
            judge = f"{endpoint}#gpt-oss-120b"
            limits = ("--concurrency", args.in_flight, "--cache", folder / "served")
            serve = ("serve", "--judge", judge, "--bank", folder / "bank", "--listen", 0, *limits)
            with running(*serve) as url:
                figures = asyncio.run(ratios(questions, bank, judge, url, folder, args))
                for number, shape in enumerate(("OpenRLHF", "verl", "NeMo Gym")):
                    median, p99, longest = asyncio.run(at_once(questions, url, shape, 1000 * (number + 1)))
                    print(
                        f"{AT_ONCE} at once, {shape}: median {median:.2f} s, p99 {p99:.2f} s, longest {longest:.2f} s"
                        f" (bound: {AT_ONCE / args.in_flight:.1f} turns of {args.latency_ms:g} ms)",
                        flush=True,
                    )
    print("SIMULATED judge")
    hand_over(figures, args.figures)


if __name__ == "__main__":
    main()
