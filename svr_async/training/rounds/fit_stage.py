"""A fit as a stage: a finished one is read back, one that was cut off goes on from its last whole checkpoint.

A checkpoint is trusted only beside a note of its checksum and of the fit that it belongs to. Any other is thrown away:
the fit begins anew and ends with the same bytes, so nothing but time is lost.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import orjson
from numpy.typing import NDArray

from svr_async.core.files import write_atomic
from svr_async.core.validation import type_error
from svr_async.fit.checkpoints import NAME
from svr_async.fit.forward import selector_of
from svr_async.fit.history import EpochRecord, FitResult, record_from_json
from svr_async.training.rounds.stages import Stages, digest_of
from svr_async.training.rounds.state import choice_from_values

NOTE = "checkpoint.json"
PLAIN = ("best_epoch", "dev_accuracy", "dev_loss", "halvings", "slices", "device")


class Fit(Protocol):
    """A fit that tells of its epochs and keeps a checkpoint in a folder, from which it goes on."""

    def __call__(self, *, on_epoch: Callable[[EpochRecord], None], checkpoint_dir: Path, resume: bool) -> FitResult:
        """Run to the end."""


def kept_fit(
    stages: Stages, name: str, inputs: tuple[Any, ...], run: Fit, on_epoch: Callable[[EpochRecord], None]
) -> FitResult:
    """Return the result of `run`, or the one that is on disk for the same `inputs` (all that the result depends on)."""
    digest, folder = digest_of(*inputs), stages.folder / name
    result = stages.load(name, digest, _result)
    if result is None:
        if not _goes_on(folder, digest):
            shutil.rmtree(folder, ignore_errors=True)

        def each(record: EpochRecord) -> None:
            _note(folder, digest)
            on_epoch(record)

        result = run(on_epoch=each, checkpoint_dir=folder, resume=True)
        stages.save(name, digest, _values(result), result.selector.tensors())
    shutil.rmtree(folder, ignore_errors=True)
    return result


def _note(folder: Path, digest: str) -> None:
    """Note which fit the checkpoint in a folder belongs to, and its checksum; before the first epoch there is none."""
    if (folder / NAME).exists():
        write_atomic(folder / NOTE, orjson.dumps({"digest": digest, "sha256": _checksum(folder)}))


def _goes_on(folder: Path, digest: str) -> bool:
    """Whether a folder holds a whole checkpoint of this fit."""
    try:
        noted = orjson.loads((folder / NOTE).read_bytes())
        return bool(noted == {"digest": digest, "sha256": _checksum(folder)})
    except (OSError, orjson.JSONDecodeError):
        return False


def _checksum(folder: Path) -> str:
    return hashlib.sha256((folder / NAME).read_bytes()).hexdigest()


def _values(result: FitResult) -> dict[str, Any]:
    plain = {name: getattr(result, name) for name in PLAIN}
    history = [record.as_json() for record in result.history]
    choice = None if result.choice is None else result.choice.as_json()
    return {
        **plain,
        "kind": result.selector.kind,
        "warnings": list(result.warnings),
        "history": history,
        "choice": choice,
    }


def _result(values: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> FitResult:
    found = FitResult(
        selector=selector_of(values["kind"], arrays),
        history=tuple(record_from_json(record) for record in values["history"]),
        warnings=tuple(values["warnings"]),
        choice=choice_from_values(values["choice"]),
        **{name: values[name] for name in PLAIN},
    )
    if wrong := type_error(found):
        raise TypeError(wrong)
    return found
