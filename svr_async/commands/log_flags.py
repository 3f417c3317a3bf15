"""Options for logs and metrics, and the decorator that applies them to a command."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import click
import orjson

from svr_async.commands.options import option, together
from svr_async.errors import SvrError
from svr_async.version import __version__

NAMES = ("log_json", "log_level", "metrics_port")
SCREEN_ONLY = frozenset({"quiet", "verbose", "as_json"})
OTEL_VARIABLES = (
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
    "OTEL_TRACES_EXPORTER",
    "OTEL_METRICS_EXPORTER",
)
STDERR = "-"


class Address(click.ParamType):  # type: ignore[type-arg]  # generic in newer releases of click only
    """`PORT` on this machine only, or `HOST:PORT`; 0 takes any free port."""

    name = "address"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, int]:
        """Return host and port."""
        if isinstance(value, tuple):
            return value
        host, _, port = str(value).rpartition(":")
        if not port.isdecimal() or int(port) > 65535:
            self.fail(f"{value} is not PORT or HOST:PORT", param, ctx)
        return host or "127.0.0.1", int(port)


_watching = together(
    option("--log-json FILE|-", "Append a line of JSON an event to this file; - is standard error."),
    option("--log-level", "Log the run, or each call too.", type=click.Choice(["run", "call"]), default="run"),
    option("--metrics-port [HOST:]PORT", "Serve Prometheus metrics while this runs.", type=Address()),
    group="Watching",
)


def observed(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add --log-json, --log-level and --metrics-port to a command; OTEL_ variables start OpenTelemetry."""

    @functools.wraps(function)
    def call(**flags: Any) -> Any:
        own = {name: flags.pop(name) for name in NAMES}
        own["otel"] = _otel_asked_for(os.environ)
        if not (own["log_json"] or own["metrics_port"] or own["otel"]):
            return function(**flags)
        if own["log_json"] == STDERR and "quiet" in flags:
            flags["quiet"] = True  # standard error carries only JSON lines
        return _watched(function, flags, own)

    return _watching(call)


def _otel_asked_for(variables: Mapping[str, str]) -> bool:
    """Whether OpenTelemetry's usual variables name somewhere to send to."""
    if variables.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return False
    return any(variables.get(name, "") not in {"", "none"} for name in OTEL_VARIABLES)


def _watched(function: Callable[..., Any], flags: dict[str, Any], own: Mapping[str, Any]) -> Any:
    from svr_async.commands.main import BUG, known_error  # which imports this module's commands
    from svr_async.engine.events import RunStarted
    from svr_async.observability.session import watching

    command = click.get_current_context().command_path.removeprefix("svr ")
    judge = str(flags.get("judge") or "")
    keys = tuple(_key_variables(flags))
    started = RunStarted(command=command, version=__version__, config=digest_of_flags(flags), judge=judge)
    with watching(started, lambda text: click.echo(f"svr: {text}", err=True), key_variables=keys, **own) as ending:
        try:
            result = function(**flags)
        except BaseException as error:
            bug = "", f"{type(error).__name__}: {error}", BUG
            _, ending.error, ending.exit_code = known_error("svr", error) or bug
            raise
        ending.exit_code = result if isinstance(result, int) else 0
        return result


def _key_variables(flags: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of the variables with the judges' keys; the command itself reports an invalid judge."""
    named = ",".join(filter(None, (flags.get(name) for name in ("judge", "jury", "escalate_to"))))
    for judge in named.split(","):
        if judge not in {"", "rules"}:
            from svr_async.judges.open_judge import JudgeSpec

            with contextlib.suppress(SvrError):
                profile = JudgeSpec.parse(judge, base_url=flags.get("base_url") or "").profile
                yield from () if profile is None else profile.key_variables


def digest_of_flags(flags: Mapping[str, Any]) -> str:
    """Return a digest of the flags, 16 hex digits; display flags do not count."""
    kept = {name: value for name, value in flags.items() if name not in SCREEN_ONLY}
    canonical = orjson.dumps(kept, default=str, option=orjson.OPT_SORT_KEYS)
    return hashlib.blake2b(canonical, digest_size=8).hexdigest()
