"""Reading a list of rubrics from a file (`--rubrics FILE`): plain text, JSON or JSON Lines."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec

from svr_async.core.files import read_plain
from svr_async.core.rubric import MAX_RUBRIC_CHARS, Check, Rubric, split_rubrics
from svr_async.errors import ConfigError

TEXTS = ("text", "rubric", "criterion", "description")
WEIGHTS = ("weight", "points")


class _Entry(msgspec.Struct):
    """A rubric in a file, by the first names of TEXTS and WEIGHTS."""

    text: Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_RUBRIC_CHARS)]
    weight: Annotated[float, msgspec.Meta(ge=-1e300, le=1e300)] = 1.0
    facet: str | None = None
    importance: str | None = None
    grounding: str | None = None
    check: dict[str, Any] | None = None


def load_rubric_file(path: Path) -> tuple[tuple[tuple[Rubric, float], ...], bool]:
    """Return (rubric, weight) from a file, and whether the weights are points; ConfigError names a wrong entry.

    `.txt` or `.md`: one rubric a line. `.json`: a list. `.jsonl`: one entry a line. An entry is a text, or an object
    with `text` (or `rubric`, `criterion`, `description`) and optionally `weight` or `points` (default 1), `facet`,
    `importance`, `check`. Weights are points where an entry says `points`, or where one is negative.
    """
    try:
        text = read_plain(path).decode("utf-8-sig", "replace")
    except OSError as error:
        raise ConfigError(f"cannot read the rubrics {path}: {error.strerror}") from error
    found: dict[str, tuple[Rubric, float]] = {}
    named = False
    for number, entry in enumerate(_entries(path, text), 1):
        try:
            value = msgspec.json.decode(entry) if isinstance(entry, bytes) else entry
            rubric, weight = read_rubric(value)
        except ValueError as error:
            raise ConfigError(f"{path}: rubric {number}: {error}") from error
        found.setdefault(rubric.id, (rubric, weight))
        named = named or (isinstance(value, Mapping) and "points" in value)
    if not found:
        raise ConfigError(f"{path} holds no rubrics", hint="write one a line")
    return tuple(found.values()), named or any(weight < 0 for _, weight in found.values())


def _entries(path: Path, text: str) -> list[Any]:
    if path.suffix == ".jsonl":
        return [line.encode() for line in text.splitlines() if line.strip()]
    if path.suffix == ".json":
        try:
            return msgspec.json.decode(text, type=list[Any])
        except msgspec.DecodeError as error:
            raise ConfigError(f"{path} is not a list of rubrics: {error}", hint='write ["…", "…"]') from error
    return [line for line in split_rubrics(text) if not line.startswith("#")]


def read_rubric(entry: Any) -> tuple[Rubric, float]:
    """Return a rubric and its weight from a text or an object of a rubric file; ValueError for other values."""
    given = {"text": entry} if isinstance(entry, str) else entry
    if isinstance(given, Mapping):
        named = {"text": TEXTS, "weight": WEIGHTS}
        first = {
            name: next((given[one] for one in names if given.get(one) is not None), None)
            for name, names in named.items()
        }
        given = {**given, **{name: value for name, value in first.items() if value is not None}}
    one = msgspec.convert(given, _Entry)
    check = None if one.check is None else Check.from_json(one.check)
    labels = {"facet": one.facet or "", "importance": one.importance or "", "grounding": one.grounding or ""}
    return Rubric(text=" ".join(one.text.split()), check=check, **labels), one.weight
