"""Reads of files that a person names."""

from __future__ import annotations

from pathlib import Path

import pytest

from svr_async.core.files import read_plain


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
