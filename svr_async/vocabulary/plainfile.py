"""Small files that a person names, read whole: a pipe has no end, a device may have none, and a cap bounds the rest."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

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
