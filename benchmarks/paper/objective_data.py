"""What `objective.py prepare` leaves and `compare` reads: a feature store, and fully judged pairs beside it.

A folder such as PREPARED/real-0 is one split or one planted world:

    store/                     the feature store that `svr train` would fit from in its first round
    dev.npz, test-rmb.npz …    pairs judged on every rubric of the bank, with the features of their prompts
    checks.npz                 real pairs only: the train pairs judged on every check there is
    prepared.json              group, seed, sizes
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from svr_async.fit.arrays import FitArrays
from svr_async.fit.tfidf import Vocabulary, transform
from svr_async.training.prune_redundant import redundancy_edges
from svr_async.training.store import FeatureStore
from svr_async.training.store_arrays import fit_arrays
from svr_async.vocabulary.pair import PreferencePair, prompt_text

RECORD = "prepared.json"


@dataclass(frozen=True, kw_only=True, eq=False)
class Held:
    """Pairs judged on every rubric of a bank: z (pair, rubric) is chosen minus rejected, NaN where the judge abstained.

    `prompts` (prompt, feature) holds each prompt once, `pair_prompt` is its row. `longer` is how many characters the
    chosen response has more than the other. `truth` (pair, rubric) are the weights of one who knows a planted world;
    `checks` (pair, check) is z on every check there is, in the bank or not. Both are None where there are none.
    """

    prompts: csr_matrix
    pair_prompt: np.ndarray
    z: np.ndarray
    longer: np.ndarray
    truth: np.ndarray | None = None
    checks: np.ndarray | None = None

    @classmethod
    def of(cls, pairs: Sequence[PreferencePair], vocabulary: Vocabulary, z: np.ndarray, **more: Any) -> Held:
        """Collect pairs with their z and the features of their prompts."""
        row_of = {text: row for row, text in enumerate(dict.fromkeys(prompt_text(pair.prompt) for pair in pairs))}
        return cls(
            prompts=sparse_rows(*transform(vocabulary, list(row_of)), max(1, len(vocabulary.terms))),
            pair_prompt=np.array([row_of[prompt_text(pair.prompt)] for pair in pairs]),
            z=z.astype(np.float32),
            longer=np.array([len(pair.chosen) - len(pair.rejected) for pair in pairs]),
            **more,
        )

    def save(self, path: Path) -> None:
        """Write the arrays as one .npz."""
        arrays = {"pair_prompt": self.pair_prompt, "z": self.z, "longer": self.longer, "width": self.prompts.shape[1]}
        arrays |= {"indptr": self.prompts.indptr, "index": self.prompts.indices, "value": self.prompts.data}
        arrays |= {name: value for name in ("truth", "checks") if (value := getattr(self, name)) is not None}
        np.savez_compressed(path, allow_pickle=False, **arrays)

    @classmethod
    def load(cls, path: Path) -> Held:
        """Read what `save` wrote."""
        with np.load(path, allow_pickle=False) as file:
            held = dict(file)
        prompts = sparse_rows(held.pop("indptr"), held.pop("index"), held.pop("value"), int(held.pop("width")))
        return cls(prompts=prompts, **held)


@dataclass(frozen=True, kw_only=True, eq=False)
class Problem:
    """One prepared world: what a variant learns from, and what it is then asked.

    `train` and `dev` are the arrays of the store. `dev_held` are the dev pairs judged on the whole bank, `tests` the
    unseen pairs by name, the first of them of the same kind as the training pairs. `checks` is as in `Held`, of train.
    """

    name: str
    group: str
    seed: int
    texts: tuple[str, ...]
    train: FitArrays
    dev: FitArrays
    dev_held: Held
    tests: dict[str, Held]
    free: bool
    checks: np.ndarray | None = None


def load(folder: Path) -> Problem:
    """Read a prepared world."""
    record = json.loads((folder / RECORD).read_text("utf-8"))
    store = FeatureStore.load(folder / "store")
    texts = tuple(entry.candidate.rubric.text for entry in store.rubrics if entry.active)
    edges = redundancy_edges(texts)
    parts = {split: fit_arrays(store, split=split, redundancy=edges)[0] for split in ("train", "dev")}
    checks = folder / "checks.npz"
    return Problem(
        name=folder.name,
        group=record["group"],
        seed=record["seed"],
        texts=texts,
        dev_held=Held.load(folder / "dev.npz"),
        tests={name: Held.load(folder / f"test-{name}.npz") for name in record["tests"]},
        free=record["free"],
        checks=np.load(checks)["z"] if checks.exists() else None,
        **parts,
    )


def prepared(folder: Path) -> list[Path]:
    """Return the finished worlds below a folder, by name."""
    return sorted(path.parent for path in folder.glob(f"*/{RECORD}"))


def sparse_rows(indptr: np.ndarray, index: np.ndarray, value: np.ndarray, width: int) -> csr_matrix:
    """Return CSR rows as a SciPy matrix."""
    return csr_matrix((value, index, indptr), shape=(len(indptr) - 1, width))
