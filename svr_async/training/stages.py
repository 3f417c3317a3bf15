"""Stages on disk: what a stage computed, kept with a digest of what it was computed from.

A stage is a pure function of its inputs. When a run is started again, a stage whose inputs have the same digest is read
back instead of computed; one that was cut off left nothing behind, since its file appears whole or not at all.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from svr_async.errors import ArtefactError
from svr_async.vocabulary.atomic import write_atomic

Arrays = Mapping[str, NDArray[Any]]
MAX_ARRAY_BYTES = 8 * 2**30


def digest_of(*parts: Any) -> str:
    """Return a digest of values: texts, numbers, lists and dictionaries of them, bytes, arrays."""
    sha = hashlib.sha256()
    for part in parts:
        data = _bytes_of(part)
        sha.update(len(data).to_bytes(8, "big") + data)
    return sha.hexdigest()[:32]


def _bytes_of(part: Any) -> bytes:
    if isinstance(part, bytes):
        return part
    if isinstance(part, np.ndarray):
        return f"{part.dtype}{part.shape}".encode() + np.ascontiguousarray(part).tobytes()
    return orjson.dumps(part, option=orjson.OPT_SORT_KEYS, default=str)


@dataclass(frozen=True, slots=True)
class Stages:
    """The folder of a training run's stages."""

    folder: Path

    def load(self, name: str, digest: str) -> tuple[dict[str, Any], dict[str, NDArray[Any]]] | None:
        """Return values and arrays of a stage, or None where it was not computed from these inputs.

        ArtefactError where the files are damaged.
        """
        head = self.folder / f"{name}.json"
        if not head.exists():
            return None
        try:
            held = orjson.loads(head.read_bytes())
            if held["digest"] != digest:
                return None
            blob = (self.folder / f"{name}.npz").read_bytes() if held["arrays"] else b""
            if held["arrays"] and hashlib.sha256(blob).hexdigest() != held["arrays"]:
                return None  # the arrays of a run that was cut off between the two files
            return held["values"], _read_arrays(blob)
        except (orjson.JSONDecodeError, KeyError, TypeError, ValueError, OSError) as error:
            raise ArtefactError(
                f"the stage {head} cannot be read: {error}", hint="remove that file; the stage is computed again"
            ) from error

    def save(self, name: str, digest: str, values: Mapping[str, Any], arrays: Arrays | None = None) -> None:
        """Keep a stage; the arrays first, so that the head never speaks of arrays that are not there."""
        blob = _write_arrays(arrays) if arrays else b""
        if blob:
            write_atomic(self.folder / f"{name}.npz", blob)
        head = {"digest": digest, "arrays": hashlib.sha256(blob).hexdigest() if blob else "", "values": dict(values)}
        write_atomic(self.folder / f"{name}.json", orjson.dumps(head, option=orjson.OPT_SERIALIZE_NUMPY))


def _write_arrays(arrays: Arrays) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **dict(arrays))
    return buffer.getvalue()


def _read_arrays(blob: bytes) -> dict[str, NDArray[Any]]:
    if not blob:
        return {}
    with np.load(io.BytesIO(blob), allow_pickle=False) as held:
        return {name: held[name] for name in held.files}
