"""Running `svr` in a process that is killed by SIGKILL just before a file operation.

An audit hook sees every file that Python opens, renames or removes. The process kills itself there, so the moment is
exact, and the kill is the kernel's: no clean-up runs, and all threads end where they are.
"""

from __future__ import annotations

import signal
from pathlib import Path

from forks import Forked
from rig import environment


def killed_at(pattern: str, *args: str | Path, cwd: Path, count: int = 1, **env: str) -> None:
    """Run `svr` until an operation matches `pattern` for the `count`-th time, and kill it there.

    An operation reads like `os.rename out/record.json`; of a rename it is the new name. Files opened to be read do not
    count; a folder that is opened to be synced does.
    """
    assert dies_at(pattern, *args, cwd=cwd, count=count, **env), f"{pattern} did not happen"


def dies_at(pattern: str, *args: str | Path, cwd: Path, count: int = 1, **env: str) -> bool:
    """Do as `killed_at` and return True, or False where the command came to a good end before."""
    process = Forked([*map(str, args)], cwd=cwd, env=environment(**env), kill_at=(pattern, count))
    said = process.communicate(timeout=240)
    assert process.returncode in {0, -signal.SIGKILL}, "".join(said)
    return process.returncode != 0
