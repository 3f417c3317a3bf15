"""JSON as endpoints send it: strict first; what only the strict reader refuses is read leniently, and made clean.

A reply with an escaped half of a surrogate pair, a NaN beside the answer, a byte-order mark, a raw control character
or a broken UTF-8 sequence has been paid for and says what it says. One that is cut off is never whole to either reader.
"""

from __future__ import annotations

import json
import math
from typing import Any

import orjson


def json_value(data: bytes) -> Any:
    """Return the value of a JSON text: texts can be written as UTF-8, numbers are finite; ValueError for no JSON."""
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        pass
    try:
        return _clean(json.loads(data.decode("utf-8-sig", "replace"), strict=False, parse_int=_whole))
    except RecursionError:
        raise ValueError("JSON that is nested too deep") from None


def _whole(digits: str) -> int | float:
    """Return a whole number, or the nearest other where it takes more than 64 bits, as the strict reader does."""
    return int(digits) if len(digits) < 19 else float(digits)


def clean_text(text: str) -> str:
    """Return a text that can be written as UTF-8."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, list):
        return [_clean(one) for one in value]
    if isinstance(value, dict):
        return {clean_text(name): _clean(one) for name, one in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value
