"""The command line: a file or folder per command group, each a thin shell over the library.

Nothing heavy is imported here: a command's module is loaded when the command runs, so that `svr --help` is quick.
"""

from __future__ import annotations

import gc
import sys

GC_THRESHOLDS = (100_000, 50, 100)  # thousands of items are alive: walking them takes a tenth of a run


def main() -> None:
    """Run `svr`."""
    gc.set_threshold(*GC_THRESHOLDS)
    from svr_async.commands.main import run, svr

    sys.exit(run(svr, "svr"))


def eval_main() -> None:
    """Run `svr-eval`, which is `svr eval`."""
    gc.set_threshold(*GC_THRESHOLDS)
    from svr_async.commands.eval import evaluate
    from svr_async.commands.main import run

    sys.exit(run(evaluate, "svr-eval"))


def fit_main() -> None:
    """Run `svr-fit`, which is `svr fit`."""
    gc.set_threshold(*GC_THRESHOLDS)
    from svr_async.commands.main import run
    from svr_async.commands.train import fit

    sys.exit(run(fit, "svr-fit"))
