"""`svr serve`: rewards, rankings and comparisons over HTTP."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from svr_async.commands import options as opt
from svr_async.commands.log_flags import Address
from svr_async.commands.options import GroupedCommand, known_of, option, together, with_limits
from svr_async.errors import UsageError

if TYPE_CHECKING:
    from svr_async.serving.server.app import RewardServer

MIB = 2**20


@click.command(cls=GroupedCommand, context_settings=opt.HELP)
@opt.judge
@opt.bank
@option("--listen [HOST:]PORT", "0 takes any free port.", type=Address(), default="8080")
@option("--fallback N", "The reward without a verdict. Default: 0.", type=float, default=0.0)
@opt.top_k
@together(
    option("--schedule", "Pairs compared in a group.", type=click.Choice(["circle", "all"]), default="circle"),
    option("--group-size N", "Members of a group.", type=click.IntRange(min=0), default=0),
    group="Rewards",
)
@together(
    option(
        "--deadline SECONDS",
        "Limit of a request; shorter than the client's timeout.",
        name="deadline_s",
        type=click.FloatRange(min=0.1),
        default=100.0,
    ),
    option("--token-env NAME", "Require the bearer token in this variable."),
    option("--max-body MIB", "Largest body.", type=opt.COUNT, default=4),
    group="Limits",
)
@opt.few_limits
@together(opt.config, group="Output and settings")
def serve(**flags: Any) -> None:
    """Serve rewards over HTTP, for trainers (OpenRLHF, slime, verl, NeMo Gym) and clients of rerankers.

    \b
    Example:
      svr serve --bank runs/demo/trained/bank --judge rules --listen 8080
      curl --json @pair.json http://127.0.0.1:8080/v1/svr/compare
    """
    from svr_async.engine.concurrency import run_whole
    from svr_async.judges.open_judge import JudgeSpec
    from svr_async.judges.profiles import naming_keys

    server = _server(with_limits(flags))
    with naming_keys(JudgeSpec.parse(flags["judge"], base_url=flags["base_url"]).key_variables):
        run_whole(_serve(server))


def _server(flags: dict[str, Any]) -> RewardServer:
    from svr_async.scoring.bank import RubricBank
    from svr_async.serving.server.app import RewardServer
    from svr_async.serving.server.settings import ServerSettings

    (host, port), name = flags["listen"], flags["token_env"]
    token = os.environ.get(name, "") if name else ""
    if name and not token:
        raise UsageError(f"--token-env {name}: the variable has no token", hint=f"export {name}=…")
    given = {**flags, "host": host, "port": port, "token": token, "max_body": flags["max_body"] * MIB}
    return RewardServer(
        flags["judge"],
        settings=ServerSettings(**known_of(ServerSettings, given)),
        limits=flags["limits"],
        base_url=flags["base_url"],
        bank=None if flags["bank"] is None else RubricBank.load(flags["bank"]),
    )


async def _serve(server: RewardServer) -> None:
    """Serve until SIGINT or SIGTERM, then let running requests end."""
    from svr_async.engine.shutdown import stop_event

    with stop_event() as stop:
        async with server:
            click.echo(f"serving at {server.url} — {server.judge.label}; GET / lists the routes")
            await stop.wait()
            click.echo("stopping: running requests may finish; again to stop at once", err=True)
    click.echo(
        "{requests:,} requests, {rewards:,} rewards, {fallbacks:,} of them the fallback".format(**server.counts())
    )
