"""The trackers by name; a file each, imported where it is used, in a process of its own."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

from svr_async.errors import UsageError

if TYPE_CHECKING:
    from svr_async.tracking.contract import Tracker

NAMES = ("wandb", "mlflow", "trackio")
"""Each is a package, an extra of ours, and a file beside this one with a function `keep`."""


def require_installed(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names; UsageError, before anything is judged or paid for, where one's package is not installed."""
    for name in names:
        if find_spec(name) is None:
            raise UsageError(f"--track {name} needs {name}", hint=f"pip install 'svr-async[{name}]'")
    return names


def tracker_of(name: str) -> Tracker:
    """Return what keeps a run in this tracker."""
    keep: Tracker = import_module(f"svr_async.tracking.{name}").keep
    return keep
