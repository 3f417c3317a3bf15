"""Texts that are given on the command line: as they stand, or from a file."""

from __future__ import annotations

from pathlib import Path

from svr_async.core.files import read_plain
from svr_async.errors import UsageError

FROM_FILE = "@"


def text_of(flag: str, value: str) -> str:
    """Return a text as given, or that of the file after an `@`; `@@` begins a text that begins with one `@`."""
    if not value.startswith(FROM_FILE):
        return value
    if value.startswith(2 * FROM_FILE):
        return value[1:]
    try:
        return read_plain(Path(value[1:])).decode("utf-8")
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise UsageError(
            f"cannot read {flag} {value}: {why}", hint="@FILE reads a text from a file; @@ begins a text with an @"
        ) from error
