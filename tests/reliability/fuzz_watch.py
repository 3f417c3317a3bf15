"""One command in this process, and all that a hostile file must not bring it to do: what is heard, said and written."""

from __future__ import annotations

import contextlib
import csv
import io
import os
import re
import signal
import sys
import tempfile
import traceback
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fuzz_mutation import CANARY
from rig import svr_here

CODES = frozenset({0, 2, 3, 4, 5, 6, 7, 8, 9})
LOUD = frozenset({"pickle.find_class", "os.system", "subprocess.Popen", "os.exec", "os.posix_spawn", "os.fork",
                  "webbrowser.open", "shutil.unpack_archive", "urllib.Request", "ftplib.connect"})  # fmt: skip
CHANGES = frozenset({"os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.link", "os.symlink", "os.chmod", "os.chown",
                     "os.truncate", "shutil.rmtree", "os.utime", "sqlite3.connect"})  # fmt: skip
STEERS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
FORMULA = re.compile(r"[=+@\t\r-]")
NUMBER = re.compile(r"[+-]?[\d.,]+(e[+-]?\d+)?%?$|[+-−–]$")
COMMAND = re.compile(r"\\(input|include|write|csname|openin|openout|read|immediate|def|catcode|special)\b")
MARKUP = re.compile(rf"<script>{CANARY}|<img src=x onerror")
MOST_MB = 400
LIMIT_S = 20.0
WAITS = 10  # a busy machine is slow, too


class TooSlowError(BaseException):
    """A command took longer than any hostile file may make it take."""


@dataclass(slots=True)
class Case:
    """What came of one command: exit code, what was said, and what is wrong with it (nothing, one hopes)."""

    args: tuple[str, ...]
    code: int = -1
    out: str = ""
    err: str = ""
    wrong: list[str] = field(default_factory=list)
    detail: str = ""


@dataclass(slots=True)
class Ear:
    """An audit hook, which cannot be taken away again: it listens while `place` names a case's folder."""

    place: str = ""
    heard: list[str] = field(default_factory=list)

    def __call__(self, event: str, args: tuple[Any, ...]) -> None:
        """Note what only an artefact's code, or a name in it, can have caused."""
        if not self.place:
            return
        if event == "socket.connect" and not _is_near(args[1]):
            self.heard.append(f"{event} {args[1:]!r}"[:200])
        elif event in LOUD or (event == "exec" and str(getattr(args[0], "co_filename", "")).startswith(self.place)):
            self.heard.append(f"{event} {args!r}"[:200])
        elif event in CHANGES or (event == "open" and _writes(args)):
            self.heard.extend(
                f"{event} {name}"[:200] for name in _names(args[:2]) if not self._is_own(name) and name != ":memory:"
            )

    def _is_own(self, name: str) -> bool:
        """Whether a path lies in the case's folder, or is where Python keeps what it compiled."""
        path = os.path.realpath(name)
        return path.startswith((self.place, "/dev/", "/proc/")) or "__pycache__" in path or "/.pytest_cache/" in path


def _is_near(address: Any) -> bool:
    host = address[0] if isinstance(address, tuple) else address
    return not isinstance(host, str) or host.startswith(("127.", "localhost", "::1"))


def _writes(args: tuple[Any, ...]) -> bool:
    mode, flags = args[1], args[2]
    if isinstance(mode, str):
        return any(letter in mode for letter in "wax+")
    return isinstance(flags, int) and bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))


def _names(args: Sequence[Any]) -> list[str]:
    return [
        os.fsdecode(arg) for arg in args if isinstance(arg, str | bytes | os.PathLike) and arg not in {"w", "wb", "a"}
    ]


EAR = Ear()
sys.addaudithook(EAR)


@contextlib.contextmanager
def _limited(seconds: float) -> Iterator[None]:
    """Raise TooSlowError in the main thread after so many seconds of work, or some times as long of waiting."""

    def stop(*_: object) -> None:
        raise TooSlowError

    clocks = {signal.ITIMER_PROF: signal.SIGPROF, signal.ITIMER_REAL: signal.SIGALRM}
    before = {number: signal.signal(number, stop) for number in clocks.values()}
    signal.setitimer(signal.ITIMER_PROF, seconds, 1.0)
    others = signal.setitimer(signal.ITIMER_REAL, WAITS * seconds, 1.0)  # of pytest, where this is a test
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in before.items():
            signal.signal(number, handler)
        signal.setitimer(signal.ITIMER_REAL, *others)


def peak_mb() -> float:
    """Return the most memory that this process has held since `forget_peak`, in MB."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1000


def forget_peak() -> float:
    """Have the kernel forget the peak; return what is held now, in MB."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return peak_mb()


class _Speaker(io.TextIOWrapper):
    """A stream that remembers; never a terminal."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8", errors="surrogateescape", newline="")

    def said(self) -> str:
        """Return all of it."""
        self.flush()
        found = self.buffer
        assert isinstance(found, io.BytesIO)
        return found.getvalue().decode("utf-8", "replace")


def watched(args: Sequence[str], folder: Path, *, limit_s: float = LIMIT_S) -> Case:
    """Run `svr` with these arguments in a folder, in this process, and judge what it did."""
    case, out, err = Case(tuple(args)), _Speaker(), _Speaker()
    held, before = forget_peak(), dict(os.environ)
    os.environ |= {"SVR_TRACE": "1", "XDG_CACHE_HOME": str(folder / "xdg"), "XDG_CONFIG_HOME": str(folder / "config")}
    here, stdin, temporary = Path.cwd(), sys.stdin, tempfile.tempdir
    os.chdir(folder)
    tempfile.tempdir = str(folder)
    EAR.heard.clear()
    EAR.place = os.path.realpath(folder)
    sys.stdin = io.StringIO("")
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), _limited(limit_s):
            case.code = svr_here(*args)
    except TooSlowError as error:
        case.wrong.append(f"slow: {_where(error)}")
    except Exception as error:  # noqa: BLE001  (told as a finding)
        case.wrong.append(f"a bug: {type(error).__name__} {_where(error)}")
        case.detail = "".join(traceback.format_exception(error))[-3000:]
    finally:
        EAR.place = ""
        sys.stdin, tempfile.tempdir = stdin, temporary
        os.chdir(here)
        os.environ.clear()
        os.environ.update(before)
    case.out, case.err = out.said(), err.said()
    case.wrong += [f"heard: {event}" for event in EAR.heard]
    case.wrong += [f"memory: {peak_mb() - held:.0f} MB"] if peak_mb() - held > MOST_MB else []
    case.wrong += _misspoken(case)
    return case


def _where(error: BaseException) -> str:
    """Return the deepest place of a traceback that is ours."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "svr_async" in frame.filename]
    if not frames:
        return "outside"
    path = frames[-1].filename.rpartition("svr_async/")[2]
    return f"{path}:{frames[-1].name}"


def _misspoken(case: Case) -> Iterator[str]:
    """Yield what is wrong with what was said."""
    if case.wrong:
        return
    if case.code not in CODES:
        yield f"exit {case.code}"
    if "Traceback" in case.out + case.err or "a bug:" in case.err:
        yield "a traceback"
    for name, text in (("stdout", case.out), ("stderr", case.err)):
        if found := STEERS.search(text):
            yield f"{found[0]!r} on {name}"
    lines = [line for line in case.err.strip().splitlines() if line.startswith("svr") or " a bug" in line]
    if case.code not in {0, 3, 9} and len(lines) != 1:
        yield f"{len(lines)} lines for exit {case.code}"


def written(paths: Iterable[Path]) -> Iterator[str]:
    """Yield what is wrong with the tables and pages that a command wrote."""
    for path in paths:
        if path.suffix == ".csv":
            cells = (cell for row in csv.reader(io.StringIO(path.read_text("utf-8", "replace"))) for cell in row)
            bad = next((cell for cell in cells if FORMULA.match(cell) and not NUMBER.match(cell)), None)
            if bad is not None:
                yield f"formula in {path.name}"
        elif path.suffix == ".tex" and COMMAND.search(path.read_text("utf-8", "replace")):
            yield f"a command in {path.name}"
        elif path.suffix in {".html", ".svg"} and MARKUP.search(path.read_text("utf-8", "replace")):
            yield f"markup in {path.name}"
