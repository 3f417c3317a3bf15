"""`svr sim`: the simulated judge endpoint and its planted data."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from svr_async.commands import options as opt
from svr_async.commands.options import GroupedCommand, option, together

if TYPE_CHECKING:
    from svr_async.simulation.simulator import SimConfig

NOTE = """SIMULATED DATA. Written by `svr sim --seed {seed}`; no person and no language model wrote it.

train.jsonl        preference pairs; domain is the planted prompt type
rubricbench.jsonl  pairs in RubricBench's schema; label 0 means response A

Each prompt type cares about a few planted criteria with unequal weights. The sentences of a response show which of
them it meets; its length, headings and tone mean nothing. Some labels are wrong on purpose. Judge it with the endpoint
of the same seed, `svr sim --seed {seed}`, and label every result on it as simulated.
"""


@click.command(cls=GroupedCommand)
@option("--port N", "0 takes any free port.", default=8000, type=click.IntRange(0, 65535))
@option("--seed N", "Seed of the planted world, the noise and the faults. Default: 0.", default=0)
@together(
    option("--write DIR", "Write planted pairs into DIR instead of serving.", name="out", type=opt.FOLDER),
    option("--train N", "Training pairs.", name="n_train", default=3000, type=opt.COUNT),
    option("--test N", "Test pairs.", name="n_test", default=1147, type=opt.COUNT),
    group="Planted data",
)
@option("--manner NAME", "Write replies in another form: yes-no, bare-list, ties …", default="")
@together(
    option("--latency-ms N", "Median time of a reply of 256 tokens. Default: 0.", default=0.0),
    option("--rpm N", "Answer 429 beyond N calls a minute. Default: no limit.", default=0.0),
    option("--fault-rate 0..1", "Share of 429, 500, cut and empty replies. Default: 0.", default=0.0, type=opt.SHARE),
    group="What goes wrong",
)
def sim(out: Path | None, n_train: int, n_test: int, **options: Any) -> None:
    """Serve a simulated judge with an OpenAI-compatible API, or write the pairs that it can judge.

    \b
    Example:
      svr sim --seed 1 --write simulated/
      svr sim --seed 1 --port 8000 --fault-rate 0.2
    """
    from svr_async.simulation.simulator import SimConfig

    if out is None:
        asyncio.run(_serve(SimConfig(**options)))
    else:
        _write(options["seed"], out, n_train, n_test)


def _write(seed: int, out: Path, n_train: int, n_test: int) -> None:
    """Write train.jsonl, rubricbench.jsonl and README.txt into a folder."""
    import orjson

    from svr_async.core.files import write_atomic, write_lines
    from svr_async.simulation.world import World, rubricbench_row, train_row

    world = World(seed)
    files = {
        "train.jsonl": [train_row(item) for item in world.pairs(n_train, "train")],
        "rubricbench.jsonl": [rubricbench_row(world, item) for item in world.pairs(n_test, "test")],
    }
    write_atomic(out / "README.txt", NOTE.format(seed=seed).encode())
    for name, rows in files.items():
        write_lines(out / name, (orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for row in rows))
        click.echo(f"{len(rows):,} pairs in {out / name} (simulated; see README.txt)")


async def _serve(config: SimConfig) -> None:
    """Serve until SIGINT or SIGTERM."""
    from svr_async.engine.shutdown import stop_event
    from svr_async.simulation.server import SimServer

    with stop_event() as stop:
        async with SimServer(config) as server:
            click.echo(f"simulated judge at {server.base_url} — models: {', '.join(server.simulator.judges)}")
            await stop.wait()
