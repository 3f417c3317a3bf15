"""The reasons of a run, in a columnar file beside its items: `reasons.json.gz`, a place for each text.

An object of columns, `item` and the fields of `Reason`, each a list of as many texts, in the order of the items:
`pandas.read_json` and `polars` read it as it is. No Parquet, since a reader of it would be loaded by every evaluation.
It is made of the replies as a whole, so that a run that was killed and gone on with has the file of one that was not.
"""

from __future__ import annotations

import gzip
import zlib
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import orjson

from svr_async.core.files import reason, write_atomic
from svr_async.errors import ArtefactError, StorageError
from svr_async.evaluation.items import Item, Reason

FILE = "reasons.json.gz"
COLUMNS = ("item", "rubric", "shown", "judge", "text")


def write_reasons(folder: Path, items: Sequence[Item]) -> None:
    """Write the reasons of these items into a run folder, whole; without any there is no file. StorageError."""
    path = folder / FILE
    if any(item.reasons for item in items):
        packed = gzip.compress(orjson.dumps(_columns(items)), 5, mtime=0)
        write_atomic(path, packed)
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


def _columns(items: Sequence[Item]) -> dict[str, list[str]]:
    rows = [(item.id, one) for item in items for one in item.reasons]
    return {name: [key if name == "item" else getattr(one, name) for key, one in rows] for name in COLUMNS}


def _read(path: Path, ids: Collection[str]) -> Mapping[str, list[Reason]]:
    found: dict[str, list[Reason]] = defaultdict(list)
    try:
        columns = orjson.loads(gzip.decompress(path.read_bytes()))
        for item, *texts in zip(*(columns[name] for name in COLUMNS), strict=True):
            if item in ids:
                found[item].append(Reason(**dict(zip(COLUMNS[1:], map(str, texts), strict=True))))
    except (OSError, EOFError, zlib.error, ValueError, TypeError, KeyError) as error:
        said = " ".join(str(error).split())[:200]
        hint = "run svr eval again; what was judged is in the cache"
        raise ArtefactError(f"{path}: not the reasons of a run ({said})", hint=hint) from error
    return found
