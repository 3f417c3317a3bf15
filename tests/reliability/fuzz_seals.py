"""Digests put right after a file was damaged, as somebody who means harm would do: what they guard is then read."""

from __future__ import annotations

import hashlib
import json
import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import orjson
from fuzz_mutation import broken_json

from svr_async.engine.cache_disk import pack, unpack


def reseal(folder: Path) -> None:
    """Put every digest right that a JSON file below a folder gives of a file beside it, and those of stages."""
    for path in sorted(folder.rglob("*.json")):
        with suppress(Exception):  # what is no JSON any more has nothing to put right
            value = json.loads(path.read_bytes())
            if isinstance(value, dict) and set(value) == {"sha256", "stage"}:
                _seal_stage(path, value["stage"])
            elif sum(_sealed(one, path.parent) for one in _objects(value)):  # each of them
                path.write_bytes(orjson.dumps(value, option=orjson.OPT_INDENT_2))


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
    for one in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _objects(one)


def _sealed(entry: dict[str, Any], folder: Path) -> bool:
    """Put right {file or name, bytes, sha256}, {name: {bytes, sha256}} and {name: digest}."""
    done = False
    own = entry.get("file", entry.get("name"))
    if "sha256" in entry and isinstance(own, str) and (folder / own).is_file():
        entry |= _facts(folder / own)
        done = True
    for name, held in entry.items():
        if isinstance(name, str) and "/" not in name and (folder / name).is_file():
            facts = _facts(folder / name)
            entry[name] = facts if isinstance(held, dict) else facts["sha256"]
            done = True
    return done


def _facts(path: Path) -> dict[str, Any]:
    data = path.read_bytes()
    return {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def _seal_stage(path: Path, stage: dict[str, Any]) -> None:
    arrays = path.with_suffix(".npz")
    if stage.get("arrays") and arrays.exists():
        stage["arrays"] = _facts(arrays)["sha256"]
    body = orjson.dumps(stage)
    path.write_bytes(orjson.dumps({"sha256": hashlib.sha256(body).hexdigest(), "stage": orjson.Fragment(body)}))


def broken_rows(cache: Path, seed: int) -> None:
    """Change what replies of a cache say, each with the digest that goes with it."""
    rng = random.Random(seed)
    with suppress(sqlite3.Error), closing(sqlite3.connect(cache / "cache.db")) as db, db:
        for key, row in db.execute("SELECT key, value FROM Cache").fetchall():
            payload = unpack(key, row) if rng.random() < 0.7 else None
            if payload is not None:
                with suppress(Exception):
                    changed = pack(key, broken_json(payload, rng))
                    db.execute("UPDATE Cache SET value = ? WHERE key = ?", (changed, key))
