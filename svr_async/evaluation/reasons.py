"""The reasons of a run, in a columnar file beside its items: `reasons.json.gz`, a place for each text.

An object of columns, `item` and the fields of `Reason`, each a list of as many texts, in the order of the items:
`pandas.read_json` and `polars` read it as it is. No Parquet, since a reader of it would be loaded by every evaluation.
It is made of the replies as a whole, so that a run that was killed and gone on with has the file of one that was not.
"""

from __future__ import annotations

import gzip
import zlib
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

import orjson

from svr_async.errors import ArtefactError, StorageError
from svr_async.evaluation.items import Item, Reason
from svr_async.vocabulary.atomic import reason, write_atomic_with

FILE = "reasons.json.gz"
COLUMNS = ("item", "rubric", "shown", "judge", "text")
MOST_BYTES = 1 << 30  # read of a file, unpacked
_GZIP = 16 + zlib.MAX_WBITS  # has zlib write gzip's header, without a time, and its trailer


def write_reasons(folder: Path, items: Sequence[Item]) -> None:
    """Write the reasons of these items into a run folder, whole; without any there is no file. StorageError."""
    path = folder / FILE
    if any(item.reasons for item in items):
        write_atomic_with(path, lambda file: _write(file, items))
        return
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise StorageError(f"cannot remove {path}: {reason(error)}", hint="choose another place with --out") from error


def with_reasons(folder: Path, items: Sequence[Item]) -> tuple[Item, ...]:
    """Return items read from a run folder with the reasons that it keeps of them; ArtefactError for a garbled file."""
    path = folder / FILE
    found = _read(path, {item.id for item in items}) if items and path.exists() else {}
    return tuple(replace(item, reasons=tuple(found.get(item.id, ()))) for item in items)


def _write(file: BinaryIO, items: Sequence[Item]) -> None:
    """Write the reasons of an item at a time, so that those of a large run are nowhere together."""
    packer = zlib.compressobj(5, wbits=_GZIP)
    file.writelines(packer.compress(part) for part in _json_parts(items))
    file.write(packer.flush())


def _json_parts(items: Sequence[Item]) -> Iterator[bytes]:
    """Yield the JSON of the columns, as orjson writes it."""
    for number, name in enumerate(COLUMNS):
        yield b'%s"%s":[' % (b"," if number else b"{", name.encode())
        comma = b""
        for item in items:
            if told := [item.id if name == "item" else getattr(one, name) for one in item.reasons]:
                yield comma + orjson.dumps(told)[1:-1]
                comma = b","
        yield b"]"
    yield b"}"


def _read(path: Path, ids: Collection[str]) -> Mapping[str, list[Reason]]:
    found: dict[str, list[Reason]] = defaultdict(list)
    try:
        columns = orjson.loads(_unpacked(path))
        for item, *texts in zip(*(columns[name] for name in COLUMNS), strict=True):
            if item in ids:
                found[item].append(Reason(**dict(zip(COLUMNS[1:], map(str, texts), strict=True))))
    except (OSError, EOFError, zlib.error, ValueError, TypeError, KeyError) as error:
        said = " ".join(str(error).split())[:200]
        hint = "run svr eval again; what was judged is in the cache"
        raise ArtefactError(f"{path}: not the reasons of a run ({said})", hint=hint) from error
    return found


def _unpacked(path: Path) -> bytes:
    """Return what a file holds; ValueError where it would fill the memory."""
    with gzip.open(path) as file:
        data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise ValueError(f"it unpacks to more than {MOST_BYTES:,} bytes")
    return data
