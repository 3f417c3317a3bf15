"""Arguments that files, reports and logs can name: UTF-8."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from svr_async.errors import UsageError


def require_utf8(args: Sequence[str]) -> None:
    """Refuse an argument, or a working folder, that is not UTF-8 with a `UsageError`: no manifest could name it."""
    with suppress(FileNotFoundError):  # a working folder that is gone
        args = [*args, str(Path.cwd())]
    for one in args:
        if not one.isascii() and one != one.encode("utf-8", "replace").decode():
            raise UsageError(f"{one.encode('utf-8', 'backslashreplace').decode()} is not UTF-8; rename it")
