"""The feature store: what a fit reads, in one folder of plain files that is written once.

    meta.json              schema, counts, origin, how to fit it, and every other file with its size and SHA-256
    vocabulary.json        TF-IDF terms and their places; idf.npz their idf
    rubrics-0001.parquet   the rubrics, in their places
    pairs-0001.parquet     the pairs: id, prompt, prompt_row, domain, split, strength, kind, of, source
    features-0001.npz      CSR of TF-IDF, one row for each prompt
    z-0001.npz             CSR of judged entries over all pairs: rubric, z, flags, weight; absent = not judged

meta.json is written last, so a folder that has it is whole. docs/store.md has every file with its types and shapes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from svr_async.core.integrity import NO_MARKS, Marks
from svr_async.fit.arrays import LARGEST_Z
from svr_async.training.bank.build import bank_rubric
from svr_async.training.bank.merge import Candidate
from svr_async.training.rounds.config import FitTerms

if TYPE_CHECKING:
    import pyarrow as pa

SCHEMA_VERSION = 3
SPLITS = ("train", "dev")
KINDS = ("pair", "hard_negative")
BOTH_ORDERS, OWN = 1, 2  # flags: the mean of both orders; mined from the very pair that it judges
MEASURED = 4  # flag: judged to measure the bank on dev; no fit sees it


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Csr:
    """Rows of different lengths: row i has the columns index[indptr[i]:indptr[i + 1]], rising, and their values."""

    indptr: NDArray[np.int64]
    index: NDArray[np.int32]
    value: NDArray[np.float32]

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.indptr) - 1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Judged(Csr):
    """Judged entries: pairs × rubrics, value = z oriented chosen minus rejected, a byte of flags for each entry.

    z is any number in ±1.25: a judge's Δ, the mean of several, or the Δ expected of probabilities. `weight` says how
    much each entry counts, >= 0; None is 1 for all.
    """

    flags: NDArray[np.uint8]
    weight: NDArray[np.float32] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreRubric:
    """A rubric of the store.

    `support_count` are the support pairs and hard negatives on which it favours the chosen response; pruning keeps a
    rubric that has any.
    """

    candidate: Candidate
    support_count: int = 0

    @property
    def id(self) -> str:
        """The rubric's id."""
        return self.candidate.rubric.id


@dataclass(frozen=True, slots=True, kw_only=True)
class PairRows:
    """Pairs in columns of one length. `prompt_row` counts distinct prompts, from 0, as they come.

    `kind` is pair or hard_negative; `of` names a hard negative's original and is empty for a pair. `strength` is the
    data set's strength of preference, None where it has none. `source` names where a pair is from, that of a hard
    negative is its original's; empty where nobody says.
    """

    pair_id: Sequence[str]
    prompt: Sequence[str]
    prompt_row: Sequence[int]
    domain: Sequence[str]
    split: Sequence[str]
    strength: Sequence[int | None]
    kind: Sequence[str]
    of: Sequence[str]
    source: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StoreContent:
    """What a store holds: rubrics, pairs, a row of features for each prompt, a row of judged entries for each pair."""

    rubrics: Sequence[StoreRubric]
    pairs: PairRows
    features: Csr
    z: Judged


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StoreHeader:
    """What a store says about itself, and its vocabulary.

    `marks` are those of the judge. `terms` say how it is fitted where nobody says
    otherwise. `made_of` is a digest of all that a training made it of.
    """

    vocabulary: Mapping[str, int]
    idf: NDArray[np.float32]
    judge: str = ""
    marks: Marks = NO_MARKS
    prompts_digest: str = ""
    data_digests: Mapping[str, str] = field(default_factory=dict)
    terms: FitTerms = field(default_factory=FitTerms)
    made_of: str = ""

    @property
    def integrity(self) -> Marks:
        """The marks of the judge."""
        return self.marks


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FeatureStore:
    """A store in memory, checked. Prompts' texts stay on disk until `reader.read_prompts` asks for them.

    `pairs` has the columns of `PairRows` without the texts. `is_dev` (n_pairs,), `negative_of` (n_pairs,): the place of
    a hard negative's original, −1 for a pair. `features` has a row a prompt, `z` a row a pair.
    """

    folder: Path
    meta: Mapping[str, Any]
    header: StoreHeader
    rubrics: tuple[StoreRubric, ...]
    pairs: pa.Table
    prompt_row: NDArray[np.int32]
    is_dev: NDArray[np.bool_]
    negative_of: NDArray[np.int32]
    features: Csr
    z: Judged

    def __len__(self) -> int:
        return len(self.prompt_row)

    @property
    def pair_ids(self) -> list[str]:
        """The pairs' ids."""
        ids: list[str] = self.pairs["pair_id"].to_pylist()
        return ids

    @property
    def sources(self) -> list[str]:
        """The name of each pair's source, empty where it is unknown."""
        names: list[str] = self.pairs["source"].to_pylist()
        return names


# ── checks, the same on writing and on reading: each returns what is wrong, or nothing ──────────────────────────────


def csr_problem(rows: Csr, n_rows: int, n_columns: int) -> str:
    """Say what is wrong with a CSR matrix of this shape; its value may be anything finite."""
    for name, dtype in (("indptr", np.int64), ("index", np.int32), ("value", np.float32)):
        found = getattr(rows, name)
        if found.dtype != dtype or found.ndim != 1:
            return f"{name} must be a vector of {np.dtype(dtype)} (got {found.dtype}, {found.ndim} axes)"
    if len(rows.indptr) != n_rows + 1 or rows.indptr[0] != 0 or rows.indptr[-1] != len(rows.index):
        return f"indptr must have {n_rows + 1} entries from 0 to {len(rows.index)}"
    if len(rows.value) != len(rows.index):
        return f"{len(rows.index)} indices but {len(rows.value)} values"
    steps = np.diff(rows.indptr)
    if bool((steps < 0).any()):
        return f"indptr falls after row {int(np.argmax(steps < 0))}"
    return _index_problem(rows, n_columns) or _finite_problem(rows.value)


def _index_problem(rows: Csr, n_columns: int) -> str:
    if not len(rows.index):
        return ""
    if int(rows.index.min()) < 0 or int(rows.index.max()) >= n_columns:
        return f"an index lies outside 0..{n_columns - 1}"
    rising = rows.index[1:] > rows.index[:-1]
    starts = rows.indptr[1:-1]
    rising[starts[(starts > 0) & (starts < len(rows.index))] - 1] = (
        True  # at the first entry of a row the index may fall
    )
    return "" if bool(rising.all()) else f"the indices of a row do not rise at entry {int(np.argmin(rising)) + 1}"


def _finite_problem(values: NDArray[np.float32]) -> str:
    bad = ~np.isfinite(values)
    return f"value {int(np.argmax(bad))} is not finite" if bool(bad.any()) else ""


def judged_problem(z: Judged, n_pairs: int, n_rubrics: int) -> str:
    """Say what is wrong with judged entries: shape, order, flags, a z that no Δ has, a weight that is none."""
    if problem := csr_problem(z, n_pairs, n_rubrics):
        return problem
    known = BOTH_ORDERS | OWN | MEASURED
    if z.flags.dtype != np.uint8 or len(z.flags) != len(z.value) or bool((z.flags > known).any()):
        return "flags must be one byte of known flags for each entry"
    return z_problem(z.value) or weight_problem(z.weight, len(z.value))


def z_problem(values: NDArray[np.floating]) -> str:
    """Say which z is no number in ±1.25."""
    bad = ~(np.abs(values) <= LARGEST_Z)
    if not bool(bad.any()):
        return ""
    place = int(np.argmax(bad))
    value = float(values[place])
    what = "is no number; leave out what was not judged" if np.isnan(value) else f"lies outside ±{LARGEST_Z}"
    return f"z = {value:g} at entry {place} {what}"


def weight_problem(weights: NDArray[np.floating] | None, n_entries: int) -> str:
    """Say what is wrong with the weights of so many entries."""
    if weights is None:
        return ""
    if len(weights) != n_entries:
        return f"{len(weights)} weights for {n_entries} entries"
    bad = ~(np.isfinite(weights) & (weights >= 0))
    if not bool(bad.any()):
        return ""
    place = int(np.argmax(bad))
    return f"weight = {float(weights[place]):g} at entry {place} is not finite and >= 0"


def rubrics_problem(rubrics: Sequence[StoreRubric]) -> str:
    """Say what is wrong with the list of rubrics: each has to be one that a bank holds."""
    seen: set[str] = set()
    for entry in rubrics:
        if entry.id in seen:
            return f"the rubric {entry.id} occurs twice"
        try:
            bank_rubric(entry.candidate, support_count=entry.support_count)
        except ValueError as error:
            return str(error)
        seen.add(entry.id)
    return ""
