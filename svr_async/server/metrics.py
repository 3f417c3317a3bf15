"""/metrics: what a server counts, beside the engine's own metrics; needs the extra `prometheus`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from svr_async.observability.prometheus import PrometheusMetrics
from svr_async.server.pool import Pool
from svr_async.server.tally import Tally

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

JUDGED = "judged"


class ServerMetrics:
    """A server's counts as metrics, collected at each scrape in one registry with those of its engine."""

    def __init__(self, tally: Tally, pool: Pool, engine: PrometheusMetrics) -> None:
        self._tally = tally
        self._pool = pool
        self._registry = engine.registry
        self._registry.register(self)

    def text(self) -> tuple[bytes, str]:
        """Return the exposition and its content type."""
        import prometheus_client

        return prometheus_client.generate_latest(self._registry), prometheus_client.CONTENT_TYPE_LATEST

    def describe(self) -> list[Metric]:
        """Return nothing: what is there depends on what was asked."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield counters and gauges."""
        from prometheus_client import core

        tally = self._tally
        requests = core.CounterMetricFamily("svr_server_requests", "Requests answered.", labels=("route", "status"))
        for (route, status), count in tally.requests.items():
            requests.add_metric((route, str(status)), count)
        yield requests
        for name, text, label, counts in (
            ("svr_server_rewards", "Rewards, judged or why they are the fallback.", "reason", tally.rewards),
            ("svr_server_groups", "Groups that were settled: full, or short of members.", "closed", tally.groups),
            ("svr_server_judgements", "Judgements, by how they ended.", "outcome", tally.judgements),
        ):
            family = core.CounterMetricFamily(name, text, labels=(label,))
            for value, count in counts.items():
                family.add_metric((value or JUDGED,), count)
            yield family
        yield core.CounterMetricFamily("svr_server_fallbacks", "Rewards that are the fallback.", value=tally.fallbacks)
        yield core.CounterMetricFamily("svr_server_judge_renewed", "Times the judge was lost.", value=tally.renewed)
        for name, text, now in (
            ("svr_server_requests_under_way", "Requests being answered.", tally.under_way),
            ("svr_server_groups_kept", "Groups in memory.", len(self._pool)),
            ("svr_server_groups_gathering", "Groups that wait for members.", self._pool.gathering),
        ):
            yield core.GaugeMetricFamily(name, text, value=now)
