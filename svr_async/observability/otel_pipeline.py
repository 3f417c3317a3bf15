"""Where OpenTelemetry sends to: providers with the exporters that the OTEL_… variables name."""

from __future__ import annotations

import os
import threading
import time
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

from svr_async.errors import UsageError

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.sdk.metrics import MeterProvider as SdkMeterProvider
    from opentelemetry.sdk.trace import TracerProvider as SdkTracerProvider
    from opentelemetry.trace import TracerProvider

EXTRA = "otel"
CLOSE_WAIT_S = 5.0


class OtelPipeline:
    """Providers with the exporters that the OTEL_… variables name; those of the process where it has some already.

    `close` sends what is waiting, for as long as `CLOSE_WAIT_S`: a collector that is down does not hold up the end.
    """

    def __init__(self) -> None:
        _require_sdk()
        from opentelemetry import metrics, trace

        self._closing: list[SdkTracerProvider | SdkMeterProvider] = []
        self.tracers: TracerProvider = trace.get_tracer_provider()
        self.meters: MeterProvider = metrics.get_meter_provider()
        if isinstance(self.tracers, trace.ProxyTracerProvider):
            self.tracers = self._own_tracers()
        if type(self.meters).__name__.startswith("_Proxy"):
            self.meters = self._own_meters()

    def close(self) -> bool:
        """Send what is waiting and stop the threads that send; return whether that was done in time."""
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
    """Return the exporters that OTEL_TRACES_EXPORTER or OTEL_METRICS_EXPORTER names; `otlp` where it is not set."""
    names = os.environ.get(f"OTEL_{signal.upper()}_EXPORTER", "").strip() or "otlp"
    return [_exporter(signal, name.strip()) for name in names.split(",") if name.strip() not in {"", "none"}]


def _exporter(signal: str, name: str) -> Any:
    protocol = os.environ.get("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
    full = {"otlp": "otlp_proto_grpc" if protocol == "grpc" else "otlp_proto_http"}.get(name, name)
    for found in entry_points(group=f"opentelemetry_{signal}_exporter", name=full):
        return found.load()()
    raise UsageError(
        f"OpenTelemetry has no exporter {full} for {signal} here", hint=f"pip install 'svr-async[{EXTRA}]' has OTLP"
    )


def _require_sdk() -> None:
    try:
        import opentelemetry.sdk  # noqa: F401  (an extra)
    except ImportError:
        raise UsageError(
            "OpenTelemetry needs the package opentelemetry-sdk", hint=f"pip install 'svr-async[{EXTRA}]'"
        ) from None
