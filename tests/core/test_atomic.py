"""Files written whole, or not at all."""

import errno
from pathlib import Path
from typing import IO

import pytest

from svr_async.core.files import write_atomic, write_atomic_with
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
