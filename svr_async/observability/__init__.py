"""Watch runs: JSON lines, OpenTelemetry and Prometheus read the engine's events; trackers get the summary of a run."""
