"""Serve a drawn world as an OpenAI-compatible endpoint, or write its pairs. SIMULATED.

serve.py 7 --port 8007                            # its endpoint, until interrupted
serve.py 7 --write DIR --train 3000 --test 1000   # train.jsonl and test.jsonl, with human rubrics
"""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

import orjson
from drawn import TEST, DrawnWorld, drawn

from svr_async.core.files import write_atomic
from svr_async.simulation.server import SimServer
from svr_async.simulation.simulator import SimConfig, Simulator
from svr_async.simulation.world import train_row


def write(world: DrawnWorld, folder: Path, n_train: int, n_test: int) -> None:
    """Write the pairs of both splits."""
    for split, count in (("train", n_train), (TEST, n_test)):
        rows = [train_row(item) | {"rubrics": world.human_rubrics(item)} for item in world.pairs(count, split)]
        lines = [orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for row in rows]
        write_atomic(folder / f"{split}.jsonl", b"".join(lines))


async def serve(world: DrawnWorld, port: int) -> None:
    """Serve until interrupted."""
    config = SimConfig(port=port, seed=world.seed)
    async with SimServer(config, simulator=Simulator(config, world.judges())) as server:
        print(f"SIMULATED, draw {world.seed}, at {server.base_url}", flush=True)
        await asyncio.Event().wait()


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("draw", type=int)
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--write", type=Path)
    parser.add_argument("--train", type=int, default=3000)
    parser.add_argument("--test", type=int, default=1000)
    flags = parser.parse_args()
    world = DrawnWorld(drawn(flags.draw))
    if flags.write:
        flags.write.mkdir(parents=True, exist_ok=True)
        write(world, flags.write, flags.train, flags.test)
    else:
        asyncio.run(serve(world, flags.port))


if __name__ == "__main__":
    main()
