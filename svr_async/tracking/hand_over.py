"""Handing a run that has ended to trackers: each in a process of its own, which can cost the run nothing but a line."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO

from svr_async import errors
from svr_async.observability.redaction import Redactor
from svr_async.tracking.contract import Tracked

LIMIT_S = 180.0  # a first run makes MLflow's database, a minute on a slow disk
LAUNCH = """
import sys
sys.path.insert(0, sys.argv[1])
from svr_async.tracking.keeper import main
sys.exit(main(sys.argv[2]))
"""
"""Nothing of the working folder is imported, where a tracker may keep a folder of its own name."""
MOST_CHARS = 300  # of what a tracker says


def hand_over(
    names: Sequence[str], facts: Callable[[], Tracked], say: Callable[[str], None], *, limit_s: float = LIMIT_S
) -> None:
    """Hand a run that has ended to each of the trackers, and say where it is now, or in one line why it is not.

    Whatever a tracker does, no more than `limit_s` seconds are spent on it. What cannot be read of the run raises
    nothing either: it is said. Values of variables that are named as keys are masked, in what is told and what is said.
    """
    if not names:
        return
    redactor = Redactor()
    try:
        data = redactor.line(facts().to_bytes())
    except Exception as error:  # noqa: BLE001  (the run is whole and on the disk: nothing may cost it now)
        say(f"warning: {', '.join(names)} not told of this run: {type(error).__name__}: {error}")
        return
    for name in names:
        say(redactor.text(_kept(name, data, limit_s)))


def _kept(name: str, data: bytes, limit_s: float) -> str:
    """Let a process keep a run in a tracker; return what is said of it."""
    command = [sys.executable, "-P", "-c", LAUNCH, str(Path(errors.__file__).parents[1]), name]
    # Files, not pipes: a tracker's helpers may hold a pipe open long after it has ended.
    with tempfile.TemporaryFile() as told, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        told.write(data)
        told.seek(0)
        try:
            code = _run(command, (told, out, err), limit_s)
        except subprocess.TimeoutExpired:
            return f"warning: {name} was not told of this run: no answer in {limit_s:.0f} s"
        except OSError as error:
            return f"warning: {name} was not told of this run: {error.strerror}"
        if code:
            return f"warning: {name} was not told of this run: {_last_line(err) or f'it ended with {code}'}"
        return f"{name}: {_last_line(out)}"


def _run(command: Sequence[str], streams: tuple[IO[bytes], IO[bytes], IO[bytes]], limit_s: float) -> int:
    stdin, stdout, stderr = streams
    with subprocess.Popen(command, stdin=stdin, stdout=stdout, stderr=stderr, start_new_session=True) as process:  # noqa: S603  (this interpreter)
        try:
            return process.wait(limit_s)
        finally:
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process that is still there, and the helpers that it started."""
    if process.poll() is None:
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()


def _last_line(file: IO[bytes]) -> str:
    file.seek(0)
    lines = [line for line in file.read().decode("utf-8", "replace").splitlines() if line.strip()]
    return "".join(char for char in lines[-1] if char.isprintable())[:MOST_CHARS] if lines else ""
