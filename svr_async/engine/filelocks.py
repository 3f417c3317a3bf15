"""Locks on ranges of bytes of a file, held by an open file and not by a process: the kernel frees them when it closes.

They need no daemon, no clean-up and no clock: a process that is killed has let go of its locks before its parent knows.
Two open files of one process exclude each other too. Linux has them (`F_OFD_SETLK`); SQLite relies on their like.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
from pathlib import Path

_FLOCK = struct.Struct("hhqqi4x")  # struct flock of 64-bit Linux: type, whence, start, length, pid
_HELD = {errno.EAGAIN, errno.EACCES}


def available() -> bool:
    """Whether this system has locks of open files."""
    return hasattr(fcntl, "F_OFD_SETLK") and struct.calcsize("P") == 8


class LockFile:
    """A file whose bytes can be locked. No call blocks; OSError where the file system has no locks."""

    def __init__(self, path: Path) -> None:
        self.handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)

    def take(self, start: int, length: int = 1, *, shared: bool = False) -> bool:
        """Lock a range; False where another open file holds a part of it. What is held already stays held."""
        kind = fcntl.F_RDLCK if shared else fcntl.F_WRLCK
        try:
            fcntl.fcntl(self.handle, fcntl.F_OFD_SETLK, _FLOCK.pack(kind, os.SEEK_SET, start, length, 0))
        except OSError as error:
            if error.errno in _HELD:
                return False
            if error.errno != errno.ENOLCK:  # no room for more locks: as if nobody else were there
                raise
        return True

    def free(self, start: int, length: int = 1) -> None:
        """Let go of a range; of one that is not held, nothing happens. A length of 0 means up to the end."""
        fcntl.fcntl(self.handle, fcntl.F_OFD_SETLK, _FLOCK.pack(fcntl.F_UNLCK, os.SEEK_SET, start, length, 0))

    def holder(self, start: int, length: int = 1) -> tuple[int, int] | None:
        """Return start and length of a lock that another open file has on a part of the range; None without one."""
        asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, start, length, 0)
        kind, _, first, size, _ = _FLOCK.unpack(fcntl.fcntl(self.handle, fcntl.F_OFD_GETLK, asked))
        return None if kind == fcntl.F_UNLCK else (first, size)

    def close(self) -> None:
        """Close the file, which frees all locks."""
        os.close(self.handle)
