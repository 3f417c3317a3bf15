"""`svr sim`: the simulated judge endpoint, and `svr sim world`: the planted data that goes with it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from svr_async.commands.groups import GroupedCommand

if TYPE_CHECKING:
    from svr_async.simulation.config import SimConfig
    from svr_async.simulation.worlds import PlantedConfig


class _ServeByDefault(click.Group):
    """A group that runs `serve` when its first argument names no command."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or (args[0] not in self.commands and args[0] not in ctx.help_option_names):
            args = ["serve", *args]
        return super().parse_args(ctx, args)


_world_option = click.option(
    "--world",
    "world_name",
    type=click.Choice(["plain", "varied", "redundant"]),  # those of `simulation.world.PRESETS`, which is slow to import
    default="plain",
    show_default=True,
    help="Which world is planted. In the varied one every part of the method but the diversity term has something to "
    "do, in the redundant one every part.",
)
_draw_option = click.option(
    "--draw",
    type=click.IntRange(0),
    help="The world of the family that is drawn from this number, in place of --seed and --world. Draws 0 to 39 are "
    "for development, 1000 to 1039 for reports.",
)


FLAGS = {
    "How it judges": ("noise", "position_bias", "echo", "weak", "reasoning", "context_tokens"),
    "How fast it is": ("latency_ms", "slots", "rpm", "tpm", "prefix_blocks"),
    "What goes wrong": ("fault_rate", "faults", "max_faulty", "retry_after", "poison", "outage", "quota"),
}


@click.group(cls=_ServeByDefault)
def sim() -> None:
    """Serve a simulated judge (the default), or write the data that it can judge.

    \b
    Example:
      svr sim world --seed 1 --out simulated/
      svr sim --seed 1 --port 8000 --fault-rate 0.2 --faults mixed
    """


@sim.command(cls=GroupedCommand, groups=FLAGS, short_help="Serve the endpoint (the default).")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", default=8000, show_default=True, type=click.IntRange(0, 65535), help="0 takes any free port.")
@click.option("--seed", default=0, show_default=True, help="Seed of the planted world, the noise and the faults.")
@_world_option
@_draw_option
@click.option("--noise", type=click.FloatRange(0, 1), help="Chance that a verdict is wrong, for every model.")
@click.option("--position-bias", type=click.FloatRange(0, 1), help="Chance of saying A without looking.")
@click.option("--echo", is_flag=True, help="Quote both candidates in every reply before its own verdict.")
@click.option(
    "--weak", metavar="NAME=CHANCE,…", default="", help="Taken in by padding, restated, keywords, instructions."
)
@click.option("--reasoning", is_flag=True, help="Refuse max_tokens and a temperature, as reasoning models do.")
@click.option("--api-key", default="", help="Refuse callers that do not send this key.")
@click.option("--context", "context_tokens", default=131_072, show_default=True, help="Context length in tokens.")
@click.option("--latency-ms", default=0.0, show_default=True, help="Median time of a reply of 256 tokens; 0: at once.")
@click.option("--slots", default=0, show_default=True, help="Replies written at a time, others queue; 0: no limit.")
@click.option("--rpm", default=0.0, show_default=True, help="Requests a minute; 0: no limit.")
@click.option("--tpm", default=0.0, show_default=True, help="Tokens a minute; 0: no limit.")
@click.option("--quota", default=0, show_default=True, help="Paid calls until the credit is used up; 0: no limit.")
@click.option("--prefix-blocks", default=0, show_default=True, help="Prefix cache in blocks of 64 tokens; 0: none.")
@click.option(
    "--fault-rate", default=0.0, show_default=True, type=click.FloatRange(0, 1), help="Share of faulty calls."
)
@click.option(
    "--faults",
    default="mixed",
    show_default=True,
    help="Comma-separated faults, or groups: status, wire, body, content, benign, final, mixed.",
)
@click.option("--max-faulty", default=2, show_default=True, help="Attempts at one request that may be faulty.")
@click.option("--retry-after", default=0.05, show_default=True, help="Seconds that a faulty 429 asks to wait.")
@click.option("--poison", multiple=True, metavar="TEXT", help="Always fail requests that contain this. Repeatable.")
@click.option(
    "--outage", multiple=True, metavar="START:DURATION", help="Seconds without service. Repeatable; :503 to reply."
)
@click.option(
    "--log", "log_path", type=click.Path(dir_okay=False, path_type=Path), help="Append every call to this JSONL."
)
def serve(**options: Any) -> None:
    """Serve an OpenAI-compatible endpoint that judges the planted world; every result of it is simulated.

    \b
    Example:
      svr sim serve --port 8000 --latency-ms 300 --rpm 600
      svr-eval rubricbench --data simulated/rubricbench.jsonl --judge http://127.0.0.1:8000/v1#gpt-oss-120b
    """
    asyncio.run(_serve(_config(options), click.echo))


def _config(options: dict[str, Any]) -> SimConfig:
    from svr_async.simulation.config import Outage, SimConfig
    from svr_async.simulation.faults import FaultConfig, parse_kinds
    from svr_async.simulation.weakness import Weakness

    faults = FaultConfig(
        rate=options.pop("fault_rate"),
        kinds=parse_kinds(options.pop("faults")),
        max_faulty_attempts=options.pop("max_faulty"),
        retry_after_s=options.pop("retry_after"),
        poison=options.pop("poison"),
    )
    weakness = Weakness.parse(options.pop("weak"))
    outages = tuple(Outage.parse(text) for text in options.pop("outage"))
    planted = _planted(options.pop("draw"), options.pop("world_name"), options["seed"])
    return SimConfig(
        faults=faults, outages=outages, weakness=weakness, world=planted, **(options | {"seed": planted.seed})
    )


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


@sim.command(short_help="Write planted pairs for training and testing.")
@click.option("--seed", default=0, show_default=True, help="Seed of the planted world.")
@_world_option
@_draw_option
@click.option(
    "--train", "n_train", type=click.IntRange(1), show_default="3000, or what was drawn", help="Training pairs."
)
@click.option("--test", "n_test", default=1147, show_default=True, type=click.IntRange(1), help="Test pairs.")
@click.option("--benchmarks", is_flag=True, help="Also RewardBench, RewardBench 2 and RM-Bench, at their full sizes.")
@click.option("--out", required=True, type=click.Path(file_okay=False, path_type=Path), help="Folder to write to.")
def world(
    seed: int, world_name: str, draw: int | None, n_train: int | None, n_test: int, benchmarks: bool, out: Path
) -> None:
    """Write planted preference pairs: train.jsonl, rubricbench.jsonl in RubricBench's schema, README.txt.

    Of a draw also properties.json: what was drawn, and what knowing the truth gives on the test pairs.

    \b
    Example:
      svr sim world --seed 1 --train 3000 --test 1147 --out simulated/
      svr sim world --seed 1 --world varied --out varied/
      svr sim world --draw 7 --out drawn/
    """
    from svr_async.simulation.files import write_world
    from svr_async.simulation.worlds import plant

    planted = plant(_planted(draw, world_name, seed))
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
