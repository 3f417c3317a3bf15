"""OpenTelemetry: one span per call, and metrics. Needs the extra `otel`.

Names follow the semantic conventions for generative AI (version 1.37, in development); other names begin with `svr.`.
Spans are made when a call ends, with its true times. The OTEL_… variables name the exporters.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

from yarl import URL

from svr_async.engine.events import CallEnded, Event, RunEnded, RunStarted
from svr_async.engine.secrets import Secrets, environment_secrets
from svr_async.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import Span, TracerProvider

CLOSE_WAIT_S = 5.0
DURATION_BOUNDS = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92]
TOKEN_BOUNDS = [4.0**power for power in range(14)]


class OtelObserver:
    """An observer that makes spans and metrics on the given providers; `hidden` is masked in the texts of errors.

    Each call is a separate trace with a link to the run's span: no backend takes a trace of 100,000 calls, and a
    sampler can keep a share of the calls.
    """

    def __init__(self, tracers: TracerProvider, meters: MeterProvider, hidden: Secrets | None = None) -> None:
        self._tracer = tracers.get_tracer("svr_async")
        self._hidden = hidden or environment_secrets()
        self._run: Span | None = None
        meter = meters.get_meter("svr_async")
        bounds = "explicit_bucket_boundaries_advisory"
        duration, tokens = "gen_ai.client.operation.duration", "gen_ai.client.token.usage"
        self._duration = meter.create_histogram(duration, "s", "Duration of a call.", **{bounds: DURATION_BOUNDS})
        self._tokens = meter.create_histogram(tokens, "{token}", "Tokens used.", **{bounds: TOKEN_BOUNDS})

    def __call__(self, event: Event) -> None:
        """Record an event."""
        if isinstance(event, CallEnded):
            self._end_call(event)
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
            f"chat {event.model}", context.Context(), trace.SpanKind.CLIENT, {**common, **span_attributes(event)},
            links, start_time=now - int(event.seconds * 1e9),
        )  # fmt: skip
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
        span.set_attributes({f"svr.{name}": value for name, value in event.totals.items() if value is not None})
        span.set_attribute("process.exit.code", event.exit_code)
        self._mark(span, "failed" if event.exit_code else "", event.error)
        span.end()


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


def server_of(endpoint: str) -> dict[str, str | int]:
    """Return the address and port of an endpoint; empty if it is a name, not a URL."""
    with contextlib.suppress(ValueError):
        url = URL(endpoint)
        if url.host and url.port:
            return {"server.address": url.host, "server.port": url.port}
    return {}


class OtelPipeline:
    """The process's providers, or new ones with the exporters that the OTEL_… variables name."""

    def __init__(self) -> None:
        try:
            from opentelemetry import metrics, trace
            from opentelemetry.sdk.metrics import MeterProvider
            from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
            from opentelemetry.sdk.resources import Resource
            from opentelemetry.sdk.trace import TracerProvider
            from opentelemetry.sdk.trace.export import BatchSpanProcessor
        except ImportError:
            hint = "pip install 'svr-async[otel]'"
            raise UsageError("OpenTelemetry needs the package opentelemetry-sdk", hint=hint) from None
        named = "service.name=" in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "") or os.environ.get("OTEL_SERVICE_NAME")
        resource = Resource.create({} if named else {"service.name": "svr-async"})
        self._closing: list[Any] = []
        self.tracers, self.meters = trace.get_tracer_provider(), metrics.get_meter_provider()
        if isinstance(self.tracers, trace.ProxyTracerProvider):
            self.tracers = tracers = TracerProvider(resource=resource, shutdown_on_exit=False)
            self._closing.append(tracers)
            for exporter in _exporters("traces"):
                tracers.add_span_processor(BatchSpanProcessor(exporter))
        if type(self.meters).__name__.startswith("_Proxy"):
            readers = [PeriodicExportingMetricReader(exporter) for exporter in _exporters("metrics")]
            self.meters = MeterProvider(readers, resource=resource, shutdown_on_exit=False)
            self._closing.append(self.meters)

    def close(self) -> bool:
        """Send waiting data; return False if that takes longer than `CLOSE_WAIT_S` (the collector is down)."""
        closing = threading.Thread(target=lambda: [provider.shutdown() for provider in self._closing], daemon=True)
        closing.start()
        closing.join(CLOSE_WAIT_S)
        return not closing.is_alive()


def _exporters(signal: str) -> Iterator[Any]:
    """Yield the exporters that OTEL_TRACES_EXPORTER or OTEL_METRICS_EXPORTER names; `otlp` if it is not set."""
    protocol = "grpc" if os.environ.get("OTEL_EXPORTER_OTLP_PROTOCOL") == "grpc" else "http"
    for name in (os.environ.get(f"OTEL_{signal.upper()}_EXPORTER", "").strip() or "otlp").split(","):
        full = {"otlp": f"otlp_proto_{protocol}"}.get(name.strip(), name.strip())
        if full not in {"", "none"}:
            found = entry_points(group=f"opentelemetry_{signal}_exporter", name=full)
            if not found:
                hint = "pip install 'svr-async[otel]' installs OTLP"
                raise UsageError(f"OpenTelemetry has no exporter {full} for {signal} here", hint=hint)
            yield next(iter(found)).load()()
