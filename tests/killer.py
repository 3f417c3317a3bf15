"""Running `svr` in a process that is killed by SIGKILL just before a file operation; also the script that does it.

An audit hook sees every file that Python opens, renames or removes. The process kills itself there, so the moment is
exact, and the kill is the kernel's: no clean-up runs, and all threads end where they are.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

OPERATIONS = {"open": 0, "os.rename": 1, "os.remove": 0, "os.mkdir": 0}  # and which argument names the file
READING = ("r", "rb", "rt")


def killed_at(pattern: str, *args: str | Path, cwd: Path, count: int = 1, **env: str) -> None:
    """Run `svr` until an operation matches `pattern` for the `count`-th time, and kill it there.

    An operation reads like `os.rename out/record.json`; of a rename it is the new name. Files opened to be read do not
    count; a folder that is opened to be synced does.
    """
    assert dies_at(pattern, *args, cwd=cwd, count=count, **env), f"{pattern} did not happen"


def dies_at(pattern: str, *args: str | Path, cwd: Path, count: int = 1, **env: str) -> bool:
    """Do as `killed_at` and return True, or False where the command came to a good end before."""
    from rig import environment

    command = [sys.executable, __file__, pattern, str(count), *map(str, args)]
    done = subprocess.run(
        command, cwd=cwd, env=environment(**env), capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode in {0, -signal.SIGKILL}, done.stdout + done.stderr
    return done.returncode != 0


def _die_at(pattern: str, count: int) -> None:
    wanted, left = re.compile(pattern), [count]

    def watch(event: str, args: tuple[Any, ...]) -> None:
        place = OPERATIONS.get(event)
        if place is None or (event == "open" and args[1] in READING):
            return
        if isinstance(args[place], str) and wanted.search(f"{event} {args[place]}"):
            left[0] -= 1
            if not left[0]:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(watch)


if __name__ == "__main__":
    _die_at(sys.argv[1], int(sys.argv[2]))
    sys.argv[1:] = sys.argv[3:]
    sys.path[0] = str(Path(__file__).parents[1])  # the checkout, not this folder
    from svr_async.commands import main

    main()
