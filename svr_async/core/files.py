"""Files written whole: readers see the old content or the new, never a part."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
import tomllib
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import urlsplit

from svr_async.errors import StorageError, UsageError


def write_atomic(path: str | os.PathLike[str], data: bytes, *, hint: str = "choose another place with --out") -> None:
    """Write a whole file: a temporary in the same folder, fsync, rename, fsync of the folder.

    Missing folders are made. StorageError in one line on any failure (no space, no permission …); the temporary is
    then gone and the old file untouched. `hint` says what to do when the cause is not a full disk.
    """
    write_atomic_with(path, lambda file: _write_all(file, data), hint=hint)


def write_lines(
    path: str | os.PathLike[str], lines: Iterable[bytes], *, hint: str = "choose another place with --out"
) -> None:
    """Do as `write_atomic` for lines that are made one by one, none of which is held: each may take pages of memory."""
    write_atomic_with(path, lambda file: file.writelines(lines), hint=hint)


def write_atomic_with(
    path: str | os.PathLike[str],
    write: Callable[[BinaryIO], None],
    *,
    hint: str = "choose another place with --out",
) -> None:
    """Do as `write_atomic` for content that is too large to hold twice: `write` puts it into the open temporary."""
    target = Path(path)
    temporary = target.with_name(f".{target.name[:100]}.{secrets.token_hex(4)}.tmp")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("xb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
        sync_folder(target.parent)
    except OSError as error:
        full = error.errno in {errno.ENOSPC, errno.EDQUOT}
        cure = "free some space and try again" if full else hint
        raise StorageError(f"cannot write {target}: {reason(error)}", hint=cure) from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def sync_folder(path: Path) -> None:
    """Make a rename in this folder durable."""
    if os.name != "posix":  # Windows cannot open a folder, and its rename is already durable
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def reason(error: OSError) -> str:
    """Return the operating system's words for an error, e.g. "No space left on device"."""
    return error.strerror or type(error).__name__


def _write_all(file: BinaryIO, data: bytes) -> None:
    file.write(data)


MOST_BYTES = 64 << 20  # of a file that is written by hand


def read_plain(path: Path, most: int = MOST_BYTES, *, follow: bool = True) -> bytes:
    """Return the bytes of a plain file; OSError, its reason in `strerror`, where it is none or has more than `most`.

    What is checked is what is read. Without `follow` a symbolic link is refused.
    """
    link = 0 if follow else getattr(os, "O_NOFOLLOW", 0)
    handle = os.open(path, os.O_RDONLY | link | getattr(os, "O_NONBLOCK", 0))  # a pipe that nobody writes to opens, too
    with open(handle, "rb") as file:  # noqa: PTH123  (a handle)
        facts = os.fstat(file.fileno())
        if stat.S_ISDIR(facts.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(facts.st_mode):
            raise OSError(errno.EINVAL, "it is no plain file", str(path))
        data = b"" if facts.st_size > most else file.read(most + 1)
    if facts.st_size > most or len(data) > most:
        raise OSError(errno.EFBIG, f"it has more than {most:,} bytes", str(path))
    return data


def parse_toml(text: str) -> dict[str, Any]:
    """Return the tables of a TOML text; ValueError says what is wrong, also of values and digits without end."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        raise
    except ValueError:
        raise ValueError("it holds a number of too many digits") from None
    except RecursionError:
        raise ValueError("its values are nested too deep") from None


def require_utf8(args: Sequence[str]) -> None:
    """Refuse an argument, or a working folder, that is not UTF-8 with a `UsageError`: no manifest could name it."""
    with suppress(FileNotFoundError):  # a working folder that is gone
        args = [*args, str(Path.cwd())]
    for one in args:
        if not one.isascii() and one != one.encode("utf-8", "replace").decode():
            raise UsageError(f"{one.encode('utf-8', 'backslashreplace').decode()} is not UTF-8; rename it")


LOOPBACK = ("127.0.0.1", "::1", "localhost")


def host_of(address: str) -> str:
    """Return the host of an address; empty where it has none, or is none."""
    with contextlib.suppress(ValueError):
        return urlsplit(address).hostname or ""
    return ""


def is_server(address: str) -> bool:
    """Whether an address is that of an http or https server."""
    try:
        parts = urlsplit(address)
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def open_folder(out: Path, flag: str = "--out") -> None:
    """Make the folder that a run writes to, which a flag names; StorageError where that, or a file in it, cannot be."""
    elsewhere = f"choose another place with {flag}"
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"cannot write to {out}: {reason(error)}", hint=elsewhere) from error
    if not os.access(out, os.W_OK | os.X_OK):
        raise StorageError(f"cannot write to {out}: no permission", hint=elsewhere)
