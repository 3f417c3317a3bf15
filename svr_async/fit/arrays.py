"""The input of a fit: prompts' features, judged entries and redundancy, all sparse, checked when made."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, fields, replace

import numpy as np
import numpy.typing as npt

from svr_async.errors import ArtefactError, DegenerateFitError
from svr_async.fit import ragged

Ints = npt.NDArray[np.integer]
Floats = npt.NDArray[np.float32]
Bools = npt.NDArray[np.bool_]

LARGEST_Z = 1.25  # one pass of difference and the paper's ± 0.25 (sec:bank)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FitArrays:
    """Pairs, their prompts and the entries that were judged; an absent entry is missing, not zero.

    Features (`feature_*`) are CSR rows of prompts, `n_features` wide. `pair_prompt[p]` is the prompt row of pair p.
    Entries (`z_*`) are CSR rows of pairs: rubric number and z, oriented chosen minus rejected, |z| <= 1.25.
    `z_weight` (entry,) >= 0 is how much an entry counts; None is 1 for all. An entry of weight w adds
    alpha · weight · z · w to the margin, and counts as w judgements: the fit reads `weighted`, z · w.
    `z_own` marks entries whose rubric was mined from that very pair; the fit may leave them out.
    `negative_of[p]` is the original pair of a hard-negative row, −1 for an original.
    `pair_source[p]` numbers the source of pair p from 0; None if unknown.
    `source_*` is an optional CSR from rubrics to the prompt rows that they were mined from, `word_*` to the numbers of
    their content words. `criterion` (rubric,) is the author's grouping: wordings of one criterion have the same number.
    Redundancy is a list of edges i < j with a value in (0, 1].
    """

    n_rubrics: int
    n_features: int
    feature_indptr: Ints
    feature_index: Ints
    feature_value: Floats
    pair_prompt: Ints
    z_indptr: Ints
    z_rubric: Ints
    z_delta: Floats
    z_own: Bools | None = None
    z_weight: Floats | None = None
    negative_of: Ints | None = None
    pair_source: Ints | None = None
    source_indptr: Ints | None = None
    source_prompt: Ints | None = None
    word_indptr: Ints | None = None
    word_number: Ints | None = None
    criterion: Ints | None = None
    redundancy_i: Ints | None = None
    redundancy_j: Ints | None = None
    redundancy_value: Floats | None = None

    def __post_init__(self) -> None:
        _check(self)

    @property
    def n_pairs(self) -> int:
        """Number of rows of z, hard negatives included."""
        return len(self.pair_prompt)

    @property
    def n_prompts(self) -> int:
        """Number of feature rows."""
        return len(self.feature_indptr) - 1

    @property
    def n_entries(self) -> int:
        """Number of judged entries."""
        return len(self.z_rubric)

    @property
    def entry_weights(self) -> Floats:
        """How much each entry counts (entry,)."""
        return np.ones(self.n_entries, np.float32) if self.z_weight is None else self.z_weight

    @property
    def weighted(self) -> Floats:
        """Z · weight of each entry (entry,): what it adds to a margin for an importance of 1."""
        return self.z_delta if self.z_weight is None else self.z_delta * self.z_weight

    @property
    def originals(self) -> Bools:
        """Which rows are pairs of the data set rather than hard negatives."""
        return np.ones(self.n_pairs, bool) if self.negative_of is None else np.asarray(self.negative_of < 0)

    def features(self, row: int) -> tuple[Ints, Floats]:
        """Return feature numbers and values of one prompt row."""
        start, end = int(self.feature_indptr[row]), int(self.feature_indptr[row + 1])
        return self.feature_index[start:end], self.feature_value[start:end]

    def row_weights(self) -> Floats:
        """Return each row's share of the preference loss: 1, or a half, the other half its hard negative's (sec:adv).

        Where a pair has several hard negatives, which the paper's has not, they share that half.
        """
        weights = np.ones(self.n_pairs, np.float32)
        if self.negative_of is None:
            return weights
        is_negative = self.negative_of >= 0
        counts = np.bincount(self.negative_of[is_negative], minlength=self.n_pairs)
        weights[counts > 0] = 0.5
        weights[is_negative] = 0.5 / counts[self.negative_of[is_negative]]
        return weights

    def without_own(self) -> FitArrays:
        """Return the arrays without the entries that were mined from the pair that they judge (cross-fitting)."""
        return self if self.z_own is None or not self.z_own.any() else keep_entries(self, ~self.z_own)

    def without_weightless(self) -> FitArrays:
        """Return the arrays without the entries of weight 0."""
        return self if bool(self.entry_weights.all()) else keep_entries(self, self.entry_weights > 0)

    def restrict_rubrics(self, kept: Ints) -> FitArrays:
        """Return the arrays of the rubrics `kept`, renumbered in that order (after pruning)."""
        number = np.full(self.n_rubrics, -1, np.int32)
        number[kept] = np.arange(len(kept))
        smaller = keep_entries(self, number[self.z_rubric] >= 0)
        changes: dict[str, object] = {"n_rubrics": len(kept), "z_rubric": number[smaller.z_rubric]}
        for borders, values in (("source_indptr", "source_prompt"), ("word_indptr", "word_number")):
            if (indptr := getattr(self, borders)) is not None:
                changes[borders], at = ragged.take_rows(indptr, np.asarray(kept))
                changes[values] = getattr(self, values)[at]
        if self.criterion is not None:
            changes["criterion"] = self.criterion[kept]
        return _replace(smaller, **changes, **_restricted_edges(self, number))

    def take_pairs(self, rows: Ints) -> FitArrays:
        """Return the arrays of the chosen pairs; prompts stay, so that prompt numbers keep their meaning.

        A hard negative whose original is not chosen is refused: choose both or neither.
        """
        rows = np.asarray(rows)
        borders, at = ragged.take_rows(self.z_indptr, rows)
        number = np.full(self.n_pairs + 1, -2, np.int64)
        number[rows] = np.arange(len(rows))
        number[-1] = -1
        return _replace(
            self,
            pair_prompt=self.pair_prompt[rows],
            z_indptr=borders,
            z_rubric=self.z_rubric[at],
            z_delta=self.z_delta[at],
            z_own=None if self.z_own is None else self.z_own[at],
            z_weight=None if self.z_weight is None else self.z_weight[at],
            negative_of=None if self.negative_of is None else number[self.negative_of[rows]],
            pair_source=None if self.pair_source is None else self.pair_source[rows],
        )

    def digest(self) -> str:
        """Return a SHA-256 over every array and size, to check that a checkpoint belongs to these data."""
        sha = hashlib.sha256()
        for field in fields(self):
            value = getattr(self, field.name)
            head = f"{field.name}:{value if isinstance(value, int) else getattr(value, 'dtype', None)};"
            sha.update(head.encode())
            if isinstance(value, np.ndarray):
                sha.update(np.ascontiguousarray(value).data)
        return sha.hexdigest()


def require_signal(arrays: FitArrays) -> None:
    """Refuse arrays that nothing can be learned from: no rubrics, no entries, or every z tied at zero."""
    if arrays.n_rubrics == 0:
        raise DegenerateFitError("the bank holds 0 rubrics, so there is nothing to fit", hint="induce rubrics first")
    if arrays.n_entries == 0:
        raise DegenerateFitError("no pair was judged on any rubric", hint="judge the pools first")
    if not np.any(arrays.weighted):
        raise DegenerateFitError(
            f"no signal: all {arrays.n_entries} judged entries are tied (z = 0)", hint="check the judge's replies"
        )


def _check(arrays: FitArrays) -> None:
    """Raise `ArtefactError` if a shape, a range or a value breaks the contract of `FitArrays`."""
    entries, pairs, rubrics = arrays.n_entries, arrays.n_pairs, arrays.n_rubrics
    _check_csr("feature", arrays.feature_indptr, arrays.feature_index, arrays.n_features)
    _check_csr("z", arrays.z_indptr, arrays.z_rubric, rubrics)
    _require(len(arrays.z_indptr) == pairs + 1, "z_indptr must hold one more than pair_prompt")
    _check_numbers("pair_prompt", arrays.pair_prompt, pairs, 0, arrays.n_prompts)
    _check_floats("feature_value", arrays.feature_value, len(arrays.feature_index), -np.inf, np.inf)
    _check_floats("z_delta", arrays.z_delta, entries, -LARGEST_Z, LARGEST_Z)
    if arrays.z_weight is not None:
        _check_floats("z_weight", arrays.z_weight, entries, 0, np.inf)
    if arrays.z_own is not None:
        _require(len(arrays.z_own) == entries, "z_own and z_rubric differ in length")
    if arrays.negative_of is not None:
        _check_numbers("negative_of", arrays.negative_of, pairs, -1, pairs)
        originals = arrays.negative_of[arrays.negative_of >= 0]
        _require(bool(np.all(arrays.negative_of[originals] < 0)), "negative_of points at a row that is a negative")
    if arrays.pair_source is not None:
        _check_numbers("pair_source", arrays.pair_source, pairs, 0, 1 << 31)
    if arrays.source_indptr is not None and arrays.source_prompt is not None:
        _check_csr("source", arrays.source_indptr, arrays.source_prompt, arrays.n_prompts)
        _require(len(arrays.source_indptr) == rubrics + 1, "source_indptr must hold one more than n_rubrics")
    if arrays.criterion is not None:
        _check_numbers("criterion", arrays.criterion, rubrics, 0, 1 << 31)
    _check_edges(arrays)


def _check_edges(arrays: FitArrays) -> None:
    i, j, value = arrays.redundancy_i, arrays.redundancy_j, arrays.redundancy_value
    if i is None or j is None or value is None:
        _require(i is None and j is None and value is None, "redundancy needs all of i, j and value")
        return
    for name, numbers in (("redundancy_j", j), ("redundancy_i", i)):
        _check_numbers(name, numbers, len(value), 0, arrays.n_rubrics)
    _require(bool(np.all(i < j)), "redundancy edges must have i < j, each once")
    _require(bool(np.all((value > 0) & (value <= 1))), "redundancy values must lie in (0, 1]")


def _check_csr(name: str, indptr: Ints, index: Ints, n_columns: int) -> None:
    _require(indptr.ndim == 1 and len(indptr) >= 1 and int(indptr[0]) == 0, f"{name}_indptr must start at 0")
    _require(bool(np.all(np.diff(indptr) >= 0)), f"{name}_indptr must not decrease")
    _require(int(indptr[-1]) == len(index), f"{name}_indptr ends at {int(indptr[-1])}, not at {len(index)} entries")
    _check_numbers(f"{name} column", index, len(index), 0, n_columns)


def _check_numbers(name: str, values: Ints, length: int, low: int, high: int) -> None:
    _require(len(values) == length, f"{name} must hold {length} numbers (got {len(values)})")
    _require(np.issubdtype(values.dtype, np.integer), f"{name} must hold integers (got {values.dtype})")
    bad = np.flatnonzero((values < low) | (values >= high))
    if len(bad):
        raise ArtefactError(f"{name} must lie in {low}..{high - 1} (got {int(values[bad[0]])} at place {bad[0]})")


def _check_floats(name: str, values: Floats, length: int, low: float, high: float) -> None:
    _require(values.dtype == np.float32, f"{name} must be float32 (got {values.dtype})")
    _require(len(values) == length, f"{name} must hold {length} values (got {len(values)})")
    bad = np.flatnonzero(~(np.isfinite(values) & (values >= low) & (values <= high)))
    if len(bad):
        value = float(values[bad[0]])
        raise ArtefactError(f"{name} must be finite and lie in {low:g}..{high:g} (got {value:g} at entry {bad[0]})")


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise ArtefactError(message)


def _replace(arrays: FitArrays, **changes: object) -> FitArrays:
    return replace(arrays, **changes)  # type: ignore[arg-type]  # the values are arrays of the fields' types


def keep_entries(arrays: FitArrays, keep: Bools) -> FitArrays:
    """Return the arrays with only the judged entries where `keep` is true."""
    return _replace(
        arrays,
        z_indptr=ragged.kept_indptr(arrays.z_indptr, keep),
        z_rubric=arrays.z_rubric[keep],
        z_delta=arrays.z_delta[keep],
        z_own=None if arrays.z_own is None else arrays.z_own[keep],
        z_weight=None if arrays.z_weight is None else arrays.z_weight[keep],
    )


def _restricted_edges(arrays: FitArrays, number: Ints) -> dict[str, object]:
    """Return the redundancy edges between kept rubrics, renumbered, with i < j again."""
    if arrays.redundancy_i is None or arrays.redundancy_j is None or arrays.redundancy_value is None:
        return {}
    i, j = number[arrays.redundancy_i], number[arrays.redundancy_j]
    keep = (i >= 0) & (j >= 0)
    low, high = np.minimum(i, j)[keep], np.maximum(i, j)[keep]
    return {"redundancy_i": low, "redundancy_j": high, "redundancy_value": arrays.redundancy_value[keep]}
