"""How much of the input a prefix cache serves, by the order of the calls, over real HTTP to the simulated endpoint.

    python benchmarks/speed/prefix.py --pairs 400 --blocks 4096

Traffic as training has it: for each pair a pool of 18 rubrics, judged in 3 calls of 6. The simulated endpoint keeps
blocks of 64 tokens, the least recently used go first, and a block serves others only once it is computed. The shares
depend on how long the texts are: `--data FILE --format NAME` measures pairs of your own.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import tempfile
from collections.abc import Sequence
from pathlib import Path

from svr_async.adapters import get_adapter
from svr_async.core.pair import PreferencePair
from svr_async.core.rubric import Rubric
from svr_async.engine.cache import Cache
from svr_async.engine.caller import EngineConfig
from svr_async.engine.engine import CallEngine
from svr_async.engine.http import HttpTransport
from svr_async.engine.money import Price
from svr_async.engine.reply import Usage
from svr_async.engine.secrets import Secret
from svr_async.judges.model import ModelJudge
from svr_async.judges.profiles import Profile
from svr_async.judges.questions import QuestionWriter
from svr_async.judges.templates import load_templates
from svr_async.simulation.catalogue import CRITERIA
from svr_async.simulation.config import SimConfig
from svr_async.simulation.prefix import PrefixCache
from svr_async.simulation.server import SimServer
from svr_async.simulation.world import World
from svr_async.training.rounds.config import PrefixOrder
from svr_async.training.rounds.judge_calls import Crew, PoolTask, judge_pools

PRICE = Price(input=0.15, cached=0.075, output=0.6)  # dollars a million tokens: cached input at half the price
RUBRICS = [Rubric(text=criterion.rubric) for criterion in CRITERIA]


def pool(pair: PreferencePair, size: int) -> list[Rubric]:
    """Draw rubrics for a pair, the same ones each time."""
    return sorted(RUBRICS, key=lambda rubric: hashlib.sha256(f"{pair.id} {rubric.id}".encode()).digest())[:size]


async def measure(args: argparse.Namespace, order: PrefixOrder, tasks: Sequence[PoolTask]) -> tuple[Usage, int]:
    """Judge all pools in one order on a fresh endpoint with a fresh cache; return the tokens and the calls."""
    config = SimConfig(latency_ms=args.latency_ms, prefix_blocks=args.blocks)
    async with SimServer(config) as server:
        server.service.prefix = PrefixCache(args.blocks, lag_s=args.lag_ms / 1000)
        profile = Profile(name="sim", model="gpt-oss-120b", base_url=server.base_url, price=PRICE)
        writer = QuestionWriter(profile, load_templates())
        transport = HttpTransport(server.base_url, Secret(""))
        with tempfile.TemporaryDirectory() as folder:
            settings = EngineConfig(concurrency=args.in_flight)
            async with CallEngine(transport, Cache.open(Path(folder)), config=settings) as engine:
                crew = Crew(
                    judge=ModelJudge(engine, writer),
                    author=ModelJudge(engine, writer),
                    workers=args.in_flight,
                    rubrics_per_call=args.per_call,
                    prefix=order,
                )
                await judge_pools(crew, tasks)
                stats = engine.stats()
    usage = Usage(
        prompt_tokens=stats.prompt_tokens,
        cached_tokens=stats.cached_tokens,
        completion_tokens=stats.completion_tokens,
    )
    return usage, stats.sent


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=400)
    parser.add_argument("--data", type=Path, help="a file of pairs in place of planted ones")
    parser.add_argument("--format", default="pairs", help="the adapter that reads --data")
    parser.add_argument("--pool", type=int, default=18, help="rubrics a pair")
    parser.add_argument("--per-call", type=int, default=6, help="rubrics a call")
    parser.add_argument("--in-flight", type=int, default=64)
    parser.add_argument("--blocks", type=int, default=4096, help="the endpoint's prefix cache, in blocks of 64 tokens")
    parser.add_argument("--latency-ms", type=float, default=60.0)
    parser.add_argument("--lag-ms", type=float, default=20.0, help="until a prefix is computed and others can use it")
    args = parser.parse_args()
    if args.data:
        pairs = list(get_adapter(args.format).load(args.data).pairs[: args.pairs])
    else:
        pairs = [planted.pair for planted in World().pairs(args.pairs, "train")]
    tasks = [PoolTask(pair, pool(pair, args.pool)) for pair in pairs]
    print("SIMULATED endpoint. Dollars at $0.15 in, $0.075 cached, $0.60 out a million tokens.\n")
    heads = ("--prefix", "calls", "tokens in", "of them cached", "share", "$ for input", "saved")
    print(f"| {' | '.join(heads)} |\n{'|---' * len(heads)}|")
    for order in (PrefixOrder.OFF, PrefixOrder.ADJACENT, PrefixOrder.LEADER):
        usage, calls = await measure(args, order, tasks)
        prompt, cached = usage.prompt_tokens or 0, usage.cached_tokens or 0
        paid = PRICE.cost(Usage(prompt_tokens=prompt, cached_tokens=cached, completion_tokens=0))
        whole = PRICE.cost(Usage(prompt_tokens=prompt, cached_tokens=0, completion_tokens=0))
        row = (order, calls, f"{prompt:,}", f"{cached:,}", f"{cached / prompt:.1%}", f"{paid:.4f}")
        print("| " + " | ".join(map(str, row)) + f" | {1 - paid / whole:.1%} |", flush=True)


if __name__ == "__main__":
    asyncio.run(main())
