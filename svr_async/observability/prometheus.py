"""Prometheus metrics of a run, served over HTTP while it runs. Needs the extra `prometheus`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector, core, start_http_server
from prometheus_client.metrics_core import Metric

from svr_async.engine.events import AttemptEnded, CallEnded, Event, ItemFailed, Latest, Snapshot
from svr_async.errors import UsageError

SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 600)
FACTS = (
    ("requests", "sent", "HTTP requests sent, including retries.", True),
    ("cache_hits", "cache_hits", "Questions answered from the cache.", True),
    ("joined", "joined", "Questions that joined an identical call in flight.", True),
    ("retries", "retries", "Attempts that were repeated.", True),
    ("rate_limited", "rate_limited", "Replies that reported a rate limit.", True),
    ("repairs", "repaired", "Unreadable replies that were asked for again.", True),
    ("lost_calls", "lost", "Calls that may have been billed without an answer.", True),
    ("cost_dollars", "usd", "US dollars that this process paid.", True),
    ("paused_seconds", "paused_s", "Seconds for which rate limits held calls back.", True),
    ("calls_in_flight", "in_flight", "Calls in flight.", False),
    ("calls_waiting", "waiting", "Calls that wait for a slot.", False),
    ("concurrency_limit", "limit", "Calls that may be in flight now.", False),
)
"""Name, field of the engine's facts, description, and whether it is a counter (a gauge otherwise)."""
TOKENS = (("prompt_tokens", "input"), ("cached_tokens", "cached"), ("completion_tokens", "output"))


class PrometheusMetrics:
    """An observer with a separate registry: `registry` holds run and process metrics."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._latest = Latest()
        kept: dict[str, Any] = {"buckets": SECONDS, "registry": self.registry}
        text = "One HTTP request, by its status, or by the error if there was no reply."
        self._requests = Histogram("svr_request_duration_seconds", text, ("model", "endpoint", "status"), **kept)
        text = "One call with its retries and waits, by outcome."
        self._calls = Histogram("svr_call_duration_seconds", text, ("model", "outcome"), **kept)
        text = "Questions given up, by outcome."
        self._failed = Counter("svr_items_failed", text, ("outcome",), registry=self.registry)
        self.registry.register(self)
        ProcessCollector(registry=self.registry)

    def __call__(self, event: Event) -> None:
        """Record an event."""
        if isinstance(event, AttemptEnded):
            status = event.error or str(event.status)
            self._requests.labels(event.model, event.endpoint, status).observe(event.seconds)
        elif isinstance(event, CallEnded):
            self._calls.labels(event.model, event.error or "answered").observe(event.seconds)
        elif isinstance(event, ItemFailed):
            self._failed.labels(event.outcome).inc()
        elif isinstance(event, Snapshot):
            self._latest(event)

    def describe(self) -> list[Metric]:
        """Return nothing: the metrics depend on the run."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield the facts of the engines as metrics; the server's thread calls it at each scrape."""
        for name, fact, text, grows in FACTS:
            family = core.CounterMetricFamily if grows else core.GaugeMetricFamily
            metric = family(f"svr_{name}", text, labels=("model",))
            for model, value in self._latest.sums(fact).items():
                metric.add_metric((model,), value)
            yield metric
        tokens = core.CounterMetricFamily("svr_tokens", "Tokens behind the results.", labels=("model", "type"))
        for field, kind in TOKENS:
            for model, value in self._latest.sums(field).items():
                tokens.add_metric((model, kind), value)
        yield tokens


def serve_metrics(metrics: PrometheusMetrics, host: str, port: int, stack: ExitStack) -> int:
    """Serve `/metrics` from a thread until the stack closes; return the port. UsageError if it is taken."""
    try:
        server, thread = start_http_server(port, addr=host, registry=metrics.registry)
    except OSError as error:
        hint = "choose another --metrics-port"
        raise UsageError(f"cannot serve metrics on {host}:{port}: {error.strerror}", hint=hint) from error
    for close in (thread.join, server.server_close, server.shutdown):  # called in reverse order
        stack.callback(close)
    return int(server.server_port)
