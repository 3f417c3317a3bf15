"""Trackio: a run of a project with its settings and numbers, on this machine, and the report as an artifact.

Where it goes is told by Trackio's own variables: TRACKIO_DIR on this machine, TRACKIO_SPACE_ID and HF_TOKEN on the hub.
"""

from __future__ import annotations

import os

from svr_async.tracking.contract import PROJECT, Tracked


def keep(run: Tracked) -> str:
    """Keep a run; return the project and the run's name."""
    import trackio

    project = os.environ.get("TRACKIO_PROJECT") or PROJECT
    told = {"kind": run.kind, "labels": ", ".join(run.labels), "note": run.note}
    found = trackio.init(project=project, name=run.name, config={**run.settings, **told}, embed=False)
    for step, numbers in run.series:
        trackio.log(dict(numbers), step=step)
    trackio.log(dict(run.metrics))
    for file in run.files:
        if hasattr(trackio, "log_artifact"):  # of newer versions
            trackio.log_artifact(file, type="report")
    trackio.finish()
    return f"project {project}, run {found.name}"
