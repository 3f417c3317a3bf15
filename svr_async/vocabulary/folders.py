"""Folders that are written to, looked at before anything is computed or paid for."""

from __future__ import annotations

import os
from pathlib import Path

from svr_async.errors import StorageError
from svr_async.vocabulary.atomic import reason

ELSEWHERE = "choose another place with --out"


def open_folder(out: Path) -> None:
    """Make the folder that a run writes to; StorageError where that, or a file in it, cannot be."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"cannot write to {out}: {reason(error)}", hint=ELSEWHERE) from error
    if not os.access(out, os.W_OK | os.X_OK):
        raise StorageError(f"cannot write to {out}: no permission", hint=ELSEWHERE)
