"""Files are written whole or not at all, and read up to a size."""

import errno
import os
import subprocess
import sys
from pathlib import Path
from typing import IO

import pytest

from svr_async.core.files import read_plain, write_atomic, write_atomic_with
from svr_async.errors import StorageError


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    """Where writing fails half way, the old content stays, the temporary is gone and the error is one line."""
    target = tmp_path / "file"
    write_atomic(target, b"old")

    def run_out_of_space(file: IO[bytes]) -> None:
        file.write(b"new")
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(StorageError, match="No space left on device") as caught:
        write_atomic_with(target, run_out_of_space)
    assert caught.value.hint.startswith("free some space")
    assert target.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [target]


def test_a_file_is_read_whole_up_to_the_cap(tmp_path: Path) -> None:
    """A file within the cap is returned, one more byte is refused; so is an endless device."""
    path = tmp_path / "a.txt"
    path.write_bytes(b"12345")
    assert read_plain(path, 5) == b"12345"
    for large in (path, Path("/dev/zero")):
        with pytest.raises(OSError, match="more than 4 bytes"):
            read_plain(large, 4)
    with pytest.raises(IsADirectoryError):
        read_plain(tmp_path)


def test_fifos_and_devices_are_written_into_and_stay(tmp_path: Path) -> None:
    """Neither a FIFO nor /dev/stdout is replaced by a file."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    write_atomic(fifo, b"whole")
    assert os.read(reader, 99) == b"whole"
    os.close(reader)
    assert fifo.is_fifo()
    code = "from svr_async.core.files import write_atomic; write_atomic('/dev/stdout', b'bytes')"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout == b"bytes"
    assert Path("/dev/stdout").is_symlink()
