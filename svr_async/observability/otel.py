"""OpenTelemetry: a span a call with its HTTP requests as children, and metrics; needs the extra `otel`.

Names follow the semantic conventions for generative AI where they have one (version 1.37, in development), and begin
with `svr.` elsewhere. Spans are made when a call ends, with its true times, so nothing is held while it is under way.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from svr_async.engine.events import AttemptEnded, CallEnded, Event, RunEnded, RunStarted, Snapshot
from svr_async.observability.redaction import Redactor
from svr_async.observability.totals import Latest

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation
    from opentelemetry.trace import Link, Span, SpanContext, TracerProvider

SCOPE = "svr_async"
DURATION_BOUNDS = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92]
TOKEN_BOUNDS = [4.0**power for power in range(14)]
COUNTERS = (
    ("svr.requests", "sent", "{request}", "HTTP requests sent, tries again included."),
    ("svr.cache.hits", "cache_hits", "{question}", "Questions answered from the cache."),
    ("svr.joined", "joined", "{question}", "Questions that joined a call already under way."),
    ("svr.retries", "retries", "{request}", "Tries that were repeated."),
    ("svr.rate_limited", "rate_limited", "{request}", "Replies that said to slow down."),
    ("svr.failed", "failed", "{question}", "Questions given up."),
    ("svr.cost", "usd", "{USD}", "US dollars that this process paid."),
)
GAUGES = (
    ("svr.calls.in_flight", "in_flight", "{call}", "Calls under way."),
    ("svr.calls.waiting", "waiting", "{call}", "Calls that wait for a slot."),
    ("svr.concurrency.limit", "limit", "{call}", "Calls that may be under way now."),
)


class OtelObserver:
    """An observer that makes spans and metrics on the given providers. Texts of errors are masked by `redactor`.

    Each call is a trace of its own with a link to the run's span: a trace of a hundred thousand calls fits no backend,
    and a sampler can take a share of the calls.
    """

    def __init__(
        self,
        tracers: TracerProvider,
        meters: MeterProvider,
        redactor: Redactor | None = None,
    ) -> None:
        self._linked: SpanContext | None = None
        self._tracer = tracers.get_tracer(SCOPE)
        self._redactor = redactor or Redactor()
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
        """Take note of an event."""
        if isinstance(event, AttemptEnded):
            self._attempts.setdefault(event.key, []).append((time.time_ns(), event))
        elif isinstance(event, CallEnded):
            self._end_call(event)
        elif isinstance(event, Snapshot):
            self._latest(event)
        elif isinstance(event, RunStarted):
            facts = {"svr.command": event.command, "svr.version": event.version, "svr.config": event.config}
            self._run = self._tracer.start_span(f"svr {event.command}", attributes=facts)
            self._linked = self._run.get_span_context()
        elif isinstance(event, RunEnded) and self._run is not None:
            self._end_run(self._run, event)

    def _end_call(self, event: CallEnded) -> None:
        from opentelemetry import context, trace

        now = time.time_ns()
        common = call_attributes(event)
        span = self._tracer.start_span(
            f"chat {event.model}",
            context=context.Context(),
            kind=trace.SpanKind.CLIENT,
            attributes={**common, **span_attributes(event)},
            links=self._links(),
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
            span.set_status(Status(StatusCode.ERROR, self._redactor.text(detail or error)))

    def _links(self) -> list[Link]:
        from opentelemetry.trace import Link

        return [] if self._linked is None else [Link(self._linked)]

    def _end_run(self, span: Span, event: RunEnded) -> None:
        known = {name: value for name, value in event.totals.items() if value is not None}
        span.set_attributes({f"svr.{name}": value for name, value in known.items()})
        span.set_attribute("process.exit.code", event.exit_code)
        self._mark(span, "failed" if event.exit_code else "", event.error)
        span.end()

    def _reader(self, field: str) -> Callable[[CallbackOptions], Iterator[Observation]]:
        """Return a callback that reads one fact of all engines, by model."""

        def read(_: CallbackOptions) -> Iterator[Observation]:
            from opentelemetry.metrics import Observation

            for model, value in self._latest.sums(field).items():
                yield Observation(value, {"gen_ai.request.model": model})

        return read


def call_attributes(event: CallEnded) -> dict[str, str | int]:
    """Return what span and metrics of a call share."""
    found: dict[str, str | int] = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": event.wire,  # the shape of the API, whoever serves it
        "gen_ai.request.model": event.model,
        **server_of(event.endpoint or event.identity),
    }
    if event.error:
        found["error.type"] = str(event.status) if event.status not in {None, 200} else event.error
    return found


def span_attributes(event: CallEnded) -> dict[str, Any]:
    """Return what the span of a call says beside what it shares with the metrics: never a prompt or an answer."""
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
    """Return address and port of an endpoint that is given as a URL; nothing of one that only has a name."""
    try:
        parts = urlsplit(endpoint)
        port = parts.port
    except ValueError:
        return {}
    if not parts.hostname:
        return {}
    return {"server.address": parts.hostname, "server.port": port or (443 if parts.scheme == "https" else 80)}
