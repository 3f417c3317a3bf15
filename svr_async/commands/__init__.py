"""The command line: a file or folder per command group, each a thin shell over the library.

Nothing heavy is imported here: a command's module is loaded when the command runs, so that `svr --help` is quick.
"""

from __future__ import annotations

import sys


def main() -> None:
    """Run `svr`."""
    from svr_async.commands.main import run, svr

    sys.exit(run(svr, "svr"))


def eval_main() -> None:
    """Run `svr-eval`, which is `svr eval`."""
    from svr_async.commands.eval import evaluate
    from svr_async.commands.main import run

    sys.exit(run(evaluate, "svr-eval"))


def fit_main() -> None:
    """Run `svr-fit`, which is `svr fit`."""
    from svr_async.commands.main import run
    from svr_async.commands.train import fit

    sys.exit(run(fit, "svr-fit"))
