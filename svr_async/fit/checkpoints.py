"""Checkpoints of a fit: everything the next epoch needs, in one file per fit that is replaced whole."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import jax.numpy as jnp
import numpy as np
import optax  # type: ignore[import-untyped]  # it ships no types

from svr_async.errors import ArtefactError
from svr_async.fit.epoch import State
from svr_async.fit.files import Tensors, header_json, read_tensors, write_whole
from svr_async.fit.history import EpochRecord, record_from_json
from svr_async.fit.selector import Params

NAME = "fit.safetensors"
SCHEMA = 1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Progress:
    """Where a fit stands after an epoch; a fit resumed from it goes on to the same bytes."""

    state: State
    best: Params
    best_epoch: int
    epoch: int
    halvings: int = 0
    slices: int = 1
    history: tuple[EpochRecord, ...] = ()


def save_progress(progress: Progress, folder: Path, *, identity: str) -> None:
    """Write the checkpoint, with `identity` (digests of data and settings) in its header; an old one stays until then.

    The header holds one key: safetensors writes several in no fixed order, and equal fits shall give equal bytes.
    """
    from safetensors.numpy import save

    header = {
        "schema": SCHEMA,
        "identity": identity,
        "epoch": progress.epoch,
        "best_epoch": progress.best_epoch,
        "halvings": progress.halvings,
        "slices": progress.slices,
        "history": [record.as_json() for record in progress.history],
    }
    write_whole(folder / NAME, save(_tensors(progress), metadata={"json": json.dumps(header, sort_keys=True)}))


def load_progress(folder: Path, *, identity: str) -> Progress | None:
    """Return the checkpoint of this fit, None where there is none; refuse one of other data or settings."""
    path = folder / NAME
    if not path.exists():
        return None
    tensors, metadata = read_tensors(path)
    header = header_json(metadata, path)
    if header.get("schema") != SCHEMA or header.get("identity") != identity:
        raise ArtefactError(f"{path} belongs to other data or settings", hint="fit without --resume")
    try:
        return _progress(header, tensors)
    except (KeyError, TypeError, ValueError) as error:
        raise ArtefactError(f"{path} is incomplete: {error}", hint="fit without --resume") from error


def _tensors(progress: Progress) -> Tensors:
    moments = progress.state.moments
    trees = {"params": progress.state.params, "mu": moments.mu, "nu": moments.nu, "best": progress.best}
    out = {
        f"{tree}.{name}": np.asarray(value)
        for tree, params in trees.items()
        for name, value in cast("Params", params)._asdict().items()
    }
    return {**out, "count": np.asarray(moments.count).reshape(1)}


def _progress(header: dict[str, object], tensors: Tensors) -> Progress:
    def tree(prefix: str) -> Params:
        return Params(*(jnp.asarray(tensors[f"{prefix}.{name}"]) for name in Params._fields))

    moments = optax.ScaleByAdamState(count=jnp.asarray(tensors["count"][0]), mu=tree("mu"), nu=tree("nu"))
    return Progress(
        state=State(tree("params"), moments),
        best=tree("best"),
        **{name: int(cast("int", header[name])) for name in ("epoch", "best_epoch", "halvings", "slices")},
        history=tuple(record_from_json(record) for record in cast("list[object]", header["history"])),
    )
