"""Pairs in a jsonl file that says all of them in one way, which `pairs` reads back."""

from __future__ import annotations

import gzip
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import orjson

from svr_async.core.files import write_atomic, write_lines
from svr_async.core.pair import PreferencePair
from svr_async.errors import UsageError


def refuse_other_names(out: Path) -> None:
    """Raise UsageError for a file that is not named as one of jsonl."""
    if not out.name.endswith((".jsonl", ".jsonl.gz")):
        raise UsageError(f"--out {out} is no jsonl file", hint="name it .jsonl or .jsonl.gz")


def refuse_to_overwrite(out: Path, read: Iterable[Path]) -> None:
    """Raise UsageError where the file to write is one of those that are read, or is there in a folder of them."""
    for path in read if out.exists() else ():
        if out.resolve().is_relative_to(path.resolve()):
            raise UsageError(f"--out {out} would write over {path}, which is read", hint="name another file")


def write_pairs(path: Path, pairs: Iterable[PreferencePair]) -> None:
    """Write pairs, whole or not at all; packed where the name ends in .gz."""
    write_rows(path, map(_row, pairs))


def write_rows(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    """Write rows of plain JSON values, one a line, whole or not at all; packed where the name ends in .gz."""
    lines = (orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for row in rows)
    if path.suffix == ".gz":
        write_atomic(path, gzip.compress(b"".join(lines), mtime=0))
    else:
        write_lines(path, lines)


def _row(pair: PreferencePair) -> dict[str, Any]:
    """Return a pair as a row in the form that `pairs` reads; what it has not is left out."""
    row = {
        "id": pair.id,
        "prompt": [{"role": turn.role, "content": turn.content} for turn in pair.prompt],
        "response_a": pair.response_a,
        "response_b": pair.response_b,
        "label": pair.gold.value if pair.gold else "tie",
        "domain": pair.domain,
        "subset": pair.subset,
    }
    rubrics = [text if points is None else {"text": text, "points": points} for text, points in pair.human_rubrics]
    more = {"strength": pair.strength, "rubrics": rubrics or None, "source": pair.source or None}
    return row | {name: value for name, value in more.items() if value is not None}
