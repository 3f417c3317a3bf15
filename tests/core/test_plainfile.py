"""Files that a person names: a pipe, a device, a folder and a file that is too large are told at once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from rig import svr_here

from svr_async.core.files import read_plain


def test_a_plain_file_is_read_whole_up_to_the_cap(tmp_path: Path) -> None:
    """What fits is returned, a byte more is refused."""
    path = tmp_path / "a.txt"
    path.write_bytes(b"12345")
    assert read_plain(path, 5) == b"12345"
    with pytest.raises(OSError, match="more than 4 bytes"):
        read_plain(path, 4)


def test_what_is_no_plain_file_is_refused_without_waiting(tmp_path: Path) -> None:
    """A pipe that nobody writes to, a device without end, a folder; and a link where none may be."""
    pipe, link, target = tmp_path / "pipe", tmp_path / "link", tmp_path / "target"
    os.mkfifo(pipe)
    target.write_text("x")
    link.symlink_to(target)
    for path in (pipe, Path("/dev/zero")):
        with pytest.raises(OSError, match="no plain file"):
            read_plain(path)
    with pytest.raises(IsADirectoryError):
        read_plain(tmp_path)
    assert read_plain(link) == b"x"
    with pytest.raises(OSError, match="symbolic links"):
        read_plain(link, follow=False)


@pytest.mark.parametrize("flag", ["--config", "--rubrics", "--prompts"])
@pytest.mark.parametrize("given", ["pipe", "/dev/zero"])
def test_a_flag_that_names_one_ends_in_a_line(
    flag: str, given: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No command waits for a pipe or reads a device to its end."""
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    judge = "rules" if flag != "--prompts" else "http://127.0.0.1:9/v1#m"
    assert svr_here("eval", "sample", "--judge", judge, flag, given, "--out", "run") == 2
    told = capsys.readouterr().err
    assert "Traceback" not in told
    assert given in told
