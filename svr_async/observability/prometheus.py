"""Prometheus metrics of a run, served over HTTP while it lasts; needs the extra `prometheus`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from svr_async.engine.events import AttemptEnded, CallEnded, Event, ItemFailed, Snapshot
from svr_async.engine.stats import EngineStats
from svr_async.errors import UsageError
from svr_async.observability.totals import Latest

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.metrics_core import Metric

Facts: TypeAlias = Mapping[str, Sequence[EngineStats]]
EXTRA = "prometheus"
LOOPBACK = "127.0.0.1"
SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 600)
COUNTERS = (
    ("sent", "svr_requests", "HTTP requests sent, tries again included."),
    ("cache_hits", "svr_cache_hits", "Questions answered from the cache."),
    ("joined", "svr_joined", "Questions that joined a call already under way."),
    ("retries", "svr_retries", "Tries that were repeated."),
    ("rate_limited", "svr_rate_limited", "Replies that said to slow down."),
    ("repaired", "svr_repairs", "Replies that could not be read and were asked for again."),
    ("lost", "svr_lost_calls", "Calls that may have been billed without an answer."),
    ("usd", "svr_cost_dollars", "US dollars that this process paid."),
    ("paused_s", "svr_paused_seconds", "Seconds for which rate limits held calls back."),
)
GAUGES = (
    ("in_flight", "svr_calls_in_flight", "Calls under way."),
    ("waiting", "svr_calls_waiting", "Calls that wait for a slot."),
    ("limit", "svr_concurrency_limit", "Calls that may be under way now."),
    ("queue_age_s", "svr_queue_age_seconds", "How long the longest-waiting call has waited for its slot."),
)
TOKENS = (("prompt_tokens", "input"), ("cached_tokens", "cached"), ("completion_tokens", "output"))


class PrometheusMetrics:
    """An observer with a registry of its own: `registry` holds run and process metrics."""

    def __init__(self) -> None:
        client = _client()
        self.registry: CollectorRegistry = client.CollectorRegistry()
        self._latest = Latest()
        self._requests = client.Histogram(
            "svr_request_duration_seconds",
            "One HTTP request, by its status, or the error in place of a reply.",
            ("model", "endpoint", "status"),
            buckets=SECONDS,
            registry=self.registry,
        )
        self._calls = client.Histogram(
            "svr_call_duration_seconds",
            "One call with its retries and waits, by how it ended.",
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
        """Take note of an event."""
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
        """Return nothing: what is there depends on the run."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield the engines' facts as metrics; called by the server's thread at each scrape."""
        core, facts = _core(), self._latest.by_model()
        for family, rows in ((core.CounterMetricFamily, COUNTERS), (core.GaugeMetricFamily, GAUGES)):
            for field, name, text in rows:
                metric = family(name, text, labels=("model",))
                for model, value in self._latest.sums(field).items():
                    metric.add_metric((model,), value)
                yield metric
        tokens = core.CounterMetricFamily("svr_tokens", "Tokens behind the results.", labels=("model", "type"))
        for model, engines in facts.items():
            for field, kind in TOKENS:
                tokens.add_metric((model, kind), sum(getattr(one, field) for one in engines))
        yield from (tokens, *_endpoints(core, facts))


def _endpoints(core: Any, facts: Facts) -> Iterator[Metric]:
    """Yield calls under way and limit of each endpoint."""
    for field, name, text in (
        ("in_flight", "svr_endpoint_calls_in_flight", "Calls under way on one endpoint."),
        ("limit", "svr_endpoint_concurrency_limit", "Calls that one endpoint may have under way now."),
    ):
        family = core.GaugeMetricFamily(name, text, labels=("model", "endpoint"))
        for model, engines in facts.items():
            found: Counter[str] = Counter()
            for endpoint in (endpoint for one in engines for endpoint in one.endpoints):
                found[endpoint.name] += getattr(endpoint, field)
            for name_, value in found.items():
                family.add_metric((model, name_), value)
        yield family


def _client() -> Any:
    try:
        import prometheus_client
    except ImportError:
        raise UsageError(
            "--metrics-port needs the package prometheus-client", hint=f"pip install 'svr-async[{EXTRA}]'"
        ) from None
    return prometheus_client


def _core() -> Any:
    from prometheus_client import core

    return core


class MetricsServer:
    """`/metrics` on a port, from a thread of its own; `close` frees the port."""

    def __init__(self, metrics: PrometheusMetrics, port: int, host: str = LOOPBACK) -> None:
        try:
            self._server, self._thread = _client().start_http_server(port, addr=host, registry=metrics.registry)
        except OSError as error:
            raise UsageError(
                f"cannot serve metrics on {host}:{port}: {error.strerror}", hint="choose another --metrics-port"
            ) from error
        self.port: int = self._server.server_port

    def close(self) -> None:
        """Serve no more."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
