"""What a log of single calls says of one call: how long it took, how many attempts, and how it ended."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from svr_async.engine.events import KEY_CHARS
from svr_async.errors import UsageError

HOW = "--log-json FILE --log-level call writes one"


def calls_in_log(path: Path, key: str) -> tuple[dict[str, Any], ...]:
    """Return the `call_ended` lines of a call, in order; UsageError for a file that cannot be read.

    Lines that are torn or of another kind are passed over.
    """
    try:
        return tuple(_ended(path, key[:KEY_CHARS]))
    except OSError as error:
        raise UsageError(f"cannot read --log {path}: {error.strerror}", hint=HOW) from error


def _ended(path: Path, key: str) -> Iterator[dict[str, Any]]:
    with path.open("rb") as file:
        for line in file:
            if key.encode() not in line:
                continue
            try:
                value = orjson.loads(line)
            except orjson.JSONDecodeError:
                continue
            if isinstance(value, dict) and (value.get("event"), value.get("key")) == ("call_ended", key):
                yield value
