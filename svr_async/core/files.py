"""Files and folders: atomic writes, capped reads, errors in one line; and addresses of servers."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import BinaryIO
from urllib.parse import urlsplit

from svr_async.errors import StorageError, UsageError

ELSEWHERE = "choose another place with --out"
MOST_BYTES = 64 << 20  # of a file that is written by hand
LOOPBACK = ("127.0.0.1", "::1", "localhost")


def write_atomic(path: str | os.PathLike[str], data: bytes, *, hint: str = ELSEWHERE) -> None:
    """Write a whole file: a temporary in the same folder, fsync, rename, fsync of the folder.

    Readers see the old content or the new, never a part. Missing folders are made. On any failure (no space, no
    permission …) StorageError is raised and the old file stays; `hint` says what to do unless the disk is full.
    """
    write_atomic_with(path, lambda file: file.write(data), hint=hint)


def write_lines(path: str | os.PathLike[str], lines: Iterable[bytes], *, hint: str = ELSEWHERE) -> None:
    """Do the same as `write_atomic` for lines that are made one by one, so that memory does not grow."""
    write_atomic_with(path, lambda file: file.writelines(lines), hint=hint)


def write_atomic_with(
    path: str | os.PathLike[str], write: Callable[[BinaryIO], object], *, hint: str = ELSEWHERE
) -> None:
    """Do the same as `write_atomic` for large content, which `write` writes to the open temporary."""
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


def read_plain(path: Path, most: int = MOST_BYTES) -> bytes:
    """Return the bytes of a file; OSError with its reason in `strerror` if it has more than `most`."""
    with path.open("rb") as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise OSError(errno.EFBIG, f"it has more than {most:,} bytes", str(path))
    return data


def require_utf8(args: Sequence[str]) -> None:
    """Raise UsageError for an argument or working folder that is not UTF-8: a manifest could not name it."""
    with contextlib.suppress(FileNotFoundError):  # the working folder was deleted
        args = [*args, str(Path.cwd())]
    for arg in args:
        if not arg.isascii() and arg != arg.encode("utf-8", "replace").decode():
            raise UsageError(f"{arg.encode('utf-8', 'backslashreplace').decode()} is not UTF-8; rename it")


def host_of(address: str) -> str:
    """Return the host of an address; "" if it has no host or is invalid."""
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
    """Make the folder that a run writes to; `flag` names it. StorageError if it cannot be made or written to."""
    hint = f"choose another place with {flag}"
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"cannot write to {out}: {reason(error)}", hint=hint) from error
    if not os.access(out, os.W_OK | os.X_OK):
        raise StorageError(f"cannot write to {out}: no permission", hint=hint)
