"""Prometheus metrics of a run, served over HTTP while it runs. Needs the extra `prometheus`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from svr_async.engine.events import AttemptEnded, CallEnded, Event, ItemFailed, Snapshot
from svr_async.errors import UsageError
from svr_async.observability.session import Latest

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.metrics_core import Metric

EXTRA = "prometheus"
LOOPBACK = "127.0.0.1"
SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 600)
COUNTERS = (
    ("sent", "svr_requests", "HTTP requests sent, including retries."),
    ("cache_hits", "svr_cache_hits", "Questions answered from the cache."),
    ("joined", "svr_joined", "Questions that joined an identical call in flight."),
    ("retries", "svr_retries", "Attempts that were repeated."),
    ("rate_limited", "svr_rate_limited", "Replies that reported a rate limit."),
    ("repaired", "svr_repairs", "Unreadable replies that were asked for again."),
    ("lost", "svr_lost_calls", "Calls that may have been billed without an answer."),
    ("usd", "svr_cost_dollars", "US dollars that this process paid."),
    ("paused_s", "svr_paused_seconds", "Seconds for which rate limits held calls back."),
)
GAUGES = (
    ("in_flight", "svr_calls_in_flight", "Calls in flight."),
    ("waiting", "svr_calls_waiting", "Calls that wait for a slot."),
    ("limit", "svr_concurrency_limit", "Calls that may be in flight now."),
    ("queue_age_s", "svr_queue_age_seconds", "How long the longest-waiting call has waited for its slot."),
)
TOKENS = (("prompt_tokens", "input"), ("cached_tokens", "cached"), ("completion_tokens", "output"))


class PrometheusMetrics:
    """An observer with a separate registry: `registry` holds run and process metrics."""

    def __init__(self) -> None:
        client = _client()
        self.registry: CollectorRegistry = client.CollectorRegistry()
        self._latest = Latest()
        self._requests = client.Histogram(
            "svr_request_duration_seconds",
            "One HTTP request, by its status, or by the error if there was no reply.",
            ("model", "endpoint", "status"),
            buckets=SECONDS,
            registry=self.registry,
        )
        self._calls = client.Histogram(
            "svr_call_duration_seconds",
            "One call with its retries and waits, by outcome.",
            ("model", "outcome"),
            buckets=SECONDS,
            registry=self.registry,
        )
        self._failed = client.Counter(
            "svr_items_failed", "Questions given up, by outcome.", ("outcome",), registry=self.registry
        )
        self.registry.register(self)
        client.ProcessCollector(registry=self.registry)

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
        from prometheus_client import core

        for family, rows in ((core.CounterMetricFamily, COUNTERS), (core.GaugeMetricFamily, GAUGES)):
            for field, name, text in rows:
                metric = family(name, text, labels=("model",))
                for model, value in self._latest.sums(field).items():
                    metric.add_metric((model,), value)
                yield metric
        tokens = core.CounterMetricFamily("svr_tokens", "Tokens behind the results.", labels=("model", "type"))
        for field, kind in TOKENS:
            for model, value in self._latest.sums(field).items():
                tokens.add_metric((model, kind), value)
        yield tokens


def _client() -> Any:
    try:
        import prometheus_client
    except ImportError:
        hint = f"pip install 'svr-async[{EXTRA}]'"
        raise UsageError("--metrics-port needs the package prometheus-client", hint=hint) from None
    return prometheus_client


class MetricsServer:
    """Serves `/metrics` on a port from a thread; `close` frees the port."""

    def __init__(self, metrics: PrometheusMetrics, port: int, host: str = LOOPBACK) -> None:
        try:
            self._server, self._thread = _client().start_http_server(port, addr=host, registry=metrics.registry)
        except OSError as error:
            hint = "choose another --metrics-port"
            raise UsageError(f"cannot serve metrics on {host}:{port}: {error.strerror}", hint=hint) from error
        self.port: int = self._server.server_port

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
