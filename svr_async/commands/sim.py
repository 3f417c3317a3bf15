"""`svr sim`: the simulated judge endpoint and its planted data."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from svr_async.commands import options as opt
from svr_async.commands.options import GroupedCommand, option, together

if TYPE_CHECKING:
    from svr_async.simulation.config import SimConfig


@click.command(cls=GroupedCommand)
@option("--port N", "0 takes any free port.", default=8000, type=click.IntRange(0, 65535))
@option("--seed N", "Seed of the planted world, the noise and the faults. Default: 0.", default=0)
@option("--log PATH", "Append every call to this JSON Lines file.", name="log_path", type=opt.PATH)
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
    option("--fault-rate 0..1", "Share of faulty calls. Default: 0.", default=0.0, type=opt.SHARE),
    option(
        "--faults TEXT",
        "Comma-separated: 429, 500, cut, empty, hang, too-long, refused, truncated.",
        default="429,500,cut,empty",
    ),
    group="What goes wrong",
)
def sim(out: Path | None, n_train: int, n_test: int, **options: Any) -> None:
    """Serve a simulated judge with an OpenAI-compatible API, or write the pairs that it can judge.

    \b
    Example:
      svr sim --seed 1 --write simulated/
      svr sim --seed 1 --port 8000 --fault-rate 0.2
    """
    from svr_async.simulation.config import SimConfig, parse_faults
    from svr_async.simulation.files import write_world
    from svr_async.simulation.world import World

    if out is None:
        asyncio.run(_serve(SimConfig(faults=parse_faults(options.pop("faults")), **options)))
        return
    train, test, readme = write_world(World(options["seed"]), out, n_train=n_train, n_test=n_test)
    click.echo(f"{n_train:,} pairs in {train}")
    click.echo(f"{n_test:,} pairs in {test} (simulated; see {readme.name})")


async def _serve(config: SimConfig) -> None:
    """Serve until SIGINT or SIGTERM, then say what was done."""
    from svr_async.engine.shutdown import stop_event
    from svr_async.simulation.judge import MODELS
    from svr_async.simulation.server import SimServer

    with stop_event() as stop:
        async with SimServer(config) as server:
            click.echo(f"simulated judge at {server.base_url} — models: {', '.join(MODELS)}")
            await stop.wait()
            stats = server.stats()
    click.echo(f"{stats['calls']} calls, {stats['paid']} paid, {stats['completed']} completed")
