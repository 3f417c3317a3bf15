"""Files written whole: readers see the old content or the new, never a part."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import BinaryIO

from svr_async.errors import StorageError


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
