"""The fitted selector at inference, in NumPy: which rubrics matter for a prompt, and how much.

    hidden = g(W1 φ(x) + b1)            g = ReLU for kind `mlp` (the paper, app:selector), softmax for kind `topics`
    logits = W2 hidden + b2
    alpha  = sparsemax(logits)          kind `mlp`
             logits⁺ / Σ logits⁺        kind `topics`
    importance = alpha · weight         over the whole bank; alpha is on the simplex and weight >= 0 for both kinds

A prompt without known words has φ = 0 and gets its alpha from the biases. No JAX is imported here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
import numpy.typing as npt

from svr_async.errors import ArtefactError
from svr_async.fit import ragged
from svr_async.fit.arrays import FitArrays, require_signal
from svr_async.fit.config import Kind
from svr_async.fit.evidence import judged_z

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
Ints = npt.NDArray[np.integer]
PAIRS = 512  # processed together
TENSORS = ("hidden", "hidden_bias", "output", "output_bias", "weight")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Selector:
    """A fitted selector and the weights: plain float32 arrays, checked when made.

    `hidden` (feature, unit) is W1 transposed, `output` (rubric, unit) is W2; `weight` (rubric,) is w = softplus(w̃).
    """

    kind: Kind
    hidden: Floats
    hidden_bias: Floats
    output: Floats
    output_bias: Floats
    weight: Floats

    def __post_init__(self) -> None:
        units, rubrics = len(self.hidden_bias), len(self.weight)
        _require(self.kind in {"mlp", "topics"}, f"selector kind must be mlp or topics (got {self.kind!r})")
        _require(self.hidden.ndim == 2 and self.hidden.shape[1] == units, "hidden and hidden_bias differ in units")
        _require(self.output.shape == (rubrics, units), f"output must be {rubrics} × {units} (got {self.output.shape})")
        _require(self.output_bias.shape == (rubrics,), "output_bias and weight differ in length")
        for name in TENSORS:
            values = getattr(self, name)
            _require(values.dtype == np.float32, f"{name} must be float32 (got {values.dtype})")
            _require(bool(np.isfinite(values).all()), f"{name} holds values that are not finite")
        _require(bool((self.weight >= 0).all()), "weight must be >= 0")

    @property
    def n_rubrics(self) -> int:
        """Number of rubrics in the bank."""
        return len(self.weight)

    @property
    def n_features(self) -> int:
        """Number of TF-IDF features."""
        return len(self.hidden)

    def tensors(self) -> dict[str, Floats]:
        """Return the arrays by name, as stored."""
        return {name: getattr(self, name) for name in TENSORS}

    def restrict(self, kept: Ints) -> Selector:
        """Return the selector of the rubrics `kept`, in that order (after pruning)."""
        of_rubrics = {name: getattr(self, name)[kept] for name in ("output", "output_bias", "weight")}
        return replace(self, **of_rubrics)


def hidden_numpy(selector: Selector, feature_index: Ints, feature_value: Floats) -> Floats:
    """Return the hidden units (unit,) of one sparse feature row."""
    before = feature_value @ selector.hidden[feature_index] + selector.hidden_bias
    if selector.kind == "mlp":
        return cast("Floats", np.maximum(before, np.float32(0)))
    raised = np.exp(before - before.max())
    return cast("Floats", raised / raised.sum())


def logits_numpy(selector: Selector, feature_index: Ints, feature_value: Floats) -> Floats:
    """Return the logits (rubric,) of one sparse feature row."""
    hidden = hidden_numpy(selector, feature_index, feature_value)
    return cast("Floats", selector.output @ hidden + selector.output_bias)


def alpha_numpy(selector: Selector, feature_index: Ints, feature_value: Floats) -> Floats:
    """Return alpha (rubric,), on the simplex, of one sparse feature row: the numbers and values of its features."""
    logits = logits_numpy(selector, feature_index, feature_value)
    return sparsemax_numpy(logits) if selector.kind == "mlp" else positive_numpy(logits)


def importance(selector: Selector, feature_index: Ints, feature_value: Floats) -> Floats:
    """Return alpha · weight (rubric,) of one sparse feature row: rubrics are chosen in its order (app:selector)."""
    return alpha_numpy(selector, feature_index, feature_value) * selector.weight


def hidden_matrix(selector: Selector, arrays: FitArrays, prompts: Ints) -> Floats:
    """Return the hidden units (prompt, unit) of several prompt rows of `arrays`; rows of sum 1 for kind `topics`."""
    return np.stack([hidden_numpy(selector, *arrays.features(row)) for row in np.asarray(prompts).tolist()])


def importance_matrix(selector: Selector, arrays: FitArrays, prompts: Ints) -> Floats:
    """Return alpha · weight (prompt, rubric) of several prompt rows of `arrays` at once."""
    logits = hidden_matrix(selector, arrays, prompts) @ selector.output.T + selector.output_bias
    alpha = np.stack([sparsemax_numpy(row) for row in logits]) if selector.kind == "mlp" else positive_numpy(logits)
    return alpha * selector.weight


def sparsemax_numpy(logits: Floats) -> Floats:
    """Project one row of logits onto the simplex: max shift, sort, threshold. −inf masks an entry."""
    if not len(logits) or logits.max() == -np.inf:
        return np.zeros_like(logits)
    shifted = np.maximum(logits - logits.max(), np.float32(-2))
    near = np.sort(shifted[shifted > -1])[::-1]
    thresholds = (np.cumsum(near, dtype=np.float64) - 1) / np.arange(1, len(near) + 1)
    size = int(np.sum(near > thresholds))
    out = np.maximum(shifted - thresholds[size - 1].astype(logits.dtype), 0)
    return cast("Floats", out / out.sum())


def positive_numpy(logits: Floats) -> Floats:
    """Scale the positive part of logits (..., rubric) to sum 1; without a positive one, the largest share it all.

    −inf masks an entry; one at least is not masked.
    """
    top = logits.max(axis=-1, keepdims=True)
    kept = np.where(top > 0, np.maximum(logits, 0), (logits == top).astype(logits.dtype))
    kept = kept / kept.max(axis=-1, keepdims=True)
    return cast("Floats", kept / kept.sum(axis=-1, keepdims=True))


def selector_of(kind: str, tensors: Mapping[str, npt.NDArray[np.generic]]) -> Selector:
    """Make a selector from named arrays, or raise `ArtefactError` naming the missing arrays."""
    missing = [name for name in TENSORS if name not in tensors]
    _require(not missing, f"the selector lacks {', '.join(missing)}")
    return Selector(kind=cast("Kind", kind), **{name: cast("Floats", tensors[name]) for name in TENSORS})


def pack_tensors(arrays: Mapping[str, Floats]) -> bytes:
    """Return a safetensors file of the arrays."""
    from safetensors.numpy import save

    return save({name: np.asarray(arrays[name], dtype="<f4", order="C") for name in sorted(arrays)})


def unpack_tensors(data: bytes) -> dict[str, Floats]:
    """Return the arrays of a safetensors file; ValueError if it is damaged or holds other types than float32."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        arrays = load(data)
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        if data[:2] in {b"PK", b"\x93N"} or data[:1] == b"\x80":
            raise ValueError("it is a pickle or NumPy archive, which this package never opens") from error
        raise ValueError(f"it is not a valid safetensors file ({error})") from error
    for name, values in arrays.items():
        if values.dtype != np.float32:
            raise ValueError(f"the array {name!r} must be float32 (got {values.dtype})")
    return arrays


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise ArtefactError(message)


# ── how well a selector does ────────────────────────────────────────────────────────────────────────────────────────


def active_rubrics(selector: Selector, arrays: FitArrays, top_k: int, *, at_most: int = 256) -> int:
    """Count the rubrics that are among the best `top_k`, with importance > 0, for one of the first prompts."""
    rows = importance_matrix(selector, arrays, np.unique(arrays.pair_prompt)[:at_most])
    chosen = np.argpartition(-rows, min(top_k, rows.shape[1]) - 1, axis=1)[:, :top_k]
    return len(np.unique(chosen[np.take_along_axis(rows, chosen, axis=1) > 0]))


def accuracy(margins: npt.NDArray[np.floating]) -> float:
    """Return the share of pairs with F > 0; a tie counts half, since a coin would be right half the time."""
    return float((0.5 + 0.5 * np.sign(margins)).mean()) if len(margins) else 0.5


def fitted_margins(selector: Selector, arrays: FitArrays, top_k: int | None) -> tuple[Floats, Floats]:
    """Return F of each pair (pair,) as a fit of kind `topics` sees it, and F by the best `top_k` of its entries.

    alpha is a distribution on the pair's judged entries. 0 without an entry.
    """
    whole, best_k = np.zeros((2, arrays.n_pairs), np.float32)
    judged = np.flatnonzero(ragged.lengths(arrays.z_indptr))
    for first in range(0, len(judged), PAIRS):
        pair = judged[first : first + PAIRS]
        whole[pair], best_k[pair] = _margins(selector, arrays, pair, top_k)
    return whole, best_k


def _margins(
    selector: Selector, arrays: FitArrays, pair: npt.NDArray[np.integer], top_k: int | None
) -> tuple[Floats, Floats]:
    """Return both margins of a few pairs; where entries tie with the k-th, all of them count."""
    borders, at = ragged.take_rows(arrays.z_indptr, pair)
    width = int(ragged.lengths(borders).max())
    rubric = ragged.padded(borders, arrays.z_rubric[at], fill=0, width=width)
    z = ragged.padded(borders, arrays.weighted[at], fill=0, width=width)
    judged = np.arange(width) < ragged.lengths(borders)[:, None]
    hidden = hidden_matrix(selector, arrays, arrays.pair_prompt[pair])
    logits = np.einsum("beh,bh->be", selector.output[rubric], hidden) + selector.output_bias[rubric]
    alpha = positive_numpy(np.where(judged, logits, np.float32(-np.inf)))
    ranked = np.where(judged, alpha * selector.weight[rubric], 0)
    parts = ranked * z
    if top_k is None or top_k >= width:
        return parts.sum(axis=1), parts.sum(axis=1)
    lowest = -np.partition(-ranked, top_k - 1, axis=1)[:, top_k - 1 : top_k]
    return parts.sum(axis=1), np.where(ranked >= lowest, parts, 0).sum(axis=1)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Baselines:
    """Dev accuracy (a tie counts half) of the unweighted vote and of prompt-independent weights >= 0 (rubric,)."""

    vote_accuracy: float
    linear_accuracy: float
    weight: Floats


def baselines(train: FitArrays, dev: FitArrays) -> Baselines:
    """Fit one weight per rubric on train, and measure it and the vote on dev."""
    weight = fit_linear(train)
    return Baselines(
        vote_accuracy=accuracy(linear_margins(np.ones(dev.n_rubrics), dev)),
        linear_accuracy=accuracy(linear_margins(weight, dev)),
        weight=weight.astype(np.float32),
    )


def fit_linear(train: FitArrays) -> Doubles:
    """Return w >= 0 (rubric,) minimising Σ softplus(−Z w) + |w|²: logistic regression without intercept."""
    from svr_async.fit.margin_solver import Problem, solve

    require_signal(train)
    problem = Problem(np.ones((train.n_pairs, 1)), sparsity=0.0)
    return cast("Doubles", solve(judged_z(train), [problem])[0][0])


def linear_margins(weight: npt.NDArray[np.floating], arrays: FitArrays) -> Doubles:
    """Return Σ weight · z over each pair's judged entries (pair,); 0 without entries."""
    return cast("Doubles", judged_z(arrays) @ weight.astype(np.float64))
