"""Our whole engine beside raw aiohttp, in one run against the simulated endpoint: client CPU per call, and memo hits.

    python benchmarks/speed/engine.py --calls 3000 --in-flight 64 512

The server is a process of its own. "Raw" sends the same bodies with aiohttp, a task a call, and parses the JSON. The
engine looks in the memo, sends, parses, checks the verdict, keeps the reply durably and counts. Ratios are what counts.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import aiohttp
import orjson

from svr_async.engine.config import EngineConfig
from svr_async.engine.engine import Engine
from svr_async.engine.memo import Memo
from svr_async.engine.secrets import Secret
from svr_async.engine.transport import HttpTransport
from svr_async.judges.profiles import Profile
from svr_async.judges.questions import QuestionWriter
from svr_async.judges.templates import load_templates
from svr_async.vocabulary.pair import Presentation, user_prompt

CLI = [sys.executable, str(Path(__file__).resolve().parents[2] / "cli.py")]


def questions(base_url: str, count: int, run: str):
    writer = QuestionWriter(Profile(name="sim", model="gpt-oss-120b", base_url=base_url), load_templates())
    text = "A sentence of some length about nothing in particular. " * 24
    for number in range(count):
        prompt = user_prompt(f"{run} question {number}: which is better?")
        shown = Presentation(pair_id=str(number), prompt=prompt, response_a=text, response_b=text[::-1])
        yield writer.direct(shown)


async def raw(base_url: str, count: int, in_flight: int) -> float:
    bodies = [question.request.body_bytes for question in questions(base_url, count, f"raw {in_flight}")]
    gate = asyncio.Semaphore(in_flight)

    async def call(session: aiohttp.ClientSession, body: bytes) -> None:
        async with gate, session.post(f"{base_url}/chat/completions", data=body) as response:
            orjson.loads(await response.read())["choices"][0]["message"]["content"]

    began = time.process_time()
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        await asyncio.gather(*(call(session, body) for body in bodies))
    return 1e6 * (time.process_time() - began) / count


async def ours(base_url: str, count: int, in_flight: int, memo: Path) -> tuple[float, float]:
    """Return CPU microseconds a call, first sent and then from the memo."""
    asked = list(questions(base_url, count, f"engine {in_flight}"))
    times = []
    config = EngineConfig(concurrency=in_flight)
    async with Engine(HttpTransport(base_url, Secret("")), Memo.open(memo), config=config) as engine:
        for _ in range(2):
            began = time.process_time()
            async for _done in engine.map(asked):
                pass
            times.append(1e6 * (time.process_time() - began) / count)
    return times[0], times[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=3000)
    parser.add_argument("--in-flight", type=int, nargs="+", default=[64, 512])
    args = parser.parse_args()
    server = subprocess.Popen([*CLI, "sim", "--port", "0"], stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        base_url = next(word for word in server.stdout.readline().split() if word.startswith("http"))
        print("| in flight | raw aiohttp, µs CPU a call | engine | × raw | memo hit, µs |\n|---|---|---|---|---|")
        for in_flight in args.in_flight:
            with tempfile.TemporaryDirectory() as folder:
                plain = asyncio.run(raw(base_url, args.calls, in_flight))
                sent, hit = asyncio.run(ours(base_url, args.calls, in_flight, Path(folder) / "memo"))
            print(f"| {in_flight} | {plain:.0f} | {sent:.0f} | {sent / plain:.2f} | {hit:.0f} |", flush=True)
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    main()
