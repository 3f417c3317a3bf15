"""Selects, splits, names and writes pairs."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import orjson

from svr_async.core.files import is_special, write_atomic, write_lines
from svr_async.core.pair import PreferencePair
from svr_async.errors import UsageError


def usable(pair: PreferencePair) -> bool:
    """Whether a pair can be trained on: a preference between two different responses."""
    return pair.has_preference and pair.chosen != pair.rejected


def select_pairs(
    pairs: Sequence[PreferencePair], limit: str | None, domains: Sequence[str]
) -> Sequence[PreferencePair]:
    """Return the pairs of these domains, then the first N or A to B of them; UsageError if nothing is left."""
    if domains:
        wanted = {name.casefold() for name in domains}
        known = sorted({pair.domain for pair in pairs})
        unknown = wanted - {name.casefold() for name in known}
        if unknown:
            raise UsageError(f"unknown domain {min(unknown)!r}", hint=f"there are {', '.join(known)}")
        pairs = [pair for pair in pairs if pair.domain.casefold() in wanted]
    if limit:
        match = re.fullmatch(r"(?:(\d+)-)?(\d+)", limit)
        start, end = (int(match[1] or 1), int(match[2])) if match else (0, 0)
        if not 1 <= start <= end:
            raise UsageError(f"--limit {limit} is not a range", hint="write 100, or 101-200")
        pairs = pairs[start - 1 : end]
    if not pairs:
        raise UsageError(f"0 usable pairs are left after --limit {limit}", hint="widen --limit")
    return pairs


def check_output(out: Path, read: Iterable[Path] = ()) -> None:
    """Raise UsageError for a file that is not .jsonl or .jsonl.gz, or that overwrites one of the input files."""
    if not out.name.endswith((".jsonl", ".jsonl.gz")) and not is_special(out):
        raise UsageError(f"--out {out} is not a jsonl file", hint="name it .jsonl or .jsonl.gz")
    for path in read if out.exists() else ():
        if out.resolve().is_relative_to(path.resolve()):
            raise UsageError(f"--out {out} would overwrite {path}, which is read", hint="name another file")


def write_pairs(path: Path, pairs: Iterable[PreferencePair]) -> None:
    """Write pairs as JSONL in the layout that `pairs` reads, atomically; gzipped if the name ends in .gz."""
    write_rows(path, map(_row, pairs))


def write_rows(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    """Write rows of plain JSON values as JSONL, atomically; gzipped if the name ends in .gz."""
    lines = (orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for row in rows)
    if path.suffix == ".gz":
        write_atomic(path, gzip.compress(b"".join(lines), mtime=0))
    else:
        write_lines(path, lines)


def _row(pair: PreferencePair) -> dict[str, Any]:
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
