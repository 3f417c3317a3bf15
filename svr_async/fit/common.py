"""One weight >= 0 a rubric, in common to all sources of pairs: a squared loss in which every source counts the same.

    w = argmin_{w >= 0}  ½ wᵀ G w − mᵀ w + ½ λ Σ_j p_j w_j²       m, G: means over sources of the means of z and z zᵀ
    p_j = 1 + τ_j² / mean τ²                                      τ_j²: variance of rubric j's mean z between sources

A rubric about which sources disagree says less of a source not seen yet, so it is shrunken more. τ² is DerSimonian and
Laird's (1986, Controlled Clinical Trials 7:177-188) from each source's mean and the variance of that mean, in which
pairs of a prompt count as drawn together. An entry that was not judged is z = 0. All of it needs first and second
moments alone: leaving a source out is a subtraction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt
import optax  # type: ignore[import-untyped]  # it ships no types

from svr_async.fit.threads import rows_of

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.integer]

RIDGES = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)  # λ: from little to much; at the end nearly the mean z of each rubric
LEAST_PAIRS = 30  # a source with fewer says nothing on its own
LEAST_SOURCES = 3  # fewer do not tell what sources have in common
PARTS = 5  # by prompts, where there are fewer sources
SAME = 1e-9  # margins nearer to 0 are ties
MOST_RUBRICS = 1024  # G has this many rows at most
BLOCK = 4096  # pairs that are dense at a time
NOTHING = 1e-8  # keeps the variance of a rubric that never differs above 0
CONVERGED = 1e-10  # ½ D d² of a step d, in units of mᵀ w
ITERATIONS = 4000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Moments:
    """What the loss needs of the pairs: m (rubric,), G (rubric, rubric) and p (rubric,)."""

    mean: Floats
    gram: Floats
    doubt: Floats


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ridge:
    """The λ taken, and the accuracy of each of `RIDGES` on parts that were left out, with its standard error."""

    taken: float
    accuracy: tuple[float, ...]
    error: tuple[float, ...]


def moments_of(z: Any, source: Ints | None, prompt: Ints) -> Moments:
    """Return the moments of sparse z (pair, rubric); `source` and `prompt` (pair,) number them, None for one source.

    Sources of fewer than `LEAST_PAIRS` pairs are left out where a larger one is there.
    """
    parts = _parts(source, z.shape[0])
    return _summed(
        [_part(z[rows], prompt[rows]) for rows in parts], sum_of_grams(z, parts), doubting=source is not None
    )


def chosen_ridge(z: Any, source: Ints | None, prompt: Ints, seed: int) -> Ridge:
    """Choose λ by leaving each source out in turn: the largest within one standard error of the best.

    All sources count the same, and no prompt of the one left out is learned from. Where there are fewer than
    `LEAST_SOURCES`, each of `PARTS` parts by prompts is left out. The error is that of the difference to the best over
    the sources, or the prompts, that were left out. Source: the one-standard-error rule, Breiman et al. 1984,
    Classification and Regression Trees, §3.4.3.
    """
    doubting = len(large_sources(source)) >= LEAST_SOURCES
    parts = _parts(source, z.shape[0]) if doubting else _prompt_parts(prompt, seed)
    held = [_part(z[rows], prompt[rows]) for rows in parts]
    total = sum_of_grams(z, parts)
    points = [_gained(z, prompt, parts, held, total, place, doubting=doubting) for place in range(len(parts))]
    if doubting:
        found = np.array([part.mean(axis=0) for part in points])
        return _taken(found, np.arange(len(parts)))
    return _taken(np.concatenate(points), prompt[np.concatenate(parts)])


def _taken(points: Floats, unit: Ints) -> Ridge:
    """Return the largest λ within a standard error of the best; `points` (row, ridge), rows of a `unit` go together."""
    mean = points.mean(axis=0)
    below = points[:, [int(mean.argmax())]] - points
    error, spread = (np.sqrt(_variance(values, unit)) for values in (below, points))
    taken = int(np.flatnonzero(below.mean(axis=0) <= error).max())
    return Ridge(taken=RIDGES[taken], accuracy=tuple(mean.tolist()), error=tuple(spread.tolist()))


def _variance(values: Floats, unit: Ints) -> Floats:
    from scipy.sparse import csr_matrix

    return variance_of_mean(csr_matrix(values), unit)


def weights(moments: Moments, ridges: Sequence[float]) -> Floats:
    """Return w for each λ (ridge, rubric)."""
    root = np.sqrt(moments.doubt)
    inner = moments.gram / np.outer(root, root)
    steepest = float(np.linalg.eigvalsh(inner)[-1])
    problem = _Problem(*(jnp.asarray(part, jnp.float32) for part in (inner, moments.mean / root, steepest)))
    found = np.asarray(_solve(problem, jnp.asarray(ridges, jnp.float32)), np.float64)
    return found / root


def variance_of_mean(z: Any, prompt: Ints) -> Floats:
    """Return the variance of the mean of each column of sparse z, pairs of a prompt drawn together (cluster-robust)."""
    from scipy.sparse import csr_matrix

    _, cluster, count = np.unique(prompt, return_inverse=True, return_counts=True)
    member = csr_matrix((np.ones(len(cluster)), (cluster, np.arange(len(cluster)))), shape=(len(count), len(cluster)))
    sums, mean = member @ z, _mean(z)
    squares = np.asarray(sums.multiply(sums).sum(axis=0)).ravel()
    spread = np.maximum(0, squares - 2 * mean * (sums.T @ count) + mean**2 * float(count @ count))
    variance: Floats = spread * len(count) / max(1, len(count) - 1) / len(cluster) ** 2
    return variance


def between_sources(mean: Floats, variance: Floats) -> Floats:
    """Return τ² (rubric,) from the means and their variances (source, rubric)."""
    weight = 1 / variance
    total = weight.sum(axis=0)
    fixed = (weight * mean).sum(axis=0) / total
    excess = (weight * (mean - fixed) ** 2).sum(axis=0) - (len(mean) - 1)
    between: Floats = np.maximum(0, excess / np.maximum(total - (weight**2).sum(axis=0) / total, NOTHING))
    return between


def large_sources(source: Ints | None) -> Ints:
    """Return the numbers of the sources with at least `LEAST_PAIRS` pairs; none where sources are unknown."""
    if source is None:
        return np.zeros(0, np.int64)
    names, count = np.unique(source, return_counts=True)
    return names[count >= LEAST_PAIRS]


class _Part(NamedTuple):
    """Mean z (rubric,) of a part of the pairs, and the variance of that mean (rubric,)."""

    mean: Floats
    variance: Floats


def _part(z: Any, prompt: Ints) -> _Part:
    return _Part(_mean(z), variance_of_mean(z, prompt) + NOTHING)


def _summed(parts: Sequence[_Part], grams: Floats, *, doubting: bool) -> Moments:
    """Return the moments of parts that count the same; `grams` is the sum of their means of z zᵀ."""
    mean, gram = np.mean([part.mean for part in parts], axis=0), grams / len(parts)
    if not doubting or len(parts) < LEAST_SOURCES:
        return Moments(mean=mean, gram=gram, doubt=np.ones(len(mean)))
    between = between_sources(np.array([part.mean for part in parts]), np.array([part.variance for part in parts]))
    doubt = 1 + between / max(float(between.mean()), np.finfo(np.float64).tiny)
    return Moments(mean=mean, gram=gram, doubt=doubt)


def _gained(
    z: Any, prompt: Ints, parts: Sequence[Ints], held: Sequence[_Part], total: Floats, place: int, *, doubting: bool
) -> Floats:
    """Return the points (pair, ridge) on one part of what the others teach; `total` is the sum of all parts' grams."""
    grams, others = total - _mean_gram(z[parts[place]]), []
    for number, rows in enumerate(parts):
        if number == place:
            continue
        kept = rows[~np.isin(prompt[rows], prompt[parts[place]])]
        if len(kept) < len(rows):
            grams = grams - _mean_gram(z[rows])
        if 0 < len(kept) < len(rows):
            grams = grams + _mean_gram(z[kept])
        if len(kept):
            others.append(held[number] if len(kept) == len(rows) else _part(z[kept], prompt[kept]))
    if not others:
        return np.full((len(parts[place]), len(RIDGES)), 0.5)
    margins = z[parts[place]] @ weights(_summed(others, grams, doubting=doubting), RIDGES).T
    return np.asarray(0.5 + 0.5 * np.sign(np.where(np.abs(margins) < SAME, 0, margins)))


def _parts(source: Ints | None, pairs: int) -> list[Ints]:
    """Return the rows of each source that is large enough; all rows as one source where none is."""
    large = large_sources(source)
    if source is None or not len(large):
        return [np.arange(pairs)]
    return [np.flatnonzero(source == name) for name in large]


def _prompt_parts(prompt: Ints, seed: int) -> list[Ints]:
    """Return the rows of up to `PARTS` parts that share no prompt."""
    prompts, number = np.unique(prompt, return_inverse=True)
    part = np.random.default_rng([seed, 9]).permutation(np.arange(len(prompts)) % PARTS)[number]
    return [np.flatnonzero(part == name) for name in np.unique(part)]


def sum_of_grams(z: Any, parts: Sequence[Ints]) -> Floats:
    """Return the sum over parts of their means of z zᵀ (rubric, rubric)."""
    out = np.zeros((z.shape[1], z.shape[1]))
    for rows in parts:
        out += _mean_gram(z[rows])
    return out


def _mean_gram(z: Any) -> Floats:
    """Return the mean of z zᵀ over the pairs (rubric, rubric), a block of pairs dense at a time."""
    out = np.zeros((z.shape[1], z.shape[1]))
    for block in rows_of(z.shape[0], BLOCK):
        dense: npt.NDArray[np.float32] = z[block].astype(np.float32).toarray()
        out += dense.T @ dense
    mean: Floats = out / max(1, z.shape[0])
    return mean


def _mean(z: Any) -> Floats:
    return np.asarray(z.mean(axis=0), np.float64).ravel()


class _Problem(NamedTuple):
    """G, m and the largest eigenvalue of G, in units of √p: v = w · √p has the same penalty for every rubric."""

    gram: jax.Array
    mean: jax.Array
    steepest: jax.Array


class _State(NamedTuple):
    """X, Y (rubric,), FISTA's pace, steps so far."""

    x: jax.Array
    y: jax.Array
    pace: jax.Array
    steps: jax.Array
    done: jax.Array


@jax.jit
def _solve(problem: _Problem, ridges: jax.Array) -> jax.Array:
    """Solve for each λ in turn by accelerated projected steps (Beck and Teboulle 2009) and return v (ridge, rubric)."""
    return cast("jax.Array", jax.lax.map(partial(_solved, problem), ridges))


def _solved(problem: _Problem, ridge: jax.Array) -> jax.Array:
    nothing = jnp.zeros_like(problem.mean)
    start = _State(nothing, nothing, jnp.float32(1), jnp.int32(0), jnp.bool_(False))
    more = lambda state: ~state.done & (state.steps < ITERATIONS)  # noqa: E731  (a line for a line)
    return jax.lax.while_loop(more, partial(_step, problem, ridge), start).x


def _step(problem: _Problem, ridge: jax.Array, state: _State) -> _State:
    """Step from Y; momentum begins anew where it points uphill (O'Donoghue and Candès 2015)."""
    bound = problem.steepest + ridge
    slope = problem.gram @ state.y + ridge * state.y - problem.mean
    x = optax.projections.projection_non_negative(state.y - slope / bound)
    uphill = jnp.sum((state.y - x) * (x - state.x)) > 0
    pace = jnp.where(uphill, 1.0, state.pace)
    next_pace = (1 + jnp.sqrt(1 + 4 * pace**2)) / 2
    momentum = jnp.where(uphill, 0.0, (pace - 1) / next_pace)
    moved = bound * jnp.sum((x - state.y) ** 2) / 2
    done = moved <= CONVERGED * jnp.sum(problem.mean * x)
    return _State(x, x + momentum * (x - state.x), next_pace, state.steps + 1, done)
