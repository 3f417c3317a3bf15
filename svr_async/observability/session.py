"""Watch one run: open the observers that its flags name, and close them when it has ended."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from svr_async.engine.events import Latest, Observer, RunEnded, RunStarted, observing
from svr_async.engine.secrets import Secrets, environment_secrets
from svr_async.errors import UsageError
from svr_async.observability.jsonlog import JsonLog

Say = Callable[[str], None]


@dataclass(slots=True)
class Ending:
    """How the run ended; the command sets it."""

    exit_code: int = 0
    error: str = ""


@contextmanager
def watching(
    started: RunStarted, say: Say, *, log_json: str | None = None, log_level: str = "run",
    metrics_port: tuple[str, int] | None = None, otel: bool = False, key_variables: Iterable[str] = (),
) -> Iterator[Ending]:  # fmt: skip
    """Watch the engines that are made in the block; `say` gets a line for each remark.

    `log_json` is a file, or `-` for standard error; metrics are served at `metrics_port`, a host and a port. The values
    of the environment variables `key_variables` are masked.
    """
    latest, ending, begun = Latest(), Ending(), time.monotonic()
    with ExitStack() as stack:
        hidden = environment_secrets(os.environ.get(name, "") for name in key_variables)
        observers: list[Observer] = [latest, *(_open_otel(hidden, stack, say) if otel else ())]
        if log_json:
            observers.append(_open_log(log_json, log_level, hidden, stack, say))
        if metrics_port is not None:
            observers.append(_open_metrics(*metrics_port, stack, say))
        for observer in observers:
            observer(started)
        try:
            with observing(*observers):
                yield ending
        finally:
            ended = RunEnded(
                command=started.command, exit_code=ending.exit_code, seconds=time.monotonic() - begun,
                error=ending.error, totals=latest.totals(),
            )  # fmt: skip
            for observer in observers:
                observer(ended)


def _open_metrics(host: str, port: int, stack: ExitStack, say: Say) -> Observer:
    try:
        from svr_async.observability.prometheus import PrometheusMetrics, serve_metrics
    except ImportError:
        hint = "pip install 'svr-async[prometheus]'"
        raise UsageError("--metrics-port needs the package prometheus-client", hint=hint) from None
    metrics = PrometheusMetrics()
    port = serve_metrics(metrics, host, port, stack)
    say(f"metrics at http://{host}:{port}/metrics while this runs")
    return metrics


def _open_otel(hidden: Secrets, stack: ExitStack, say: Say) -> Iterator[Observer]:
    from svr_async.observability.otel import OtelObserver, OtelPipeline

    try:
        pipeline = OtelPipeline()
    except UsageError as error:
        say(f"{error.one_line()}; OTEL_SDK_DISABLED=true turns OpenTelemetry off")
        return
    late = "OpenTelemetry: not all spans and metrics could be sent in time"
    stack.callback(lambda: None if pipeline.close() else say(late))
    yield OtelObserver(pipeline.tracers, pipeline.meters, hidden)


def _open_log(target: str, level: str, hidden: Secrets, stack: ExitStack, say: Say) -> Observer:
    log = JsonLog(target, level=level, run=secrets.token_hex(4), hidden=hidden)

    def close() -> None:
        log.close()
        if log.dropped:
            say(f"--log-json {target} lacks {log.dropped:,} lines: {log.problem or 'the disk was too slow'}")

    stack.callback(close)
    return log
