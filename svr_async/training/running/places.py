"""What a training or a fit may write over, looked at before anything is computed or paid for."""

from __future__ import annotations

from pathlib import Path

import orjson

from svr_async.errors import UsageError


def keep_bank(out: Path, *traces: str) -> None:
    """Refuse, with UsageError, to replace the bank in `out` where none of this command's `traces` lies beside it."""
    bank = out / "bank"
    if (bank / "bank.json").exists() and not any((out / trace).exists() for trace in traces):
        raise UsageError(
            f"{bank} is a bank that another command made", hint="name another folder with --out, or remove it"
        )


def keep_training(out: Path, made_of: str) -> None:
    """Refuse, with UsageError, to go over a finished training of other pairs, settings or another judge in `out`.

    `made_of` is the digest of what this one is made of. A training without a record is not finished.
    """
    record = out / "record.json"
    try:
        held = orjson.loads(record.read_bytes())
        other = held["made_of"] != made_of
    except (OSError, ValueError, KeyError, TypeError):
        return
    if other:
        raise UsageError(
            f"{out} holds the finished bank of another training, of {held.get('pairs', 'other pairs')}",
            hint="name another folder with --out, or go over it with --replace",
        )
