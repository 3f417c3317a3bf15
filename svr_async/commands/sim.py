"""`svr sim`: the simulated judge endpoint and its planted data."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from svr_async.commands.options import GroupedCommand

if TYPE_CHECKING:
    from svr_async.simulation.config import SimConfig


FLAGS = {
    "Planted data": ("out", "n_train", "n_test"),
    "How it judges": ("manner", "weak", "reasoning"),
    "How fast it is": ("latency_ms",),
    "What goes wrong": ("fault_rate", "faults"),
}


@click.command(cls=GroupedCommand, groups=FLAGS)
@click.option(
    "--port", default=8000, show_default=True, type=click.IntRange(0, 65535), metavar="N", help="0 takes any free port."
)
@click.option(
    "--seed", default=0, show_default=True, metavar="N", help="Seed of the planted world, the noise and the faults."
)
@click.option("--manner", default="", metavar="NAME", help="Write replies in another form: yes-no, bare-list, ties …")
@click.option(
    "--weak", metavar="NAME=CHANCE,…", default="", help="Taken in by padding, restated, keywords, instructions."
)
@click.option("--reasoning", is_flag=True, help="Refuse max_tokens and a temperature, as reasoning models do.")
@click.option(
    "--latency-ms",
    default=0.0,
    show_default=True,
    metavar="N",
    help="Median time of a reply of 256 tokens; 0: at once.",
)
@click.option(
    "--fault-rate",
    default=0.0,
    show_default=True,
    type=click.FloatRange(0, 1),
    metavar="0..1",
    help="Share of faulty calls.",
)
@click.option(
    "--faults",
    default="mixed",
    show_default=True,
    metavar="TEXT",
    help="Comma-separated faults, or groups: status, wire, body, content, benign, final, mixed.",
)
@click.option(
    "--log",
    "log_path",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="PATH",
    help="Append every call to this JSONL.",
)
@click.option(
    "--write",
    "out",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Write planted pairs into DIR instead of serving.",
)
@click.option(
    "--train",
    "n_train",
    default=3000,
    show_default=True,
    type=click.IntRange(1),
    metavar="N",
    help="With --write: training pairs.",
)
@click.option(
    "--test",
    "n_test",
    default=1147,
    show_default=True,
    type=click.IntRange(1),
    metavar="N",
    help="With --write: test pairs.",
)
def sim(out: Path | None, n_train: int, n_test: int, **options: Any) -> None:
    """Serve a simulated judge with an OpenAI-compatible API, or write the pairs that it can judge.

    \b
    Example:
      svr sim --seed 1 --write simulated/
      svr sim --seed 1 --port 8000 --fault-rate 0.2
    """
    if out is None:
        asyncio.run(_serve(_config(options), click.echo))
        return
    from svr_async.simulation.files import write_world
    from svr_async.simulation.world import World, WorldConfig

    train, test, readme = write_world(World(WorldConfig(seed=options["seed"])), out, n_train=n_train, n_test=n_test)
    click.echo(f"{n_train:,} pairs in {train}")
    click.echo(f"{n_test:,} pairs in {test} (simulated; see {readme.name})")


def _config(options: dict[str, Any]) -> SimConfig:
    from svr_async.simulation.config import SimConfig
    from svr_async.simulation.faults import FaultConfig, parse_kinds
    from svr_async.simulation.weakness import Weakness

    faults = FaultConfig(rate=options.pop("fault_rate"), kinds=parse_kinds(options.pop("faults")))
    return SimConfig(faults=faults, weakness=Weakness.parse(options.pop("weak")), **options)


async def _serve(config: SimConfig, say: Callable[[str], None]) -> None:
    """Serve until SIGINT or SIGTERM, then report the number of calls."""
    from svr_async.engine.concurrency import stop_event
    from svr_async.simulation.judge import MODELS
    from svr_async.simulation.server import SimServer

    with stop_event() as stop:
        async with SimServer(config) as server:
            say(f"simulated judge at {server.base_url} — models: {', '.join(MODELS)}")
            await stop.wait()
            stats = server.stats()
    say(f"{stats['calls']} calls, {stats['paid']} paid, {stats['completed']} completed")
