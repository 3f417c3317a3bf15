"""Folders that are written to, looked at before anything is computed or paid for."""

from __future__ import annotations

import os
from pathlib import Path

from svr_async.errors import StorageError
from svr_async.vocabulary.atomic import reason


def open_folder(out: Path, flag: str = "--out") -> None:
    """Make the folder that a run writes to, which a flag names; StorageError where that, or a file in it, cannot be."""
    elsewhere = f"choose another place with {flag}"
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"cannot write to {out}: {reason(error)}", hint=elsewhere) from error
    if not os.access(out, os.W_OK | os.X_OK):
        raise StorageError(f"cannot write to {out}: no permission", hint=elsewhere)
