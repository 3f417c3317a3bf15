"""How a variant does on held pairs: the package's choice of rubrics at inference, and yardsticks that choose none.

Points of a pair are 1 where F > 0, ½ for a tie and else 0, as training counts them on its dev split.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from objective_data import Held, Problem
from objective_variants import LITERAL, Importance, Variant, entries_of
from regression import logistic, points

from svr_async.scoring.bank import InferenceSettings
from svr_async.scoring.selection import TextSimilarities, select
from svr_async.training.config import TrainConfig

DEV = "dev"
BY_DEV = "k by dev"
FIXED = {"top 6": 6, "top 12": 12}
UNIFORM = "uniform"  # before a column's name: the chosen rubrics weigh 1 each (`--method uniform`)
WIDE = (6, 12, 24, 48, 96, 192)  # what dev chooses from where judging is free

Points = dict[str, np.ndarray]  # by the name of a set of pairs: `dev`, and the tests


@dataclass(frozen=True, kw_only=True)
class Score:
    """What one variant scored in one world: points by column, then by set; settings that dev chose; seconds to fit."""

    columns: Mapping[str, Points]
    settings: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    seconds: float = 0.0


def run_variant(name: str, variant: Variant, problem: Problem, similarities: TextSimilarities) -> Score:
    """Fit a variant and score its choice of rubrics on the dev pairs and on all tests."""
    began = time.perf_counter()
    importance = variant(problem.train, problem.dev, problem.seed)
    seconds = time.perf_counter() - began
    return score(importance, problem, similarities, fillers(name, problem), seconds)


def fillers(name: str, problem: Problem) -> tuple[float, ...]:
    """Return the filler weights that dev chooses from, as `svr train` does: 1 for the paper, 0 for free judges."""
    if name == LITERAL:
        return (1.0,)
    return (0.0,) if problem.free else TrainConfig().filler_weights


def score(
    importance: Importance,
    problem: Problem,
    similarities: TextSimilarities,
    choices: Sequence[float],
    seconds: float = 0.0,
) -> Score:
    """Score an importance with each fixed k, and for free judges also with the k that does best on dev."""
    sets = {DEV: problem.dev_held, **problem.tests}
    matrices = {name: importance(held.prompts) for name, held in sets.items()}
    columns: dict[str, Points] = {}
    settings: dict[str, Mapping[str, float]] = {}
    tried: dict[int, tuple[Points, float]] = {}
    wide = WIDE if problem.free and max(choices) == 0 else ()
    for k in sorted({*FIXED.values(), *wide}):
        parts = {name: margins(matrices[name], held, similarities, k, choices) for name, held in sets.items()}
        filler = max(sorted(choices), key=lambda weight: _mean(parts[DEV], weight))  # the first of equals
        tried[k] = ({name: points(part.at(filler)) for name, part in parts.items()}, filler)
        for column in (column for column, fixed in FIXED.items() if fixed == k):
            columns[column], settings[column] = tried[k][0], {"k": k, "filler": filler}
            columns[f"{UNIFORM} {column}"] = {name: points(part.equal) for name, part in parts.items()}
    if problem.free:
        k = max(sorted(tried), key=lambda one: round(float(tried[one][0][DEV].mean()), 6))
        columns[BY_DEV], settings[BY_DEV] = tried[k][0], {"k": k, "filler": tried[k][1]}
    return Score(columns=columns, settings=settings, seconds=seconds)


@dataclass(frozen=True, kw_only=True, eq=False)
class Margins:
    """F of each pair in parts: from the rubrics with importance, from fillers of weight 1, and with all weights 1."""

    chosen: np.ndarray
    filled: np.ndarray
    equal: np.ndarray

    def at(self, filler: float) -> np.ndarray:
        """Return F with fillers of this weight."""
        return self.chosen + filler * self.filled


def margins(
    importance: np.ndarray, held: Held, similarities: TextSimilarities, top_k: int, choices: Sequence[float]
) -> Margins:
    """Return F of held pairs from the rubrics that `scoring.selection` chooses by `importance` (prompt, rubric)."""
    weight, filler = _best(importance, top_k) if max(choices) == 0 else _chosen(importance, similarities, top_k)
    z = np.nan_to_num(held.z)

    def summed(part: np.ndarray) -> np.ndarray:
        return np.einsum("pr,pr->p", part[held.pair_prompt], z)

    own = np.where(filler, 0.0, weight)
    used = (own > 0) | filler if max(choices) > 0 else own > 0
    return Margins(chosen=summed(own), filled=summed(filler.astype(float)), equal=summed(used.astype(float)))


def _best(importance: np.ndarray, top_k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the importance of the best `top_k` of each prompt, else 0: what `select` chooses without fillers."""
    last = np.argsort(-importance, axis=1, kind="stable")[:, top_k:]
    weight = np.maximum(importance, 0).astype(np.float64)
    np.put_along_axis(weight, last, 0.0, axis=1)
    return weight, np.zeros(importance.shape, bool)


def _chosen(importance: np.ndarray, similarities: TextSimilarities, top_k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the importance of each prompt's chosen rubrics, fillers with a weight of 1, and which are fillers."""
    pool = max(TrainConfig().selection_pool, top_k)
    rule = InferenceSettings(top_k=top_k, selection_pool=pool, filler_weight=1.0)
    ones = np.ones(importance.shape[1], np.float32)
    weight, filler = np.zeros_like(importance, dtype=np.float64), np.zeros(importance.shape, bool)
    for row, values in enumerate(importance):
        for entry in select(values.astype(np.float32), ones, similarities, rule):
            weight[row, entry.index] = entry.importance
            filler[row, entry.index] = entry.filler
    return weight, filler


def _mean(part: Margins, filler: float) -> float:
    return round(float(points(part.at(filler)).mean()), 6)


# ── yardsticks ──────────────────────────────────────────────────────────────────────────────────────────────────────


def yardsticks(problem: Problem) -> dict[str, Score]:
    """Return what choosing no rubrics gives; the same points in all columns."""
    sets = {DEV: problem.dev_held, **problem.tests}
    found = {
        "longest answer": {name: held.longer.astype(float) for name, held in sets.items()},
        "whole bank, equal weights": {name: np.nan_to_num(held.z).sum(axis=1) for name, held in sets.items()},
    }
    lr = logistic(entries_of(problem.train).toarray(), problem.train.pair_prompt)
    found["logistic regression, whole bank"] = {name: np.nan_to_num(held.z) @ lr for name, held in sets.items()}
    if problem.checks is not None:
        lr = logistic(np.nan_to_num(problem.checks), problem.train.pair_prompt)
        found["logistic regression, all checks"] = {
            name: np.nan_to_num(held.checks) @ lr for name, held in sets.items() if held.checks is not None
        }
    columns = [*FIXED, *([BY_DEV] if problem.free else [])]
    scores = {}
    for name, by_set in found.items():
        scored = {one: points(margin) for one, margin in by_set.items()}
        scores[name] = Score(columns=dict.fromkeys(columns, scored))
    return scores


def truth(problem: Problem, similarities: TextSimilarities) -> Score | None:
    """Return the score of one who knows the planted weights; None for real pairs."""
    name, held = next(iter(problem.tests.items()))
    if held.truth is None:
        return None
    by_pair = replace(held, pair_prompt=np.arange(len(held.z)))  # `truth` has a row a pair
    found = {column: margins(held.truth, by_pair, similarities, k, (0.0,)) for column, k in FIXED.items()}
    return Score(columns={column: {name: points(part.chosen)} for column, part in found.items()})
