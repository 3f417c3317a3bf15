"""`svr serve`: rewards, rankings and comparisons over HTTP."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from svr_async.commands.log_flags import Address
from svr_async.commands.options import (
    HELP,
    USUAL,
    GroupedCommand,
    config_option,
    few_limits,
    judge_option,
    known_of,
    scheduled,
    top_k_option,
    with_limits,
)
from svr_async.errors import UsageError

if TYPE_CHECKING:
    from svr_async.serving.server.app import RewardServer

GROUPS = {
    "Rewards": ("relative", "schedule", "group_size"),
    "Limits": ("deadline_s", "token_env", "max_body"),
    **USUAL,
}
MIB = 2**20


@click.command(cls=GroupedCommand, groups=GROUPS, context_settings=HELP)
@judge_option
@click.option("--bank", metavar="BANK", help="Judge with this bank: a folder, or hf:user/name.")
@click.option(
    "--listen", type=Address(), default="8080", show_default=True, metavar="[HOST:]PORT", help="0 takes any free port."
)
@click.option(
    "--fallback", type=float, default=0.0, show_default=True, metavar="N", help="The reward without a verdict."
)
@click.option(
    "--relative",
    type=click.Choice(["group", "anchor"]),
    default="group",
    show_default=True,
    help="Rewards within a group, or over the request's anchor or label.",
)
@scheduled("circle", ("circle", "all"))
@click.option("--group-size", type=click.IntRange(min=0), default=0, metavar="N", help="Members of a group.")
@top_k_option
@click.option(
    "--deadline",
    "deadline_s",
    type=click.FloatRange(min=0.1),
    default=100.0,
    show_default=True,
    metavar="SECONDS",
    help="Seconds in which everyone is answered; less than the client waits.",
)
@click.option("--token-env", metavar="NAME", help="Admit only clients that send the bearer token in this variable.")
@click.option("--max-body", type=click.IntRange(min=1), default=4, metavar="MIB", help="Largest body. Default: 4.")
@few_limits
@config_option
def serve(**flags: Any) -> None:
    """Serve rewards over HTTP, for trainers (OpenRLHF, slime, verl, NeMo Gym) and clients of rerankers.

    \b
    Example:
      svr serve --bank runs/demo/trained/bank --judge rules --listen 8080
      curl --json '{"prompt": "Name a colour.", "a": "Blue.", "b": "No."}' http://127.0.0.1:8080/v1/svr/compare
    """
    from svr_async.judges.open_judge import JudgeSpec
    from svr_async.judges.profiles import naming_keys

    server = _server(with_limits(flags))
    with naming_keys(JudgeSpec.parse(flags["judge"], base_url=flags["base_url"]).key_variables):
        from svr_async.engine.concurrency import run_whole

        run_whole(_until_told(server))


def _server(flags: dict[str, Any]) -> RewardServer:
    from svr_async.scoring.bank import RubricBank
    from svr_async.serving.server.app import RewardServer
    from svr_async.serving.server.settings import ServerSettings

    (host, port), name = flags["listen"], flags["token_env"]
    token = os.environ.get(name, "") if name else ""
    if name and not token:
        raise UsageError(f"--token-env {name} names no variable with a token", hint=f"export {name}=…")
    given = {**flags, "host": host, "port": port, "token": token, "max_body": flags["max_body"] * MIB}
    return RewardServer(
        flags["judge"],
        settings=ServerSettings(**known_of(ServerSettings, given)),
        limits=flags["limits"],
        base_url=flags["base_url"],
        bank=None if flags["bank"] is None else RubricBank.load(flags["bank"]),
    )


async def _until_told(server: RewardServer) -> None:
    """Serve until SIGINT or SIGTERM, then let what is under way end."""
    from svr_async.engine.concurrency import stop_event

    with stop_event() as stop:
        async with server:
            click.echo(f"serving at {server.url} — {server.judge.label}; GET / lists the routes")
            await stop.wait()
            click.echo("stopping: running requests may finish; again to stop at once", err=True)
    counts = server.counts()
    click.echo("{requests:,} requests, {rewards:,} rewards, {fallbacks:,} of them the fallback".format(**counts))
