"""Watching one run: the observers that its flags name, opened before it and closed after it, come what may."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import orjson

from svr_async.engine.events import Observer, RunEnded, RunStarted, observing
from svr_async.errors import UsageError
from svr_async.observability.jsonlog import STDERR, JsonLog
from svr_async.observability.redaction import Redactor
from svr_async.observability.totals import Latest

if TYPE_CHECKING:
    from opentelemetry.trace import SpanContext

    from svr_async.observability.otel import OtelObserver
    from svr_async.observability.otel_pipeline import OtelPipeline

SETTINGS_VARIABLE = "SVR_WATCH"  # tells the other processes of a run how it is watched


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchSettings:
    """What watches a run. `log_json` is a file, `-` for standard error or "" for none; `port` None serves no metrics.

    `otel_or_not`: where OpenTelemetry cannot be set up, a remark is enough. `key_variables` are names of environment
    variables with keys. `run` marks all lines of a run; `span` is the run's trace and span in hex, where it has one.
    """

    log_json: str = ""
    log_level: str = "run"
    port: int | None = None
    host: str = "127.0.0.1"
    otel: bool = False
    otel_or_not: bool = False
    key_variables: tuple[str, ...] = ()
    run: str = ""
    span: tuple[str, str] | None = None


@dataclass(slots=True)
class Ending:
    """How the run ended, for its last event; set by whoever runs it."""

    exit_code: int = 0
    error: str = ""


@contextmanager
def watching(settings: WatchSettings, started: RunStarted, say: Callable[[str], None]) -> Iterator[Ending]:
    """Watch the engines that are made in the block; `say` gets a line where something about watching is worth one.

    Other processes that the block starts find in their environment how to do the same.
    """
    latest, ending, begun = Latest(), Ending(), time.monotonic()
    settings = replace(settings, run=settings.run or secrets.token_hex(4))
    with ExitStack() as stack:
        spans = _open_otel(settings, stack, say)
        observers: list[Observer] = [latest, *_open(settings, stack, say), *([] if spans is None else [spans])]
        _tell(observers, started)
        try:
            with observing(*observers), _told_to_others(settings, spans):
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


@contextmanager
def watching_as_told(say: Callable[[str], None]) -> Iterator[None]:
    """Watch in a process that another one started, as that one is watched: the same log, the same traces, no port."""
    told = os.environ.get(SETTINGS_VARIABLE)
    if not told:
        yield
        return
    values = orjson.loads(told)
    span = values["span"] and tuple(values["span"])
    settings = WatchSettings(**{**values, "key_variables": tuple(values["key_variables"]), "span": span, "port": None})
    with ExitStack() as stack:
        spans = _open_otel(settings, stack, say)
        with observing(*_open(settings, stack, say), *([] if spans is None else [spans])):
            yield


@contextmanager
def _told_to_others(settings: WatchSettings, spans: OtelObserver | None) -> Iterator[None]:
    log = settings.log_json if settings.log_json in {"", STDERR} else str(Path(settings.log_json).absolute())
    span = None if spans is None or spans.run is None else (f"{spans.run.trace_id:032x}", f"{spans.run.span_id:016x}")
    os.environ[SETTINGS_VARIABLE] = orjson.dumps(asdict(replace(settings, log_json=log, span=span))).decode()
    try:
        yield
    finally:
        os.environ.pop(SETTINGS_VARIABLE, None)


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
    return OtelObserver(pipeline.tracers, pipeline.meters, _redactor(settings), run=_span_of(settings))


def _close_otel(pipeline: OtelPipeline, say: Callable[[str], None]) -> None:
    if not pipeline.close():
        say("OpenTelemetry: not all spans and metrics could be sent in time")


def _span_of(settings: WatchSettings) -> SpanContext | None:
    from opentelemetry.trace import SpanContext, TraceFlags

    if settings.span is None:
        return None
    trace, span = (int(part, 16) for part in settings.span)
    return SpanContext(trace, span, is_remote=True, trace_flags=TraceFlags(TraceFlags.SAMPLED))


def _redactor(settings: WatchSettings) -> Redactor:
    return Redactor(os.environ.get(name, "") for name in settings.key_variables)


def _tell(observers: list[Observer], event: RunStarted | RunEnded) -> None:
    for observer in observers:
        observer(event)


def _close_log(log: JsonLog, target: str, say: Callable[[str], None]) -> None:
    log.close()
    if log.dropped:
        say(f"--log-json {target} lacks {log.dropped:,} lines: {log.problem or 'the disk was too slow'}")
