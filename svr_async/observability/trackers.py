"""Experiment trackers, each called in a separate process: it reads a run from standard input and prints its place.

Where a run goes is set by each tracker's own variables, such as WANDB_PROJECT or MLFLOW_TRACKING_URI.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec

from svr_async.errors import UsageError

PROJECT = "svr-async"
MLFLOW_CHARS, MLFLOW_AT_ONCE = 6_000, 100  # longest parameter, and parameters of one request
WANDB_TAG_CHARS = 64
WANDB_QUIET = {
    "console": "off", "silent": True, "save_code": False, "disable_git": True, "disable_job_creation": True,
    "x_disable_stats": True, "x_disable_meta": True, "init_timeout": 30,
}  # fmt: skip
DEFAULTS = {
    "HF_HUB_DISABLE_TELEMETRY": "1", "MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "30", "WANDB_ERROR_REPORTING": "false",
}  # fmt: skip
"""Variables of the process, unless the user sets them: send no telemetry, and do not wait for long."""


class TrackedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run that has ended, as a tracker gets it.

    `labels` are marks such as SIMULATED, which `note` explains. An interval's ends are the metrics NAME/low and
    NAME/high. `series` are metrics by step. `files` are paths of small files to store with it.
    """

    kind: str
    name: str
    labels: Sequence[str] = ()
    note: str = ""
    settings: Mapping[str, str]
    metrics: Mapping[str, float]
    series: Sequence[tuple[int, Mapping[str, float]]] = ()
    files: Sequence[str] = ()


def to_wandb(run: TrackedRun) -> str:
    """Store a run in Weights & Biases; return its address, or its folder if offline."""
    import wandb

    known = getattr(wandb.Settings, "model_fields", WANDB_QUIET)  # older versions lack some
    stored = wandb.init(
        project=os.environ.get("WANDB_PROJECT") or PROJECT,
        name=run.name,
        job_type=run.kind,
        tags=[label[:WANDB_TAG_CHARS] for label in run.labels],
        notes=run.note or None,
        config=dict(run.settings),
        settings=wandb.Settings(**{name: value for name, value in WANDB_QUIET.items() if name in known}),
    )
    for step, metrics in run.series:
        stored.log(dict(metrics), step=step)
    stored.summary.update(dict(run.metrics))
    for file in run.files:
        stored.save(file, base_path=str(Path(file).parent), policy="now")
    place = stored.url or str(Path(stored.dir).parent)
    stored.finish()
    return str(place)


def to_mlflow(run: TrackedRun) -> str:
    """Store a run in MLflow; return the store and the run's id."""
    import mlflow

    mlflow.set_experiment(os.environ.get("MLFLOW_EXPERIMENT_NAME") or PROJECT)
    with mlflow.start_run(run_name=run.name, description=run.note or None) as stored:
        mlflow.set_tags({"kind": run.kind, "labels": ", ".join(run.labels)})
        settings = [(name, value[:MLFLOW_CHARS]) for name, value in _mlflow_named(run.settings).items()]
        for begin in range(0, len(settings), MLFLOW_AT_ONCE):
            mlflow.log_params(dict(settings[begin : begin + MLFLOW_AT_ONCE]))
        for step, metrics in run.series:
            mlflow.log_metrics(_mlflow_named(metrics), step=step)
        mlflow.log_metrics(_mlflow_named(run.metrics))
        for file in run.files:
            mlflow.log_artifact(file)
    return f"{mlflow.get_tracking_uri()} run {stored.info.run_id}"


def _mlflow_named(values: Mapping[str, Any]) -> dict[str, Any]:
    return {re.sub(r"[^\w. /-]", "_", name): value for name, value in values.items()}


def to_trackio(run: TrackedRun) -> str:
    """Store a run in Trackio; return the project and the run's name."""
    import trackio

    project = os.environ.get("TRACKIO_PROJECT") or PROJECT
    facts = {"kind": run.kind, "labels": ", ".join(run.labels), "note": run.note}
    stored = trackio.init(project=project, name=run.name, config={**run.settings, **facts}, embed=False)
    for step, metrics in run.series:
        trackio.log(dict(metrics), step=step)
    trackio.log(dict(run.metrics))
    for file in run.files if hasattr(trackio, "log_artifact") else ():  # newer versions
        trackio.log_artifact(file, type="report")
    trackio.finish()
    return f"project {project}, run {stored.name}"


TRACKERS: dict[str, Callable[[TrackedRun], str]] = {"wandb": to_wandb, "mlflow": to_mlflow, "trackio": to_trackio}
"""By the name of the package, which is also an extra of ours."""


def require_installed(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names; UsageError if the package of one is not installed."""
    for name in names:
        if find_spec(name) is None:
            raise UsageError(f"--track {name} needs {name}", hint=f"pip install 'svr-async[{name}]'")
    return names


def main(name: str) -> int:
    """Store the run on standard input; if that fails, the last line of standard error is the reason."""
    run = msgspec.json.decode(sys.stdin.buffer.read(), type=TrackedRun)
    try:
        with redirect_stdout(sys.stderr):  # trackers print to it
            place = TRACKERS[name](run)
    except Exception as error:  # noqa: BLE001  (trackers raise errors of many kinds)
        print(f"\n{type(error).__name__}: {(str(error).strip().splitlines() or [''])[0]}", file=sys.stderr)  # noqa: T201
        return 1
    print(place)  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
