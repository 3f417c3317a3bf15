"""`svr sim`: the simulated judge endpoint and its planted data."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from svr_async.commands import options as opt
from svr_async.commands.options import GroupedCommand, flag, option, together

if TYPE_CHECKING:
    from svr_async.simulation.config import SimConfig
    from svr_async.simulation.worlds import PlantedConfig


@click.command(cls=GroupedCommand)
@option("--port N", "0 takes any free port.", default=8000, type=click.IntRange(0, 65535))
@option("--seed N", "Seed of the planted world, the noise and the faults. Default: 0.", default=0)
@option(
    "--world",
    "Which world is planted.",
    name="world_name",
    type=click.Choice(["plain", "varied", "redundant"]),
    default="plain",
)
@option("--draw N", "The drawn world of this number, not --seed and --world.", type=click.IntRange(0))
@option("--log PATH", "Append every call to this JSONL.", name="log_path", type=opt.PATH)
@together(
    option("--write DIR", "Write planted pairs into DIR instead of serving.", name="out", type=opt.FOLDER),
    option("--train N", "Training pairs. Default: 3,000, or as drawn.", name="n_train", type=opt.COUNT),
    option("--test N", "Test pairs.", name="n_test", default=1147, type=opt.COUNT),
    flag("--benchmarks", "Also RewardBench, RewardBench 2 and RM-Bench."),
    group="Planted data",
)
@together(
    option("--manner NAME", "Write replies in another form: yes-no, bare-list, ties …", default=""),
    option("--weak NAME=CHANCE,…", "Misled by padding, restated, keywords, instructions.", default=""),
    flag("--reasoning", "Refuse max_tokens and a temperature, as reasoning models do."),
    group="How it judges",
)
@together(
    option("--latency-ms N", "Median time of a reply of 256 tokens. Default: 0.", default=0.0),
    option("--fault-rate 0..1", "Share of faulty calls. Default: 0.", default=0.0, type=opt.SHARE),
    option(
        "--faults TEXT",
        "Comma-separated faults, or groups: status, wire, body, content, benign, final, mixed.",
        default="mixed",
    ),
    group="What goes wrong",
)
def sim(out: Path | None, n_train: int | None, n_test: int, benchmarks: bool, **options: Any) -> None:
    """Serve a simulated judge with an OpenAI-compatible API, or write the pairs that it can judge.

    \b
    Example:
      svr sim --seed 1 --write simulated/
      svr sim --seed 1 --port 8000 --fault-rate 0.2
    """
    if out is None:
        asyncio.run(_serve(_config(options), click.echo))
    else:
        _write(_planted(options["draw"], options["world_name"], options["seed"]), out, n_train, n_test, benchmarks)


def _config(options: dict[str, Any]) -> SimConfig:
    from svr_async.simulation.config import SimConfig
    from svr_async.simulation.faults import FaultConfig, parse_kinds
    from svr_async.simulation.weakness import Weakness

    faults = FaultConfig(rate=options.pop("fault_rate"), kinds=parse_kinds(options.pop("faults")))
    weakness = Weakness.parse(options.pop("weak"))
    planted = _planted(options.pop("draw"), options.pop("world_name"), options["seed"])
    return SimConfig(faults=faults, weakness=weakness, world=planted, **(options | {"seed": planted.seed}))


def _planted(draw: int | None, world_name: str, seed: int) -> PlantedConfig:
    """Return the settings of the world that the flags name; UsageError where --draw meets another way to name one."""
    from svr_async.errors import UsageError
    from svr_async.simulation.family import drawn
    from svr_async.simulation.world import preset

    if draw is None:
        return preset(world_name, seed)
    ctx, usual = click.get_current_context(), click.core.ParameterSource.DEFAULT
    names = {"--seed": "seed", "--world": "world_name"}
    given = [flag for flag, name in names.items() if ctx.get_parameter_source(name) is not usual]
    if given:
        message = f"--draw {draw} is a whole world, so it does not go with {' and '.join(given)}"
        raise UsageError(message, hint=f"leave out either --draw or {' and '.join(given)}")
    return drawn(draw)


async def _serve(config: SimConfig, say: Callable[[str], None]) -> None:
    """Serve until SIGINT or SIGTERM, then say what was done."""
    from svr_async.engine.concurrency import stop_event
    from svr_async.simulation.models import MODELS
    from svr_async.simulation.server import SimServer

    with stop_event() as stop:
        async with SimServer(config) as server:
            say(f"simulated judge at {server.base_url} — models: {', '.join(MODELS)}")
            await stop.wait()
            stats = server.stats()
    say(f"{stats['calls']} calls, {stats['paid']} paid, {stats['completed']} completed")


def _write(settings: PlantedConfig, out: Path, n_train: int | None, n_test: int, benchmarks: bool) -> None:
    """Write train.jsonl, rubricbench.jsonl and README.txt; for a draw also properties.json."""
    from svr_async.simulation.files import write_world
    from svr_async.simulation.worlds import plant

    planted = plant(settings)
    written = write_world(planted, out, n_train=n_train, n_test=n_test)
    click.echo(f"{written.n_train:,} pairs in {written.train}")
    click.echo(f"{written.n_test:,} pairs in {written.test} (simulated; see {written.readme.name})")
    if written.properties:
        click.echo(f"what was drawn, and what knowing the truth gives: {written.properties}")
    if benchmarks:
        from svr_async.adapters import ADAPTERS
        from svr_async.simulation.benchmark_files import write_benchmarks

        counts = {name: adapter.groups for name, adapter in ADAPTERS.items()}
        for path in write_benchmarks(planted, out, counts).values():
            click.echo(f"{path} (simulated)")
