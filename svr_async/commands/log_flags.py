"""The flags by which a run can be watched from outside, and the wrapper that honours them for any command."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import signal
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import click
import orjson

from svr_async.commands.options import together
from svr_async.errors import SvrError
from svr_async.version import __version__

if TYPE_CHECKING:
    from svr_async.observability.session import Ending, WatchSettings

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
BUG = 1


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


_watched_by = together(
    click.option(
        "--log-json", metavar="FILE|-", help="Append a line of JSON an event to this file; - is standard error."
    ),
    click.option(
        "--log-level",
        type=click.Choice(["run", "call"]),
        default="run",
        show_default=True,
        help="What --log-json tells: the run, or each call and each retry too.",
    ),
    click.option(
        "--metrics-port", type=Address(), metavar="[HOST:]PORT", help="Serve Prometheus metrics while this runs."
    ),
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
            flags["quiet"] = True  # the lines of JSON have standard error for themselves
        return _watched(function, flags, own)

    return _watched_by(call)


def _otel_asked_for(variables: Mapping[str, str]) -> bool:
    """Whether OpenTelemetry's usual variables name somewhere to send to."""
    if variables.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return False
    return any(variables.get(name, "") not in {"", "none"} for name in OTEL_VARIABLES)


def _watched(function: Callable[..., Any], flags: dict[str, Any], own: Mapping[str, Any]) -> Any:
    from svr_async.engine.events import RunStarted
    from svr_async.observability.session import watching

    path = click.get_current_context().command_path
    started = RunStarted(
        command=path.removeprefix("svr "),
        version=__version__,
        config=digest_of_flags(flags),
        judge=str(flags.get("judge") or ""),
    )
    with watching(_plan(own, flags), started, _say) as ending:
        try:
            result = function(**flags)
        except BaseException as error:
            _note(ending, error)
            raise
        ending.exit_code = result if isinstance(result, int) else 0
        return result


def _plan(own: Mapping[str, Any], flags: Mapping[str, Any]) -> WatchSettings:
    from svr_async.observability.session import WatchSettings

    host, port = own["metrics_port"] or ("127.0.0.1", None)
    return WatchSettings(
        log_json=own["log_json"] or "",
        log_level=own["log_level"],
        host=host,
        port=port,
        otel=own["otel"],
        key_variables=_key_variables(flags),
    )


def _key_variables(flags: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of the variables with the judges' keys; what is wrong with a judge the command says itself."""
    named = ",".join(filter(None, (flags.get(name) for name in ("judge", "jury", "escalate_to"))))
    judges = [judge for judge in named.split(",") if judge not in {"", "rules"}]
    if not judges:
        return ()
    from svr_async.judges.open_judge import JudgeSpec

    found: list[str] = []
    for judge in judges:
        with contextlib.suppress(SvrError):
            found += JudgeSpec.parse(judge, base_url=flags.get("base_url") or "").key_variables
    return tuple(found)


def digest_of_flags(flags: Mapping[str, Any]) -> str:
    """Return 16 hex digits that are equal for runs with the same flags, whatever is shown of them."""
    kept = {name: value for name, value in flags.items() if name not in SCREEN_ONLY}
    canonical = orjson.dumps(kept, default=str, option=orjson.OPT_SORT_KEYS)
    return hashlib.blake2b(canonical, digest_size=8).hexdigest()


def _note(ending: Ending, error: BaseException) -> None:
    if isinstance(error, SvrError):
        ending.exit_code, ending.error = error.exit_code, error.one_line()
    elif isinstance(error, KeyboardInterrupt | click.Abort):
        ending.exit_code, ending.error = 128 + signal.SIGINT, "interrupted"
    elif isinstance(error, click.ClickException):
        ending.exit_code, ending.error = error.exit_code, error.format_message()
    else:
        ending.exit_code, ending.error = BUG, f"{type(error).__name__}: {error}"


def _say(text: str) -> None:
    click.echo(f"svr: {text}", err=True)
