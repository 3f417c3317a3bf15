"""OpenTelemetry: one span per call, with its HTTP requests as children, and metrics. Needs the extra `otel`.

Names follow the semantic conventions for generative AI (version 1.37, in development); other names begin with `svr.`.
Spans are made when a call ends, with its true times. The OTEL_… variables name the exporters.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from svr_async.engine.events import AttemptEnded, CallEnded, Event, RunEnded, RunStarted, Snapshot
from svr_async.engine.secrets import Secrets, environment_secrets
from svr_async.errors import UsageError
from svr_async.observability.session import Latest

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation
    from opentelemetry.sdk.metrics import MeterProvider as SdkMeterProvider
    from opentelemetry.sdk.trace import TracerProvider as SdkTracerProvider
    from opentelemetry.trace import Span, TracerProvider

SCOPE = "svr_async"
EXTRA = "otel"
CLOSE_WAIT_S = 5.0
DURATION_BOUNDS = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92]
TOKEN_BOUNDS = [4.0**power for power in range(14)]
COUNTERS = (
    ("svr.requests", "sent", "{request}", "HTTP requests sent, including retries."),
    ("svr.cache.hits", "cache_hits", "{question}", "Questions answered from the cache."),
    ("svr.joined", "joined", "{question}", "Questions that joined an identical call in flight."),
    ("svr.retries", "retries", "{request}", "Attempts that were repeated."),
    ("svr.rate_limited", "rate_limited", "{request}", "Replies that reported a rate limit."),
    ("svr.failed", "failed", "{question}", "Questions given up."),
    ("svr.cost", "usd", "{USD}", "US dollars that this process paid."),
)
GAUGES = (
    ("svr.calls.in_flight", "in_flight", "{call}", "Calls in flight."),
    ("svr.calls.waiting", "waiting", "{call}", "Calls that wait for a slot."),
    ("svr.concurrency.limit", "limit", "{call}", "Calls that may be in flight now."),
)


class OtelObserver:
    """An observer that makes spans and metrics on the given providers; `hidden` is masked in the texts of errors.

    Each call is a separate trace with a link to the run's span: no backend takes a trace of 100,000 calls, and a
    sampler can keep a share of the calls.
    """

    def __init__(self, tracers: TracerProvider, meters: MeterProvider, hidden: Secrets | None = None) -> None:
        self._tracer = tracers.get_tracer(SCOPE)
        self._hidden = hidden or environment_secrets()
        self._latest = Latest()
        self._attempts: dict[str, list[tuple[int, AttemptEnded]]] = {}
        self._run: Span | None = None
        meter = meters.get_meter(SCOPE)
        self._duration = meter.create_histogram(
            "gen_ai.client.operation.duration",
            "s",
            "GenAI operation duration.",
            explicit_bucket_boundaries_advisory=DURATION_BOUNDS,
        )
        self._tokens = meter.create_histogram(
            "gen_ai.client.token.usage",
            "{token}",
            "Number of input and output tokens used.",
            explicit_bucket_boundaries_advisory=TOKEN_BOUNDS,
        )
        for name, field, unit, text in COUNTERS:
            meter.create_observable_counter(name, [self._reader(field)], unit, text)
        for name, field, unit, text in GAUGES:
            meter.create_observable_gauge(name, [self._reader(field)], unit, text)

    def __call__(self, event: Event) -> None:
        """Record an event."""
        if isinstance(event, AttemptEnded):
            self._attempts.setdefault(event.key, []).append((time.time_ns(), event))
        elif isinstance(event, CallEnded):
            self._end_call(event)
        elif isinstance(event, Snapshot):
            self._latest(event)
        elif isinstance(event, RunStarted):
            facts = {"svr.command": event.command, "svr.version": event.version, "svr.config": event.config}
            self._run = self._tracer.start_span(f"svr {event.command}", attributes=facts)
        elif isinstance(event, RunEnded) and self._run is not None:
            self._end_run(self._run, event)

    def _end_call(self, event: CallEnded) -> None:
        from opentelemetry import context, trace

        links = [] if self._run is None else [trace.Link(self._run.get_span_context())]
        now = time.time_ns()
        common = call_attributes(event)
        span = self._tracer.start_span(
            f"chat {event.model}",
            context=context.Context(),
            kind=trace.SpanKind.CLIENT,
            attributes={**common, **span_attributes(event)},
            links=links,
            start_time=now - int(event.seconds * 1e9),
        )
        inside = trace.set_span_in_context(span)
        for number, (ended, attempt) in enumerate(self._attempts.pop(event.key, [])):
            child = self._tracer.start_span(
                "POST",
                context=inside,
                kind=trace.SpanKind.CLIENT,
                attributes=attempt_attributes(attempt, number, common),
                start_time=ended - int(attempt.seconds * 1e9),
            )
            self._mark(child, attempt.error, attempt.detail)
            child.end(ended)
        self._mark(span, event.error, event.detail)
        span.end(now)
        self._measure(event, common)

    def _measure(self, event: CallEnded, common: dict[str, str | int]) -> None:
        names = ("gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.request.model", "server.address")
        facts = {name: common[name] for name in (*names, "server.port", "error.type") if name in common}
        self._duration.record(event.seconds, facts)
        for kind, count in (("input", event.prompt_tokens), ("output", event.completion_tokens)):
            if count is not None:
                self._tokens.record(count, {**facts, "gen_ai.token.type": kind})

    def _mark(self, span: Span, error: str, detail: str) -> None:
        from opentelemetry.trace import Status, StatusCode

        if error:
            span.set_status(Status(StatusCode.ERROR, self._hidden.mask(detail or error)))

    def _end_run(self, span: Span, event: RunEnded) -> None:
        known = {name: value for name, value in event.totals.items() if value is not None}
        span.set_attributes({f"svr.{name}": value for name, value in known.items()})
        span.set_attribute("process.exit.code", event.exit_code)
        self._mark(span, "failed" if event.exit_code else "", event.error)
        span.end()

    def _reader(self, field: str) -> Callable[[CallbackOptions], Iterator[Observation]]:
        """Return a callback that reads one fact of all engines by model."""

        def read(_: CallbackOptions) -> Iterator[Observation]:
            from opentelemetry.metrics import Observation

            for model, value in self._latest.sums(field).items():
                yield Observation(value, {"gen_ai.request.model": model})

        return read


def call_attributes(event: CallEnded) -> dict[str, str | int]:
    """Return the attributes that the span and the metrics of a call share."""
    found: dict[str, str | int] = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": event.wire,  # the wire, not the company that serves it
        "gen_ai.request.model": event.model,
        **server_of(event.endpoint or event.identity),
    }
    if event.error:
        found["error.type"] = str(event.status) if event.status not in {None, 200} else event.error
    return found


def span_attributes(event: CallEnded) -> dict[str, Any]:
    """Return the attributes that only the span of a call has. Prompts and answers are never among them."""
    found: dict[str, Any] = {
        "gen_ai.request.max_tokens": event.max_tokens,
        "gen_ai.response.model": event.answered_by,
        "gen_ai.response.finish_reasons": [event.finish_reason] if event.finish_reason else None,
        "gen_ai.usage.input_tokens": event.prompt_tokens,
        "gen_ai.usage.output_tokens": event.completion_tokens,
        "gen_ai.usage.cache_read.input_tokens": event.cached_tokens,
        "svr.key": event.key,
        "svr.attempts": event.attempts,
        "svr.endpoint": event.endpoint,
        "svr.cost": event.usd,
    }
    return {name: value for name, value in found.items() if value not in (None, "")}


def attempt_attributes(event: AttemptEnded, number: int, common: Mapping[str, str | int]) -> dict[str, str | int]:
    """Return the attributes of one HTTP request; `number` counts from 0."""
    found: dict[str, str | int] = {"http.request.method": "POST"}
    found |= {name: common[name] for name in ("server.address", "server.port") if name in common}
    if event.status is not None:
        found["http.response.status_code"] = event.status
    if number:
        found["http.request.resend_count"] = number
    if event.error:
        found["error.type"] = event.error
    return found


def server_of(endpoint: str) -> dict[str, str | int]:
    """Return the address and port of an endpoint; empty if it is a name, not a URL."""
    try:
        parts = urlsplit(endpoint)
        port = parts.port
    except ValueError:
        return {}
    if not parts.hostname:
        return {}
    return {"server.address": parts.hostname, "server.port": port or (443 if parts.scheme == "https" else 80)}


class OtelPipeline:
    """Providers with the exporters that the OTEL_… variables name, or the providers that the process already has."""

    def __init__(self) -> None:
        try:
            import opentelemetry.sdk  # noqa: F401  (an extra)
        except ImportError:
            hint = f"pip install 'svr-async[{EXTRA}]'"
            raise UsageError("OpenTelemetry needs the package opentelemetry-sdk", hint=hint) from None
        from opentelemetry import metrics, trace

        self._closing: list[SdkTracerProvider | SdkMeterProvider] = []
        self.tracers: TracerProvider = trace.get_tracer_provider()
        self.meters: MeterProvider = metrics.get_meter_provider()
        if isinstance(self.tracers, trace.ProxyTracerProvider):
            self.tracers = self._own_tracers()
        if type(self.meters).__name__.startswith("_Proxy"):
            self.meters = self._own_meters()

    def close(self) -> bool:
        """Send what is waiting; return False if that takes longer than `CLOSE_WAIT_S` (the collector is down)."""
        closing = [threading.Thread(target=provider.shutdown, daemon=True) for provider in self._closing]
        deadline = time.monotonic() + CLOSE_WAIT_S
        for thread in closing:
            thread.start()
        for thread in closing:
            thread.join(max(0.0, deadline - time.monotonic()))
        return not any(thread.is_alive() for thread in closing)

    def _own_tracers(self) -> SdkTracerProvider:
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        provider = TracerProvider(resource=_resource(), shutdown_on_exit=False)
        for exporter in _exporters("traces"):
            provider.add_span_processor(BatchSpanProcessor(exporter))
        self._closing.append(provider)
        return provider

    def _own_meters(self) -> SdkMeterProvider:
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader

        readers = [PeriodicExportingMetricReader(exporter) for exporter in _exporters("metrics")]
        provider = MeterProvider(readers, resource=_resource(), shutdown_on_exit=False)
        self._closing.append(provider)
        return provider


def _resource() -> Any:
    from opentelemetry.sdk.resources import Resource

    named = "service.name=" in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "") or os.environ.get("OTEL_SERVICE_NAME")
    return Resource.create({} if named else {"service.name": "svr-async"})


def _exporters(signal: str) -> list[Any]:
    """Return the exporters that OTEL_TRACES_EXPORTER or OTEL_METRICS_EXPORTER names; `otlp` if it is not set."""
    names = os.environ.get(f"OTEL_{signal.upper()}_EXPORTER", "").strip() or "otlp"
    return [_exporter(signal, name.strip()) for name in names.split(",") if name.strip() not in {"", "none"}]


def _exporter(signal: str, name: str) -> Any:
    protocol = os.environ.get("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
    full = {"otlp": "otlp_proto_grpc" if protocol == "grpc" else "otlp_proto_http"}.get(name, name)
    for found in entry_points(group=f"opentelemetry_{signal}_exporter", name=full):
        return found.load()()
    hint = f"pip install 'svr-async[{EXTRA}]' installs OTLP"
    raise UsageError(f"OpenTelemetry has no exporter {full} for {signal} here", hint=hint)
