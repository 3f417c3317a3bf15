"""Events as flat records of plain values, for logs: their names, fields and levels are the log's schema."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any

from svr_async.engine.events import AttemptEnded, CallEnded, Event, RetryPlanned, Snapshot

PER_CALL = (CallEnded, RetryPlanned)
NEVER = (AttemptEnded,)  # events without a line: those of the call and of its retries tell as much
DRY_RUN = "planned_"  # facts of a dry run, which sends nothing
DIGITS = 6  # decimal places of seconds and dollars
MOST_CHARS = 500  # longest text, which may come from an endpoint


def wanted(event: Event, level: str) -> bool:
    """Whether a log of this level has a line for the event."""
    return not isinstance(event, NEVER) and (level == "call" or not isinstance(event, PER_CALL))


def name_of(event: Event) -> str:
    """Return the event's name in the log, e.g. `call_ended`."""
    return _snake(type(event).__name__)


@cache
def _snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def record_of(event: Event) -> dict[str, Any]:
    """Return the event's name and fields; the facts of a snapshot lie flat, those of its lanes in a list."""
    values = _plain(event)
    if isinstance(event, Snapshot):
        facts = values.pop("stats")
        values |= {name: value for name, value in facts.items() if not name.startswith(DRY_RUN)}
    return {"event": name_of(event), **values}


def _plain(value: Any) -> Any:
    """Return a value as JSON has it; the commonest kinds first, since a log of calls does this for each."""
    kind = type(value)
    if kind is int or kind is bool or value is None:
        return value
    if kind is str:
        return _capped(value if value.isascii() else value.encode("utf-8", "replace").decode())
    if kind is float:
        return round(value, DIGITS)
    if is_dataclass(kind):
        return {name: _plain(getattr(value, name)) for name in _fields_of(kind)}
    if isinstance(value, Mapping):
        return {str(name): _plain(one) for name, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, list | tuple) else value


@cache
def _fields_of(kind: type[Any]) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))


def _capped(text: str) -> str:
    return text if len(text) <= MOST_CHARS else text[: MOST_CHARS - 1] + "…"
