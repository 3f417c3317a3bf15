"""Reading a list of rubrics from a file (`--rubrics FILE`): plain text, JSON or JSON Lines."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from svr_async.core.files import read_plain
from svr_async.core.rubric import MAX_RUBRIC_CHARS, Check, Rubric, split_rubrics
from svr_async.core.verdict import is_number
from svr_async.errors import ConfigError

TEXTS = ("text", "rubric", "criterion", "description")
WEIGHTS = ("weight", "points")


def load_rubric_file(path: Path) -> tuple[tuple[tuple[Rubric, float], ...], bool]:
    """Return (rubric, weight) from a file, and whether the weights are points; ConfigError names a wrong entry.

    `.txt` or `.md`: one rubric a line. `.json`: a list. `.jsonl`: one entry a line. An entry is a text, or an object
    with `text` (or `rubric`, `criterion`, `description`) and optionally `weight` or `points` (default 1), `facet`,
    `importance`, `check`. Weights are points where an entry says `points`, or where one is negative.
    """
    try:
        data = read_plain(path)
    except OSError as error:
        raise ConfigError(f"cannot read the rubrics {path}: {error.strerror}") from error
    found: dict[str, tuple[Rubric, float]] = {}
    entries = _entries(path, data)
    for where, entry in entries:
        rubric, weight = _read(entry, where)
        found.setdefault(rubric.id, (rubric, weight))
    if not found:
        raise ConfigError(f"{path} holds no rubrics", hint="write one a line")
    named = any(isinstance(entry, Mapping) and "points" in entry for _, entry in entries)
    return tuple(found.values()), named or any(weight < 0 for _, weight in found.values())


def _entries(path: Path, data: bytes) -> list[tuple[str, Any]]:
    text = data.decode("utf-8-sig", "replace")
    if path.suffix == ".jsonl":
        lines = enumerate(text.splitlines(), 1)
        return [(f"{path} line {n}", _json(line, f"{path} line {n}")) for n, line in lines if line.strip()]
    if path.suffix == ".json":
        value = _json(text, str(path))
        if not isinstance(value, list):
            raise ConfigError(f"{path} is not a list of rubrics", hint='write ["…", "…"]')
        return [(f"{path} entry {n}", entry) for n, entry in enumerate(value, 1)]
    lines_ = (line for line in split_rubrics(text) if not line.startswith("#"))
    return [(f"{path} rubric {n}", line) for n, line in enumerate(lines_, 1)]


def _json(text: str, where: str) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise ConfigError(f"{where} is not JSON: {error}") from error


def _read(entry: Any, where: str) -> tuple[Rubric, float]:
    if isinstance(entry, str):
        entry = {"text": entry}
    if not isinstance(entry, Mapping):
        raise ConfigError(f"{where} is {type(entry).__name__}, not a text or an object")
    text = next((entry[name] for name in TEXTS if name in entry), None)
    weight = next((entry[name] for name in WEIGHTS if name in entry), 1.0)
    if not isinstance(text, str) or not text.strip() or len(text) > MAX_RUBRIC_CHARS:
        raise ConfigError(f"{where} needs a text of 1 to {MAX_RUBRIC_CHARS} characters")
    if not is_number(weight) or not math.isfinite(weight):
        raise ConfigError(f"{where} has the weight {weight!r}", hint="write a number")
    check = _check(entry.get("check"), where)
    texts = {name: str(entry.get(name) or "") for name in ("facet", "importance", "grounding")}
    return Rubric(text=" ".join(text.split()), check=check, **texts), float(weight)


def _check(value: Any, where: str) -> Check | None:
    if value is None:
        return None
    try:
        return Check.from_json(value)
    except (ValueError, AttributeError) as error:
        raise ConfigError(f"{where} has a bad check: {error}") from error
