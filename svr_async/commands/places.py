"""Where a command writes, looked at before anything is computed or paid for."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from svr_async.errors import StorageError, UsageError
from svr_async.vocabulary.atomic import reason

ELSEWHERE = "choose another place with --out"
FACTS = {"data": "other pairs", "preset": "another preset", "ablate": "other ablations"}


def open_folder(out: Path) -> None:
    """Make the folder that a command writes to; StorageError where that, or a file in it, cannot be."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"cannot write to {out}: {reason(error)}", hint=ELSEWHERE) from error
    if not os.access(out, os.W_OK | os.X_OK):
        raise StorageError(f"cannot write to {out}: no permission", hint=ELSEWHERE)


def keep_bank(out: Path, *traces: str) -> None:
    """Refuse, with UsageError, to replace the bank in `out` where none of this command's `traces` lies beside it."""
    bank = out / "bank"
    if (bank / "bank.json").exists() and not any((out / trace).exists() for trace in traces):
        raise UsageError(
            f"{bank} is a bank that another command made", hint="name another folder with --out, or remove it"
        )


def keep_training(record: Path, facts: Mapping[str, Any]) -> None:
    """Refuse, with UsageError, to replace a finished training whose record differs from this one in any of `facts`.

    What a record of an older version lacks is not compared, and a record that cannot be read holds nothing back.
    """
    try:
        held = orjson.loads(record.read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return
    other = [
        FACTS.get(name, name)
        for name, value in facts.items()
        if isinstance(held, dict) and held.get(name, value) != value
    ]
    if other:
        raise UsageError(
            f"{record.parent} holds a bank that was trained with {' and '.join(other)}",
            hint="name another folder with --out, or remove it",
        )
