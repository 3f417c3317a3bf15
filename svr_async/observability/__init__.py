"""Watch a run from outside: JSON lines, OpenTelemetry, Prometheus. All read the events of the engine."""
