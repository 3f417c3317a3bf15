"""The process that keeps a run in one tracker: it reads the run from standard input and prints where it is now."""

from __future__ import annotations

import os
import sys
from contextlib import redirect_stdout

from svr_async.tracking.contract import Tracked
from svr_async.tracking.registry import tracker_of

SETTINGS = {
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "30",
    "WANDB_ERROR_REPORTING": "false",
}
"""What trackers are told where the user's variables say nothing: to send nothing else, and not to wait for long."""


def main(name: str) -> int:
    """Keep the run of standard input in the tracker of this name; the last line of standard error says why not."""
    for variable, value in SETTINGS.items():
        os.environ.setdefault(variable, value)
    run = Tracked.from_bytes(sys.stdin.buffer.read())
    try:
        with redirect_stdout(sys.stderr):  # trackers print to it
            place = tracker_of(name)(run)
    except Exception as error:  # noqa: BLE001  (whatever a tracker raises)
        lines = str(error).strip().splitlines() or [""]
        print(f"\n{type(error).__name__}: {lines[0]}", file=sys.stderr)  # noqa: T201
        return 1
    print(place)  # noqa: T201
    return 0
