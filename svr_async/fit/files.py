"""Files of a fit: written whole (temporary, fsync, rename), read with checks and never unpickled."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

from svr_async.errors import ArtefactError, StorageError
from svr_async.fit import tensors
from svr_async.fit.tensors import Tensors

__all__ = ["Tensors", "header_json", "read_tensors", "write_whole"]


def write_whole(path: Path, data: bytes) -> None:
    """Write `data` so that `path` holds either the old bytes or all of the new ones, even after a crash."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        temporary = Path(name)
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror or error}", hint="check space and rights") from error


def read_tensors(path: Path) -> tuple[Tensors, dict[str, str]]:
    """Return the arrays and the header of a safetensors file; raise `ArtefactError` where it is damaged."""
    try:
        return tensors.read(path.read_bytes())
    except (OSError, ValueError) as error:
        raise ArtefactError(f"cannot read {path}: {error}", hint="fit again or restore the file") from error


def header_json(metadata: dict[str, str], path: Path) -> dict[str, object]:
    """Return the JSON object kept in a file's header; raise `ArtefactError` where there is none."""
    try:
        value = json.loads(metadata["json"])
    except (KeyError, json.JSONDecodeError) as error:
        raise ArtefactError(f"{path} has no readable header", hint="fit again") from error
    if not isinstance(value, dict):
        raise ArtefactError(f"the header of {path} is not an object", hint="fit again")
    return value
