"""Processes that run `svr` and begin with its libraries loaded: children of one process a worker; also its script.

Loading them is most of what a short command costs. Each child has pipes, an environment and a working folder of its
own, gets signals by its own number and can be killed: only the interpreter's start is shared.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import IO, Any, NoReturn

OPERATIONS = {"open": 0, "os.rename": 1, "os.remove": 0, "os.mkdir": 0}  # and which argument names the file
READING = ("r", "rb", "rt")
_INHERITED = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)  # where a new process ignores what its parent did
LARGEST = 1 << 16  # bytes of an order
LOADED = (
    "commands.main", "commands.eval", "commands.sim", "commands.train_run", "engine.http",
    "reports.page", "reports.text", "fit.training",
    "judges.model", "judges.open_judge", "judges.rules.judge", "adapters.pairs", "adapters.rubricbench",
    "simulation.server", "scoring.bank", "training.rounds.store", "training.rounds.store",
)  # fmt: skip
LIBRARIES = ("sklearn.cluster", "sklearn.feature_extraction.text", "scipy.optimize", "pyarrow.parquet", "rich.live")


class Forked:
    """A child that runs `svr`, used as a `subprocess.Popen` is. `kill_at`: a file operation and its count."""

    def __init__(
        self, args: list[str], *, cwd: Path, env: Mapping[str, str], kill_at: tuple[str, int] | None = None
    ) -> None:
        (out, out_end), (err, err_end), (self._status, status_end) = (os.pipe() for _ in range(3))
        order: dict[str, Any] = {"args": args, "cwd": str(cwd), "env": dict(env), "kill_at": kill_at}
        order["ignored"] = [int(number) for number in _INHERITED if signal.getsignal(number) is signal.SIG_IGN]
        ends = [out_end, err_end, status_end]
        socket.send_fds(_nursery(), [json.dumps(order).encode()], ends)
        for end in ends:
            os.close(end)
        self.stdout: IO[str] = os.fdopen(out, encoding="utf-8")
        self.stderr: IO[str] = os.fdopen(err, encoding="utf-8")
        self.pid = int(os.read(self._status, 16))
        self.returncode: int | None = None
        self._said: dict[IO[str], str] = {}
        self._readers: list[threading.Thread] = []

    def poll(self) -> int | None:
        """Return the exit code, negative for a signal; None while it runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end and return the exit code."""
        if self.returncode is None:
            if not select.select([self._status], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("svr", timeout or 0)
            self.returncode = int(os.read(self._status, 16))
            os.close(self._status)
        return self.returncode

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Wait for the end and return the rest of stdout and stderr."""
        deadline = None if timeout is None else time.monotonic() + timeout

        def left() -> float | None:
            return None if deadline is None else max(0.0, deadline - time.monotonic())

        if not self._readers:
            self._readers = [
                threading.Thread(target=self._drain, args=(file,), daemon=True) for file in (self.stdout, self.stderr)
            ]
            for thread in self._readers:
                thread.start()
        for thread in self._readers:
            thread.join(left())
        self.wait(left())
        return self._said[self.stdout], self._said[self.stderr]

    def _drain(self, file: IO[str]) -> None:
        with file:
            self._said[file] = file.read()

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)


@cache
def _nursery() -> socket.socket:
    """Start the process whose children run `svr`; it ends when this one's end of the socket is closed."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        command = [sys.executable, __file__, str(theirs.fileno())]
        env = {**os.environ, "PYTHONUNBUFFERED": "1"}
        process = subprocess.Popen(command, env=env, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)
    atexit.register(_end, ours, process)
    return ours


def _end(ours: socket.socket, process: subprocess.Popen[bytes]) -> None:
    ours.close()
    process.wait()


# --- the script ------------------------------------------------------------------------------------------------------


def die_at(pattern: str, count: int) -> None:
    """Have this process kill itself just before a file operation matches for the `count`-th time."""
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


def _child(order: dict[str, Any], ends: list[int]) -> NoReturn:
    """Be `svr`, from its first line on to its exit."""
    for number, end in zip((1, 2), ends, strict=False):
        os.dup2(end, number)
    for end in ends:  # the status is its parent's to tell
        os.close(end)
    os.environ.clear()
    os.environ.update(order["env"])
    os.chdir(order["cwd"])
    for number in order["ignored"]:
        signal.signal(number, signal.SIG_IGN)
    sys.argv[:] = ["svr", *order["args"]]
    if order["kill_at"]:
        die_at(*order["kill_at"])
    code = 1
    try:
        from svr_async.commands.main import run, svr

        code = run(svr, "svr")
    except SystemExit as asked:
        code = asked.code if isinstance(asked.code, int) else int(asked.code is not None)
    except BaseException:  # noqa: BLE001  (as the interpreter does)
        sys.excepthook(*sys.exc_info())
    finally:
        threading._shutdown()  # type: ignore[attr-defined]  # as at any exit: wait for the threads
        atexit._run_exitfuncs()
        with contextlib.suppress(OSError):
            sys.stdout.flush()
        os._exit(code)


def _load() -> None:
    from importlib import import_module

    for name in (*(f"svr_async.{name}" for name in LOADED), *LIBRARIES):
        import_module(name)
    with contextlib.suppress(ImportError):
        import_module("uvloop")
    gc.collect()
    gc.freeze()


def _serve(line: socket.socket) -> None:
    running: dict[int, int] = {}
    waker, woken = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
    while True:
        ready = select.select([line.fileno(), waker], [], [])[0]
        if waker in ready:
            os.read(waker, 512)
            _tell_ended(running)
        if line.fileno() in ready:
            data, ends, _, _ = socket.recv_fds(line, LARGEST, 3)
            if not data:
                return
            with warnings.catch_warnings(action="ignore"):  # JAX, of a fork: it has no threads yet
                child = os.fork()
            if not child:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                signal.signal(signal.SIGINT, signal.default_int_handler)
                for fd in (line.detach(), waker, woken, *running.values()):
                    os.close(fd)
                _child(json.loads(data), ends)
            os.write(ends[2], b"%-16d" % child)
            running[child] = ends[2]
            for end in ends[:2]:
                os.close(end)


def _tell_ended(running: dict[int, int]) -> None:
    while running:
        child, status = os.waitpid(-1, os.WNOHANG)
        if not child:
            return
        end = running.pop(child)
        with contextlib.suppress(BrokenPipeError):
            os.write(end, b"%-16d" % os.waitstatus_to_exitcode(status))
        os.close(end)


if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).parents[1])  # the checkout, not this folder
    _load()
    _serve(socket.socket(fileno=int(sys.argv[1])))
