"""The folder DATA of the pages that tell of public sets: the first rows of each file of yours."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path

from pages import PUBLIC

ROWS = 12  # of a file


def a_little_of_it(folder: Path) -> Path:
    """Copy the folder that SVR_PUBLIC_DATA names with a few rows of each file; return where it is."""
    for file in (one for one in Path(PUBLIC).rglob("*") if one.is_file()):
        target = folder / file.relative_to(PUBLIC)
        target.parent.mkdir(parents=True, exist_ok=True)
        cut(file, target)
    return folder


def cut(file: Path, target: Path) -> None:
    """Copy the first rows of a JSON list or of lines, gzipped or not; anything else whole."""
    name, data = file.name.removesuffix(".gz"), file.read_bytes()
    packed = name != file.name
    text = (gzip.decompress(data) if packed else data).decode() if name.endswith((".json", ".jsonl")) else ""
    rows = json.loads(text) if name.endswith(".json") else text.splitlines()[:ROWS]
    if not rows or isinstance(rows, dict):
        shutil.copy(file, target)
        return
    short = json.dumps(rows[:ROWS]) if name.endswith(".json") else "\n".join(rows) + "\n"
    target.write_bytes(gzip.compress(short.encode()) if packed else short.encode())
