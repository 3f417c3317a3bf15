"""What a tracker is handed, and what it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, TypeAlias

import orjson

from svr_async.core.verdict import is_number

Setting: TypeAlias = str | int | float | bool
PROJECT = "svr-async"
ENDS = ("low", "high")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tracked:
    """A run as a tracker is told of it, when it has ended.

    `labels` say what its numbers are not, as OFFLINE RULES or SIMULATED, and `note` says it in sentences. `settings`
    hold no keys. `metrics` are flat, with an interval's ends as NAME/low and NAME/high. `series` are numbers by step,
    as those of each round. `files` are paths of small files that may be kept with it.
    """

    kind: str
    name: str
    labels: Sequence[str] = ()
    note: str = ""
    settings: Mapping[str, Setting] = field(default_factory=dict)
    metrics: Mapping[str, float] = field(default_factory=dict)
    series: Sequence[tuple[int, Mapping[str, float]]] = ()
    files: Sequence[str] = ()

    def to_bytes(self) -> bytes:
        """Return it as JSON."""
        return orjson.dumps(asdict(self))

    @classmethod
    def from_bytes(cls, data: bytes) -> Tracked:
        """Read what `to_bytes` returned."""
        return cls(**orjson.loads(data))


Tracker: TypeAlias = Callable[[Tracked], str]
"""Keeps a run and returns where it is now: an address, a folder, or a name. It may raise anything."""


def flat_settings(values: Mapping[str, Any], prefix: str = "") -> dict[str, Setting]:
    """Return nested settings as one level of plain values, by names with slashes; those that are not set left out."""
    found: dict[str, Setting] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            found |= flat_settings(value, f"{prefix}{name}/")
        elif isinstance(value, list | tuple):
            found |= {f"{prefix}{name}": " ".join(map(str, value))} if value else {}
        elif value is not None and value != "":
            found[f"{prefix}{name}"] = value if isinstance(value, Setting) else str(value)
    return found


def flat_numbers(values: Mapping[str, Any], prefix: str = "") -> dict[str, float]:
    """Return the numbers among nested values by names with slashes; a list of two is an interval, low and high."""
    found: dict[str, float] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            found |= flat_numbers(value, f"{prefix}{name}/")
        elif isinstance(value, list | tuple) and len(value) == len(ENDS) and all(map(is_number, value)):
            found |= flat_numbers(dict(zip(ENDS, value, strict=True)), f"{prefix}{name}/")
        elif is_number(value):
            found[f"{prefix}{name}"] = float(value)
    return found
