"""Stages on disk: what a stage computed, kept with a digest of what it was computed from.

A stage is a pure function of its inputs. When a run is started again, a stage whose inputs have the same digest is read
back instead of computed; one that was cut off left nothing behind, since its file appears whole or not at all. Every
byte is under a checksum, so a file that was damaged is refused rather than read as something else.
"""

from __future__ import annotations

import hashlib
import io
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import orjson
from numpy.typing import NDArray

from svr_async.core.files import reason, write_atomic
from svr_async.core.validation import has_type
from svr_async.errors import ArtefactError
from svr_async.training.rounds.answers import unanswered
from svr_async.version import __version__

Arrays = Mapping[str, NDArray[Any]]
T = TypeVar("T")
FORMAT = 2
OUTCOMES = "outcomes"  # of a stage's questions, among its values
HEAD = {
    "format": int, "version": str, "digest": str, "marks": list[str], "arrays": str, "values": dict,
}  # fmt: skip
REMOVE = "remove that file; the stage is computed again, without a call where the cache has the replies"


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
    """The folder of a training run's stages.

    `marks` are the fingerprints of the systems that answered; they are kept with each stage and read back with it, so
    that a bank says who judged for it even where no call was needed any more. `outcomes` are those of the questions of
    each stage that was read or kept. With `retry` a stage with questions that have no answer is computed again.
    """

    folder: Path
    marks: set[str] = field(default_factory=set)
    outcomes: dict[str, dict[str, int]] = field(default_factory=dict)
    retry: bool = False

    def load(self, name: str, digest: str, read: Callable[[Any, Arrays], T]) -> T | None:
        """Return `read(values, arrays)` of a stage, or None where it was not computed from these inputs.

        A stage that another version of this package wrote is computed again too. ArtefactError where a file is damaged.
        """
        path = self.folder / f"{name}.json"
        head = _read_head(path) if path.exists() else None
        if head is None or (head["format"], head["version"], head["digest"]) != (FORMAT, __version__, digest):
            return None
        if self.retry and unanswered(head["values"].get(OUTCOMES, {})):
            return None
        arrays = _read_arrays(path.with_suffix(".npz"), head["arrays"]) if head["arrays"] else {}
        try:
            found = read(head["values"], arrays)
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            what = f"{type(error).__name__} {' '.join(str(error).split())[:120]}"
            raise ArtefactError(f"the stage {path} does not hold what it should: {what}", hint=REMOVE) from error
        self.marks.update(head["marks"])
        self._note(name, head["values"])
        return found

    def save(self, name: str, digest: str, values: Mapping[str, Any], arrays: Arrays | None = None) -> None:
        """Keep a stage; the arrays first, so that the head never speaks of arrays that are not there."""
        blob = _write_arrays(arrays) if arrays else b""
        path = self.folder / f"{name}.json"
        if blob:
            write_atomic(path.with_suffix(".npz"), blob)
        head = {"format": FORMAT, "version": __version__, "digest": digest, "marks": sorted(self.marks)}
        write_atomic(path, _sealed({**head, "arrays": _sha256(blob) if blob else "", "values": dict(values)}))
        self._note(name, values)

    def _note(self, name: str, values: Mapping[str, Any]) -> None:
        if values.get(OUTCOMES):
            self.outcomes[name] = dict(values[OUTCOMES])


def _sealed(head: Mapping[str, Any]) -> bytes:
    """Return a head as JSON with its checksum in front; the same head gives the same bytes."""
    body = orjson.dumps(head, option=orjson.OPT_SERIALIZE_NUMPY)
    return orjson.dumps({"sha256": _sha256(body), "stage": orjson.Fragment(body)})


def _is_sealed(data: bytes, stage: Mapping[str, Any]) -> bool:
    try:
        return data == _sealed(stage)
    except TypeError:  # nested deeper than is ever written
        return False


def _read_head(path: Path) -> dict[str, Any]:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ArtefactError(f"the stage {path} cannot be read: {reason(error)}", hint=REMOVE) from error
    try:
        held = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise ArtefactError(f"the stage {path} is damaged: it is not JSON ({error})", hint=REMOVE) from error
    stage = held.get("stage") if isinstance(held, dict) else None
    if not isinstance(stage, dict) or not _is_sealed(data, stage):
        raise ArtefactError(f"the stage {path} is damaged: it does not match its checksum", hint=REMOVE)
    if not all(has_type(stage.get(name), kind) for name, kind in HEAD.items()) or not _counts_fit(stage["values"]):
        raise ArtefactError(f"the stage {path} is damaged: its head is none", hint=REMOVE)
    return stage


def _counts_fit(values: Mapping[str, Any]) -> bool:
    return has_type(values.get(OUTCOMES) or {}, Mapping[str, int])


def _write_arrays(arrays: Arrays) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **dict(arrays))
    return buffer.getvalue()


def _read_arrays(path: Path, sha256: str) -> dict[str, NDArray[Any]]:
    hint = f"remove {path.with_suffix('.json')} and that file; the stage is computed again"
    try:
        blob = path.read_bytes()
    except OSError as error:
        raise ArtefactError(f"the arrays {path} of a stage cannot be read: {reason(error)}", hint=hint) from error
    if _sha256(blob) != sha256:
        raise ArtefactError(f"the arrays {path} of a stage are damaged: they do not match their checksum", hint=hint)
    try:
        with warnings.catch_warnings(action="ignore"), np.load(io.BytesIO(blob), allow_pickle=False) as held:
            return {name: held[name] for name in held.files}
    except Exception as error:  # of zipfile, zlib, NumPy's headers and the parser that it reads them with
        raise ArtefactError(
            f"the arrays {path} of a stage cannot be read: {type(error).__name__}", hint=hint
        ) from error


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
