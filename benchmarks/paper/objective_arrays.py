"""Compare objectives of the fit on planted arrays, where the truth is known; no judge and no network.

    python benchmarks/paper/objective_arrays.py --world small --seeds 5
    python benchmarks/paper/objective_arrays.py --world large --seeds 5 --variants "literal (paper)" "kernel regression"

A world holds prompt types with six criteria each. A rubric measures one criterion of the type that it was mined from
and is noise on other types; a third is junk throughout. Prompts are mostly noise words and a few words of their type.
Each training pair is judged on 8 rubrics mined from the most similar other prompts and 10 drawn at random, its own left
out. Accuracy is taken as at inference: the best k of the whole bank by alpha · weight, on unseen prompts, all judged.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass, replace

import numpy as np
from objective_variants import LITERAL, VARIANTS, entries_of, features_of
from scipy.sparse import csr_matrix
from scipy.stats import ttest_rel

from svr_async.fit.arrays import FitArrays
from svr_async.fit.measure import accuracy

TRUTH = "truth"


@dataclass(frozen=True, kw_only=True)
class World:
    """Sizes and noise of a planted problem; `general` criteria matter, and are measured, on every type alike."""

    pairs: int
    types: int
    rubrics: int
    unseen: int = 1500
    criteria: int = 6
    general: int = 0
    junk: float = 1 / 3
    flip: float = 0.03  # of each verdict and of `better`: about one judgement in ten is wrong somewhere
    label_noise: float = 0.05
    words: int = 40
    type_words: float = 8.0
    keywords: int = 60
    vocabulary: int = 4096
    pool: int = 18
    near: int = 8
    dev: float = 0.05


SMALL = World(pairs=2850, types=12, rubrics=305)
LARGE = World(pairs=36_591, types=40, rubrics=1024)
WORLDS = {"small": SMALL, "large": LARGE, "small-general": replace(SMALL, general=1)}


@dataclass(frozen=True, kw_only=True, eq=False)
class Problem:
    """Arrays of a world, and the importance (pair, rubric) that one who knows the truth would use on unseen pairs."""

    train: FitArrays
    dev: FitArrays
    unseen: FitArrays
    truth: np.ndarray


def planted(world: World, seed: int) -> Problem:
    """Make one world from a seed."""
    rng = np.random.default_rng(seed)
    n = world.pairs + world.unseen
    types = rng.choice(world.types, n, p=rng.dirichlet(np.full(world.types, 3.0)))
    indptr, index, value = _features(world, types, rng)
    weight = np.sort(rng.gamma(2.0, 0.5, (world.types, world.criteria)), axis=1)[:, ::-1] + 0.15
    passes = rng.random((n, 2, world.criteria)) < 0.55
    score = passes[:, 0].astype(float) - passes[:, 1] + 0.2 * rng.normal(size=(n, world.criteria))
    noise = world.label_noise * np.linalg.norm(weight[types], axis=1) * rng.normal(size=n)
    sign = np.sign((weight[types] * score).sum(axis=1) + noise)
    source = rng.choice(world.pairs, world.rubrics, replace=False)
    junk = rng.random(world.rubrics) < world.junk
    share = weight[types[source]] / weight[types[source]].sum(axis=1, keepdims=True)
    criterion = np.array([rng.choice(world.criteria, p=p) for p in share])

    def judge(pair: np.ndarray, rubric: np.ndarray) -> np.ndarray:
        applies = (types[pair] == types[source][rubric]) | (criterion[rubric] < world.general)
        applies &= ~junk[rubric]
        at = (pair, slice(None), criterion[rubric])
        verdict = np.where(applies[..., None], passes[at], rng.random((*pair.shape, 2)) < 0.55)
        chance = verdict[..., 0] * 1.0 - verdict[..., 1] + 0.2 * rng.normal(size=pair.shape)
        better = np.sign(np.where(applies, score[pair, criterion[rubric]], chance))
        verdict ^= rng.random(verdict.shape) < world.flip
        better *= np.where(rng.random(pair.shape) < world.flip, -1, 1)
        delta = verdict[..., 0] * 1.0 - verdict[..., 1] + 0.25 * better
        return (delta * sign[pair]).astype(np.float32)

    features = csr_matrix((value, index, indptr), shape=(n, world.vocabulary))
    pools = _pools(world, features, source, rng)

    def arrays(rows: np.ndarray, rubric: np.ndarray) -> FitArrays:
        return FitArrays(
            n_rubrics=world.rubrics,
            n_features=world.vocabulary,
            feature_indptr=indptr,
            feature_index=index,
            feature_value=value,
            pair_prompt=rows,
            z_indptr=np.arange(len(rows) + 1) * rubric.shape[1],
            z_rubric=rubric.ravel().astype(np.int32),
            z_delta=judge(np.broadcast_to(rows[:, None], rubric.shape), rubric).ravel(),
            source_indptr=np.arange(world.rubrics + 1),
            source_prompt=source,
        )

    mined = np.isin(np.arange(world.pairs), source)
    dev = rng.permutation(np.flatnonzero(~mined))[: int(world.dev * world.pairs)]  # dev pairs never induce rubrics
    train = np.setdiff1d(np.arange(world.pairs), dev)
    unseen = np.arange(world.pairs, n)
    everything = np.broadcast_to(np.arange(world.rubrics), (world.unseen, world.rubrics))
    return Problem(
        train=arrays(train, pools[train]),
        dev=arrays(dev, pools[dev]),
        unseen=arrays(unseen, everything),
        truth=_truth(world, weight, types[source], criterion, junk)[types[unseen]],
    )


def _features(world: World, types: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return TF-IDF rows: Zipf words for all, and a few of each type's own rarer keywords."""
    prior = 1 / np.arange(1, world.vocabulary + 1) ** 0.9
    half = world.vocabulary // 2
    keywords = np.stack([half + rng.choice(half, world.keywords, replace=False) for _ in range(world.types)])
    n = len(types)
    common, own = np.maximum(8, rng.poisson(world.words, n)), rng.poisson(world.type_words, n)
    row = np.concatenate([np.repeat(np.arange(n), common), np.repeat(np.arange(n), own)])
    noise = rng.choice(world.vocabulary, common.sum(), p=prior / prior.sum())
    word = np.concatenate([noise, keywords[np.repeat(types, own), rng.integers(0, world.keywords, own.sum())]])
    counts = csr_matrix((np.ones(len(row)), (row, word)), shape=(n, world.vocabulary))
    counts.sum_duplicates()
    idf = np.log((1 + n) / (1 + np.bincount(counts.indices, minlength=world.vocabulary))) + 1
    value = counts.data * idf[counts.indices]
    length = np.sqrt(np.add.reduceat(value**2, counts.indptr[:-1]))
    value /= np.repeat(length, np.diff(counts.indptr))
    return counts.indptr.astype(np.int64), counts.indices, value.astype(np.float32)


def _pools(world: World, features: csr_matrix, source: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return each training pair's pool (pair, pool): near in words, then at random, never mined from the pair."""
    mined = features[source].T.tocsc()
    out = np.zeros((world.pairs, world.pool), np.int64)
    for first in range(0, world.pairs, 2048):
        rows = np.arange(first, min(first + 2048, world.pairs))
        near = (features[rows] @ mined).toarray() + 1e-6 * rng.random((len(rows), world.rubrics))
        own = source[None] == rows[:, None]
        near[own] = -1
        closest = np.argpartition(-near, world.near, axis=1)[:, : world.near]
        draw = np.where(own, 2.0, rng.random(near.shape))
        np.put_along_axis(draw, closest, 3.0, axis=1)
        others = world.pool - world.near
        out[rows] = np.concatenate([closest, np.argpartition(draw, others, axis=1)[:, :others]], axis=1)
    return np.sort(out, axis=1)


def _truth(
    world: World, weight: np.ndarray, rubric_type: np.ndarray, criterion: np.ndarray, junk: np.ndarray
) -> np.ndarray:
    """Return the true weights by type (type, rubric): each criterion's first rubric in full, its repeats a tenth."""
    out = np.zeros((world.types, world.rubrics))
    for kind in range(world.types):
        for c in range(world.criteria):
            speaks = (rubric_type == kind) | (c < world.general)
            same = np.flatnonzero(speaks & (criterion == c) & ~junk)
            out[kind, same] = weight[kind, c] / 10
            out[kind, same[:1]] = weight[kind, c]
    return out


def best_accuracy(importance: np.ndarray, arrays: FitArrays, top_k: int) -> float:
    """Return accuracy with the best `top_k` judged rubrics of each pair by `importance` (pair, rubric)."""
    judged = entries_of(arrays)
    rows = np.repeat(np.arange(arrays.n_pairs), np.diff(judged.indptr))
    kept, z = np.zeros((2, *importance.shape))
    kept[rows, judged.indices], z[rows, judged.indices] = importance[rows, judged.indices], judged.data
    chosen = np.argsort(-kept, axis=1, kind="stable")[:, :top_k]
    used = np.maximum(np.take_along_axis(kept, chosen, axis=1), 0)
    return accuracy((used * np.take_along_axis(z, chosen, axis=1)).sum(axis=1))


def run_variant(name: str, problem: Problem, seed: int) -> tuple[float, float, float]:
    """Return the accuracy on unseen prompts with the top 6 and the top 12, and the honest dev accuracy where any."""
    if name == TRUTH:
        return (*(best_accuracy(problem.truth, problem.unseen, k) for k in (6, 12)), float("nan"))
    learned = VARIANTS[name](problem.train, problem.dev, seed)
    unseen, dev = (learned(features_of(part)[part.pair_prompt]) for part in (problem.unseen, problem.dev))
    both = [best_accuracy(unseen, problem.unseen, k) for k in (6, 12)]
    return both[0], both[1], best_accuracy(dev, problem.dev, 6)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--world", choices=WORLDS, default="small")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=0)
    names = [TRUTH, *VARIANTS]
    parser.add_argument("--variants", nargs="+", default=names, choices=names, metavar="VARIANT")
    args = parser.parse_args()
    found: dict[str, list[tuple[float, float, float]]] = {name: [] for name in args.variants}
    for seed in range(args.first_seed, args.first_seed + args.seeds):
        problem = planted(WORLDS[args.world], seed)
        for name in args.variants:
            began = time.perf_counter()
            found[name].append(run_variant(name, problem, seed))
            print(f"seed {seed} {name}: {found[name][-1]} {time.perf_counter() - began:.1f} s", file=sys.stderr)
    print(table(found))


def table(found: dict[str, list[tuple[float, float, float]]]) -> str:
    """Return means and standard deviations over worlds, and each variant's paired difference from the literal loss."""
    out = [
        "| variant | top 6, % | top 12, % | dev, % | top 6 minus literal | p (paired t) |",
        "|---|---|---|---|---|---|",
    ]
    values = {name: 100 * np.array(rows) for name, rows in found.items()}
    literal = values.get(LITERAL)
    for name, rows in values.items():
        cells = [_cell(rows[:, column]) for column in range(3)]
        versus = ["–", "–"]
        if literal is not None and name != LITERAL and len(rows) > 1:
            difference = rows[:, 0] - literal[:, 0]
            p = ttest_rel(rows[:, 0], literal[:, 0]).pvalue
            versus = [f"{difference.mean():+.1f}", f"{p:.1g}"]
        out.append(f"| {name} | {' | '.join(cells + versus)} |")
    return "\n".join(out)


def _cell(values: np.ndarray) -> str:
    if np.isnan(values).any():
        return "–"
    return f"{values.mean():.1f} ± {values.std(ddof=1) if len(values) > 1 else 0:.1f}"


if __name__ == "__main__":
    main()
