"""Prometheus metrics: scraped over HTTP from a real server, with names and units that its parser accepts."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from made_events import attempt, call, snapshot
from prometheus_client.parser import text_string_to_metric_families

from svr_async.engine.events import ItemFailed, RunStarted
from svr_async.observability.prometheus import PrometheusMetrics, serve_metrics


@pytest.fixture
def served() -> Iterator[tuple[PrometheusMetrics, str]]:
    """Serve metrics on a free port."""
    metrics = PrometheusMetrics()
    with ExitStack() as stack:
        yield metrics, f"http://127.0.0.1:{serve_metrics(metrics, '127.0.0.1', 0, stack)}/metrics"


def scrape(url: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Return samples by name and labels."""
    with urllib.request.urlopen(url, timeout=10) as reply:
        text = reply.read().decode()
    families = text_string_to_metric_families(text)
    return {(one.name, tuple(sorted(one.labels.items()))): one.value for family in families for one in family.samples}


def test_facts_of_the_engines_are_counters_and_gauges(served: tuple[PrometheusMetrics, str]) -> None:
    """The last facts of each engine count; two engines of one model are added up, an unknown cost is left out."""
    metrics, url = served
    metrics(snapshot(1, sent=1, in_flight=9))
    metrics(snapshot(1, sent=10, in_flight=4, limit=64, prompt_tokens=100, usd=0.25))
    metrics(snapshot(2, sent=5, in_flight=1, limit=32, usd=0.25))
    metrics(snapshot(3, model="other", sent=1))
    found = scrape(url)
    m, other = (("model", "m"),), (("model", "other"),)
    assert found["svr_requests_total", m] == 15
    assert found["svr_requests_total", other] == 1
    assert (found["svr_calls_in_flight", m], found["svr_concurrency_limit", m]) == (5, 96)
    assert found["svr_cost_dollars_total", m] == 0.5
    assert ("svr_cost_dollars_total", other) not in found
    assert found["svr_tokens_total", (*m, ("type", "input"))] == 100


def test_calls_and_requests_are_histograms_in_seconds(served: tuple[PrometheusMetrics, str]) -> None:
    """Requests by status or error, calls by how they ended, failed questions by outcome."""
    metrics, url = served
    for event in (attempt(status=500, error="500"), attempt(), attempt(status=None, error="timeout"), call()):
        metrics(event)
    metrics(call(error="item"))
    metrics(ItemFailed(key="k", outcome="refusal", detail="d"))
    metrics(RunStarted(command="eval", version="1", config="c"))
    found = scrape(url)
    for status in ("200", "500", "timeout"):
        assert found["svr_request_duration_seconds_count", (("endpoint", ""), ("model", "m"), ("status", status))] == 1
    assert found["svr_call_duration_seconds_sum", (("model", "m"), ("outcome", "answered"))] == 0.5
    assert found["svr_call_duration_seconds_count", (("model", "m"), ("outcome", "item"))] == 1
    assert found["svr_items_failed_total", (("outcome", "refusal"),)] == 1
