"""Files written whole, or not at all."""

import errno
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

from svr_async.core.files import write_atomic, write_atomic_with, write_lines
from svr_async.errors import StorageError


def test_missing_folders_are_made_and_nothing_is_left_beside(tmp_path: Path) -> None:
    """A file appears with its content, in folders that were not there, without a temporary beside it."""
    target = tmp_path / "a" / "b" / "file.bin"
    write_atomic(target, b"content")
    assert target.read_bytes() == b"content"
    assert list(target.parent.iterdir()) == [target]


def test_lines_are_held_one_at_a_time(tmp_path: Path) -> None:
    """Each is written before the next is made; all of them are there in the end, or none."""
    alive = 0

    class Line(bytes):
        def __del__(self) -> None:
            nonlocal alive
            alive -= 1

    def lines() -> Iterator[bytes]:
        nonlocal alive
        for number in range(100):
            alive += 1
            assert alive <= 3
            yield Line(b"%d\n" % number)

    write_lines(tmp_path / "file", lines())
    assert (tmp_path / "file").read_bytes() == b"".join(b"%d\n" % number for number in range(100))


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


def test_devices_and_fifos_are_written_into_and_stay(tmp_path: Path) -> None:
    """A FIFO gets the bytes, /dev/stdout too, and neither is replaced by a file."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    write_atomic(fifo, b"whole")
    assert os.read(reader, 99) == b"whole"
    os.close(reader)
    assert stat.S_ISFIFO(fifo.stat().st_mode)
    code = "from svr_async.core.files import write_atomic; write_atomic('/dev/stdout', b'told')"
    with (tmp_path / "out").open("wb") as out:
        subprocess.run([sys.executable, "-c", code], stdout=out, check=True)
    assert (tmp_path / "out").read_bytes() == b"told"
    assert Path("/dev/stdout").is_symlink()
