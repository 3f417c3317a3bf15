"""Watching one run: the observers that its flags name, opened before it and closed after it, come what may."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from svr_async.engine.events import Observer, RunEnded, RunStarted, observing
from svr_async.errors import UsageError
from svr_async.observability.jsonlog import JsonLog
from svr_async.observability.redaction import Redactor
from svr_async.observability.totals import Latest

if TYPE_CHECKING:
    from svr_async.observability.otel import OtelObserver
    from svr_async.observability.otel_pipeline import OtelPipeline


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchSettings:
    """What watches a run. `log_json` is a file, `-` for standard error or "" for none; `port` None serves no metrics.

    `otel_or_not`: where OpenTelemetry cannot be set up, a remark is enough. `key_variables` are names of environment
    variables with keys. `run` marks all lines of a run.
    """

    log_json: str = ""
    log_level: str = "run"
    port: int | None = None
    host: str = "127.0.0.1"
    otel: bool = False
    otel_or_not: bool = False
    key_variables: tuple[str, ...] = ()
    run: str = ""


@dataclass(slots=True)
class Ending:
    """How the run ended, for its last event; set by whoever runs it."""

    exit_code: int = 0
    error: str = ""


@contextmanager
def watching(settings: WatchSettings, started: RunStarted, say: Callable[[str], None]) -> Iterator[Ending]:
    """Watch the engines that are made in the block; `say` gets a line where something about watching is worth one."""
    latest, ending, begun = Latest(), Ending(), time.monotonic()
    settings = replace(settings, run=settings.run or secrets.token_hex(4))
    with ExitStack() as stack:
        spans = _open_otel(settings, stack, say)
        observers: list[Observer] = [latest, *_open(settings, stack, say), *([] if spans is None else [spans])]
        _tell(observers, started)
        try:
            with observing(*observers):
                yield ending
        finally:
            ended = RunEnded(
                command=started.command,
                exit_code=ending.exit_code,
                seconds=time.monotonic() - begun,
                error=ending.error,
                totals=latest.totals(),
            )
            _tell(observers, ended)


def _open(settings: WatchSettings, stack: ExitStack, say: Callable[[str], None]) -> Iterator[Observer]:
    if settings.log_json:
        log = JsonLog(settings.log_json, level=settings.log_level, run=settings.run, redactor=_redactor(settings))
        stack.callback(_close_log, log, settings.log_json, say)
        yield log
    if settings.port is not None:
        from svr_async.observability.prometheus import MetricsServer, PrometheusMetrics

        metrics = PrometheusMetrics()
        server = MetricsServer(metrics, settings.port, settings.host)
        stack.callback(server.close)
        say(f"metrics at http://{settings.host}:{server.port}/metrics while this runs")
        yield metrics


def _open_otel(settings: WatchSettings, stack: ExitStack, say: Callable[[str], None]) -> OtelObserver | None:
    if not settings.otel:
        return None
    try:
        return _otel_observer(settings, stack, say)
    except UsageError as error:
        if not settings.otel_or_not:
            raise
        say(f"{error.one_line()}; --no-otel leaves it out")
        return None


def _otel_observer(settings: WatchSettings, stack: ExitStack, say: Callable[[str], None]) -> OtelObserver:
    from svr_async.observability.otel import OtelObserver
    from svr_async.observability.otel_pipeline import OtelPipeline

    pipeline = OtelPipeline()
    stack.callback(_close_otel, pipeline, say)
    return OtelObserver(pipeline.tracers, pipeline.meters, _redactor(settings))


def _close_otel(pipeline: OtelPipeline, say: Callable[[str], None]) -> None:
    if not pipeline.close():
        say("OpenTelemetry: not all spans and metrics could be sent in time")


def _redactor(settings: WatchSettings) -> Redactor:
    return Redactor(os.environ.get(name, "") for name in settings.key_variables)


def _tell(observers: list[Observer], event: RunStarted | RunEnded) -> None:
    for observer in observers:
        observer(event)


def _close_log(log: JsonLog, target: str, say: Callable[[str], None]) -> None:
    log.close()
    if log.dropped:
        say(f"--log-json {target} lacks {log.dropped:,} lines: {log.problem or 'the disk was too slow'}")
