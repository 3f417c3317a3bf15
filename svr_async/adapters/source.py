"""What --data names: a file, a folder, standard input (`-`), or a data set of the hub (hf:org/name)."""

from __future__ import annotations

import atexit
import shutil
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import NamedTuple

from svr_async.adapters.hub import fetch_split, parse_hub
from svr_async.core.hub import SCHEME
from svr_async.errors import UsageError

STDIN = Path("-")
_START_BYTES = 1 << 16
_MAGIC = {b"PAR1": ".parquet", b"\x1f\x8b": ".json.gz"}


class Source(NamedTuple):
    """Where rows are read: a file or folder, or only `files` of it; `origin` is a data set's pinned address."""

    path: Path
    files: tuple[Path, ...] = ()
    origin: str = ""


def open_source(path: Path) -> Source:
    """Return where the rows of `--data` lie, after fetching or reading them; a file or folder is not looked at."""
    if path == STDIN:
        return Source(_spooled())
    if str(path).startswith(SCHEME):
        fetched = fetch_split(parse_hub(str(path)))
        return Source(fetched.folder, fetched.files, fetched.origin)
    return Source(path)


@cache
def _spooled() -> Path:
    """Write standard input to a temporary file that is gone when the process ends, and return it; once a process."""
    if sys.stdin.isatty():
        raise UsageError("--data - reads standard input, and that is a terminal", hint="pipe a file into it")
    stream = sys.stdin.buffer
    start = stream.read(_START_BYTES)
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = Path(folder) / f"stdin{kind_of(start)}"
    with path.open("wb") as file:
        while start:
            file.write(start)
            start = stream.read(_START_BYTES)
    return path


def kind_of(start: bytes) -> str:
    """Return the suffix of a file that begins so: of JSON, of parquet, of a packed file of JSON, else of a table."""
    for magic, suffix in _MAGIC.items():
        if start.startswith(magic):
            return suffix
    text = start.removeprefix(b"\xef\xbb\xbf").lstrip()
    return ".json" if text[:1] in (b"{", b"[") else ".csv"
