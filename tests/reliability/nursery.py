"""Processes of `svr` by the hundred, to be killed or to have their disk fail; also the script that forks them.

Starting Python and importing the package takes far longer than a small run. So one process imports everything once and
forks a child for each run: a run costs its work only, and each child is a real process with its own files and sockets.
Into that process a small library is preloaded (`iofault.c`), with which the Nth write, sync, open or rename of a child
fails, or is the last thing that the child does.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from enum import IntFlag
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).with_name("iofault.c")
LIMIT_S = float(os.environ.get("SOAK_LIMIT_S", "120"))  # a run is given so long
PATIENCE_S = 0.1  # how long a child waits for a full disk to have room again; the usual half minute is too long here


class Operation(IntFlag):
    """What kind of file operation a fault strikes; numbered as in iofault.c."""

    OPEN = 1
    WRITE = 2
    SYNC = 4
    RENAME = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Strike:
    """A fault: which operation below `under`, from which number on, how often (-1: always), with which error.

    `mode`: "fail", "die" (by SIGKILL before the operation) or "die after"; at 0 nothing happens and all are counted.
    Where `trace` names a file, each sync leaves a line there: the size that is safe, and the path.
    """

    under: Path
    operation: Operation = Operation.WRITE
    nth: int = 0
    times: int = -1
    error: int = errno.ENOSPC
    mode: str = "fail"
    trace: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a child ended: exit code (minus the signal where one ended it), what it said, operations counted, seconds.

    A child that takes too long is ended by SIGABRT: `err` then has the stacks of all its threads, and `cpu_s` tells
    whether it was working, waiting, or had no share of a processor.
    """

    code: int
    out: str
    err: str
    count: int
    seconds: float
    cpu_s: float


class Nursery:
    """Forks children that run `svr …`. Use `open_nursery`."""

    def __init__(self, process: subprocess.Popen[str], folder: Path, *, armed: bool) -> None:
        self._process = process
        self._folder = folder
        self._armed = armed

    def run(
        self, *args: str | Path, cwd: Path, kill_after_s: float = 0.0, strike: Strike | None = None, **env: str
    ) -> Ended:
        """Run `svr` in a child of its own and wait for its end, killing it after so many seconds where asked to."""
        self.start(*args, cwd=cwd, kill_after_s=kill_after_s, strike=strike, **env)
        return self.wait()

    def start(
        self, *args: str | Path, cwd: Path, kill_after_s: float = 0.0, strike: Strike | None = None, **env: str
    ) -> None:
        """Have a child begin; `wait` ends it. One at a time. A strike needs the library, and so a C compiler."""
        if strike is not None and not self._armed:
            _need_library()
        order: dict[str, Any] = {"args": list(map(str, args)), "cwd": str(cwd), "env": env}
        order["kill_after_s"] = kill_after_s
        if strike is not None:
            order["strike"] = asdict(strike) | {"under": str(strike.under), "operation": int(strike.operation)}
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()

    def wait(self) -> Ended:
        """Wait for the child."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"the nursery is gone: {(self._folder / 'errors').read_text()}"
        return Ended(**json.loads(line))


def _need_library() -> None:
    """Leave the test out, with the reason why there is no library."""
    import pytest
    from programs import need

    need("a C compiler")
    pytest.skip("the library that strikes file operations is written for Linux")


def compiled(folder: Path) -> Path | None:
    """Compile the library into a folder; None where there is no C compiler."""
    from programs import find

    compiler = find("a C compiler")
    if compiler is None or sys.platform != "linux":
        return None
    library = folder / "iofault.so"
    command = [compiler, "-O1", "-shared", "-fPIC", "-o", str(library), str(SOURCE), "-ldl"]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    return library


@contextmanager
def open_nursery(folder: Path) -> Iterator[Nursery]:
    """Start the process that forks children; it is gone when the block ends."""
    folder.mkdir(parents=True, exist_ok=True)
    library = compiled(folder)
    env = {name: value for name, value in os.environ.items() if not name.startswith(("COVERAGE", "COV_"))}
    if library is not None:
        env["LD_PRELOAD"] = str(library)
    with (folder / "errors").open("wb") as errors:
        process = subprocess.Popen(
            [sys.executable, __file__, str(folder)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, env=env,
        )  # fmt: skip
    try:
        yield Nursery(process, folder, armed=library is not None)
    finally:
        process.kill()
        process.communicate()


# --- the script ------------------------------------------------------------------------------------------------------


def _load() -> None:
    """Import all that an evaluation needs, and shorten the patience with a full disk."""
    from importlib import import_module

    for name in ("commands.main", "commands.eval.run", "engine.http.client", "judges.open_judge", "judges.model",
                 "judges.decision", "evaluation.reporting.report", "evaluation.reporting.tables", "judges.rules.judge",
                 "adapters.pairs", "commands.cache", "adapters.rubricbench"):  # fmt: skip
        import_module(f"svr_async.{name}")
    from svr_async.engine.cache import Cache

    functions: tuple[Any, ...] = (Cache.__dict__["open"].__func__, Cache.__init__)
    for function in functions:
        function.__kwdefaults__["patience_s"] = PATIENCE_S


def _arm(strike: dict[str, Any]) -> None:
    import ctypes

    library = ctypes.CDLL(None)
    library.iofault_arm.argtypes = [ctypes.c_char_p, ctypes.c_int, *[ctypes.c_long] * 2, *[ctypes.c_int] * 2]
    mode = ("fail", "die", "die after").index(strike["mode"])
    under = os.path.realpath(strike["under"]).encode()
    library.iofault_arm(under, strike["operation"], strike["nth"], strike["times"], strike["error"], mode)
    if strike["trace"]:
        library.iofault_trace(strike["trace"].encode())


def _counted() -> int:
    import ctypes

    library = ctypes.CDLL(None)
    return int(library.iofault_count()) if hasattr(library, "iofault_count") else 0


def _child(order: dict[str, Any], folder: Path) -> None:
    """Be `svr`: its output in files, its exit code this process's."""
    import faulthandler

    for number, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    faulthandler.enable()
    os.chdir(order["cwd"])
    os.environ.update(order["env"])
    sys.argv[:] = ["svr", *order["args"]]
    from svr_async.commands.main import run, svr

    if "strike" in order:
        _arm(order["strike"])
    code = run(svr, "svr", order["args"])
    sys.stdout.flush()
    sys.stderr.flush()
    (folder / "count").write_text(str(_counted()))
    os._exit(code)


def _await(child: int, kill_after_s: float) -> tuple[int, float]:
    """Wait for a child, killing it at its time; return its exit code, negative for a signal, and its CPU seconds."""
    limit_s, number = (kill_after_s, signal.SIGKILL) if kill_after_s else (LIMIT_S, signal.SIGABRT)
    deadline = time.monotonic() + limit_s
    while True:
        late = time.monotonic() >= deadline
        if late:
            os.kill(child, number)
        done, status, used = os.wait4(child, 0 if late else os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime
        time.sleep(0.001)


def _serve(folder: Path) -> None:
    _load()
    for line in sys.stdin:
        order = json.loads(line)
        (folder / "count").write_text("0")
        begun = time.monotonic()
        child = os.fork()
        if not child:
            try:
                _child(order, folder)
            finally:
                os._exit(99)
        code, cpu_s = _await(child, order["kill_after_s"])
        said = {name: (folder / name).read_text(errors="replace") for name in ("out", "err")}
        count = int((folder / "count").read_text())
        ended = said | {"code": code, "count": count, "seconds": time.monotonic() - begun, "cpu_s": cpu_s}
        sys.stdout.write(json.dumps(ended) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).parents[2])  # the checkout, not this folder
    _serve(Path(sys.argv[1]))
