"""MLflow: a run of an experiment with parameters, metrics, tags, and the report as an artifact.

Where it goes is told by MLflow's own variables: MLFLOW_TRACKING_URI (a server, `sqlite:///mlflow.db`, a folder) and
MLFLOW_EXPERIMENT_NAME.
"""

from __future__ import annotations

import os

from svr_async.tracking.contract import PROJECT, Tracked

MOST_CHARS = 6_000  # of a parameter
AT_ONCE = 100  # parameters in one request


def keep(run: Tracked) -> str:
    """Keep a run; return the store and the run's id."""
    import mlflow

    mlflow.set_experiment(os.environ.get("MLFLOW_EXPERIMENT_NAME") or PROJECT)
    with mlflow.start_run(run_name=run.name, description=run.note or None) as found:
        mlflow.set_tags({"kind": run.kind, "labels": ", ".join(run.labels)})
        settings = [(name, str(value)[:MOST_CHARS]) for name, value in run.settings.items()]
        for begin in range(0, len(settings), AT_ONCE):
            mlflow.log_params({_name(name): value for name, value in settings[begin : begin + AT_ONCE]})
        for step, numbers in run.series:
            mlflow.log_metrics({_name(name): value for name, value in numbers.items()}, step=step)
        mlflow.log_metrics({_name(name): value for name, value in run.metrics.items()})
        for file in run.files:
            mlflow.log_artifact(file)
    return f"{mlflow.get_tracking_uri()} run {found.info.run_id}"


def _name(name: str) -> str:
    """Return a name of characters that MLflow takes."""
    return "".join(char if char.isalnum() or char in "_-. /" else "_" for char in name)
