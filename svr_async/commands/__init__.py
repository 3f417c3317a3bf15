"""The command line: a file or folder per command group, each a thin shell over the library.

Nothing heavy is imported here: a command's module is loaded when the command runs, so that `svr --help` is quick.
"""

from __future__ import annotations

import gc
import sys
from importlib import import_module

GC_THRESHOLDS = (100_000, 50, 100)  # thousands of items are alive: walking them takes a tenth of a run


def _run(module: str, command: str, name: str) -> None:
    gc.set_threshold(*GC_THRESHOLDS)
    from svr_async.commands.main import run

    sys.exit(run(getattr(import_module(f"svr_async.commands.{module}"), command), name))


def main() -> None:
    """Run `svr`."""
    _run("main", "svr", "svr")


def eval_main() -> None:
    """Run `svr-eval`, which is `svr eval`."""
    _run("eval", "evaluate", "svr-eval")


def fit_main() -> None:
    """Run `svr-fit`, which is `svr fit`."""
    _run("train", "fit", "svr-fit")
