"""OpenTelemetry: spans and metrics as the SDK exports them, with the names of the semantic conventions."""

from __future__ import annotations

from typing import Any

from made_events import call
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes as gen_ai
from opentelemetry.semconv._incubating.metrics import gen_ai_metrics
from opentelemetry.semconv.attributes import server_attributes
from opentelemetry.trace import SpanKind, StatusCode

from svr_async.engine.events import RunEnded, RunStarted
from svr_async.engine.secrets import environment_secrets
from svr_async.observability.otel import OtelObserver


class Exported:
    """An observer with what it exported."""

    def __init__(self) -> None:
        self._spans, self._reader = InMemorySpanExporter(), InMemoryMetricReader()
        tracers = TracerProvider(shutdown_on_exit=False)
        tracers.add_span_processor(SimpleSpanProcessor(self._spans))
        self.meters = MeterProvider([self._reader], shutdown_on_exit=False)
        self.tell = OtelObserver(tracers, self.meters, environment_secrets(["sk-sentinel-99"], {}))

    def spans(self) -> list[ReadableSpan]:
        """Return the spans that ended, in that order."""
        return list(self._spans.get_finished_spans())

    def points(self) -> dict[str, list[Any]]:
        """Return the points of each metric."""
        data = self._reader.get_metrics_data()
        assert data is not None
        scopes = [scope for resource in data.resource_metrics for scope in resource.scope_metrics]
        return {metric.name: list(metric.data.data_points) for scope in scopes for metric in scope.metrics}


def test_a_call_is_a_span() -> None:
    """Kind, name, times and attributes; the waits between its attempts are in it."""
    exported = Exported()
    exported.tell(call(attempts=2, seconds=0.5))
    (parent,) = exported.spans()
    assert (parent.name, parent.kind, parent.parent) == ("chat m", SpanKind.CLIENT, None)
    assert parent.end_time is not None
    assert parent.start_time is not None
    assert parent.end_time - parent.start_time == 500_000_000
    wanted = {
        gen_ai.GEN_AI_OPERATION_NAME: "chat",
        gen_ai.GEN_AI_PROVIDER_NAME: "openai",
        gen_ai.GEN_AI_REQUEST_MODEL: "m",
        gen_ai.GEN_AI_RESPONSE_MODEL: "m-2",
        gen_ai.GEN_AI_REQUEST_MAX_TOKENS: 100,
        gen_ai.GEN_AI_RESPONSE_FINISH_REASONS: ("stop",),
        gen_ai.GEN_AI_USAGE_INPUT_TOKENS: 30,
        gen_ai.GEN_AI_USAGE_OUTPUT_TOKENS: 4,
        gen_ai.GEN_AI_USAGE_CACHE_READ_INPUT_TOKENS: 20,
        server_attributes.SERVER_ADDRESS: "127.0.0.1",
        server_attributes.SERVER_PORT: 8000,
        "svr.key": "k1",
        "svr.attempts": 2,
    }
    assert dict(parent.attributes or {}) == wanted


def test_calls_are_traces_of_their_own_linked_to_the_run() -> None:
    """A run of many calls is not one giant trace: each call links to the run's span, which ends with the totals."""
    exported = Exported()
    exported.tell(RunStarted(command="eval", version="1", config="abc"))
    exported.tell(call())
    exported.tell(call(key="k2"))
    exported.tell(
        RunEnded(command="eval", exit_code=6, seconds=1.0, error="down", totals={"sent": 2, "usd": None, "retries": 0})
    )
    one, two, run = exported.spans()
    assert len({one.context.trace_id, two.context.trace_id, run.context.trace_id}) == 3
    assert [link.context.span_id for span in (one, two) for link in span.links] == [run.context.span_id] * 2
    assert run.name == "svr eval"
    wanted = {"svr.config": "abc", "svr.sent": 2, "process.exit.code": 6}
    assert dict(run.attributes or {}).items() >= wanted.items()
    assert (run.status.status_code, run.status.description) == (StatusCode.ERROR, "down")


def test_metrics_have_the_conventions_names_units_and_labels() -> None:
    """Duration and token usage are histograms; an error has its type."""
    exported = Exported()
    exported.tell(call())
    exported.tell(call(key="k2", error="item", status=400, prompt_tokens=None, completion_tokens=None))
    points = exported.points()
    durations = {point.attributes.get("error.type"): point for point in points["gen_ai.client.operation.duration"]}
    assert durations[None].sum == 0.5
    assert durations["400"].count == 1
    assert durations[None].explicit_bounds[0] == 0.01
    tokens = {point.attributes["gen_ai.token.type"]: point.sum for point in points["gen_ai.client.token.usage"]}
    assert tokens == {"input": 30, "output": 4}
    names = {gen_ai_metrics.GEN_AI_CLIENT_OPERATION_DURATION, gen_ai_metrics.GEN_AI_CLIENT_TOKEN_USAGE}
    assert names <= set(points)


def test_no_key_leaves_in_a_span() -> None:
    """A server's text that repeats the key is masked in the status of the call."""
    exported = Exported()
    detail = "HTTP 400: you sent sk-sentinel-99"
    exported.tell(call(error="item", status=400, detail=detail))
    for span in exported.spans():
        assert "sk-sentinel" not in span.to_json()
        assert "[key]" in str(span.status.description)
