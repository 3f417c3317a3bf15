"""Watching a run from outside: JSON lines, OpenTelemetry, Prometheus; all built on the events of the engine."""
