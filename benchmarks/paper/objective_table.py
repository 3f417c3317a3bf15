"""Results as files and as Markdown: means over seeds, paired differences and how likely chance is to make them.

Differences have a 95 % bootstrap interval over prompts. `p, seeds` is a paired t test over seeds; `p, pairs` is over
all pairs, those of a prompt as one. A star: that is below 5 % after Holm's correction for the column's rows.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
from objective_score import BY_DEV, DEV, FIXED, UNIFORM, Score
from objective_variants import LITERAL, USUAL
from scipy.stats import ttest_rel

from svr_async.vocabulary.atomic import write_atomic
from svr_async.vocabulary.statistics import holm, paired_difference_interval

RESAMPLES = 2000
CHOSEN = "**chosen by dev accuracy, seed by seed**"
EQUAL = "default's rubrics, weights 1"
RUNNERS_UP = 3
SIGNIFICANT = 0.05
SMALLEST_P = 0.001  # smaller ones are only said to be smaller


@dataclass(slots=True)
class WorldResult:
    """All scores in one world, as kept on disk: `points` by variant, column and set, with the prompt of each pair.

    `own` names the test that is of the training pairs' kind; other tests are the same pairs for every seed.
    """

    name: str
    group: str
    seed: int
    own: str
    prompts: dict[str, np.ndarray]
    candidates: list[str] = field(default_factory=list)
    points: dict[str, dict[str, dict[str, np.ndarray]]] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    def add(self, name: str, score: Score, *, candidate: bool) -> None:
        """Take in a score; a `candidate` is a bank that dev accuracy could choose."""
        self.points[name] = {column: dict(by_set) for column, by_set in score.columns.items()}
        self.settings[name], self.seconds[name] = dict(score.settings), round(score.seconds, 1)
        if candidate and name not in self.candidates:
            self.candidates.append(name)

    def save(self, path: Path) -> None:
        """Write the result as JSON; the points of a set are one text of 0, 1 and 2 halves."""
        value = {name: getattr(self, name) for name in ("name", "group", "seed", "own", "candidates")}
        value |= {"settings": self.settings, "seconds": self.seconds}
        value["prompts"] = {name: rows.tolist() for name, rows in self.prompts.items()}
        value["points"] = _walk(self.points, lambda held: "".join(str(int(2 * point)) for point in held))
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, json.dumps(value).encode())

    @classmethod
    def load(cls, path: Path) -> WorldResult:
        """Read what `save` wrote."""
        value = json.loads(path.read_text("utf-8"))
        value["prompts"] = {name: np.array(rows) for name, rows in value["prompts"].items()}
        value["points"] = _walk(value["points"], lambda text: np.frombuffer(text.encode(), np.uint8) / 2 - 24)
        return cls(**value)


def _walk(tree: Any, leaf: Callable[[Any], Any]) -> Any:
    return {name: _walk(part, leaf) for name, part in tree.items()} if isinstance(tree, dict) else leaf(tree)


def report(worlds: Sequence[WorldResult]) -> str:
    """Return the tables of all groups and tests, and what dev accuracy would choose."""
    groups = sorted({world.group for world in worlds}, key=lambda name: (name == "real", len(name), name))
    parts = []
    for group in groups:
        members = [world for world in worlds if world.group == group]
        for world in members:
            _choose(world, _shared(members))
        parts += [_table(members, group, test) for test in members[0].prompts if test != DEV]
        parts.append(_chosen_text(members))
    parts.append(_overall_text([[world for world in worlds if world.group == group] for group in groups]))
    return "\n\n".join(parts)


def _shared(worlds: Sequence[WorldResult]) -> list[str]:
    """Return the candidates that every world has a score of."""
    return [name for name in worlds[0].candidates if all(name in world.points for world in worlds)]


def _choose(world: WorldResult, candidates: Sequence[str]) -> None:
    """Add the row of the variant with the best dev accuracy in each column, and the one of uniform weights."""
    best = {c: max(candidates, key=lambda name: _dev(world, name, c)) for c in _columns(world)}  # the first of equals
    world.points[CHOSEN] = {column: world.points[name][column] for column, name in best.items()}
    if USUAL in world.points:
        usual = world.points[USUAL]
        world.points[EQUAL] = {c: usual[f"{UNIFORM} {c}"] for c in FIXED}


def _columns(world: WorldResult) -> list[str]:
    first = world.points[world.candidates[0]]
    return [column for column in (*FIXED, BY_DEV) if column in first]


def _dev(world: WorldResult, name: str, column: str) -> float:
    return float(world.points[name][column][DEV].mean())


def _chosen_text(worlds: Sequence[WorldResult]) -> str:
    """Say which variants do best on dev in the mean, and how sure their distance from the best is."""
    lines = []
    for column in _columns(worlds[0]):
        means = {name: np.mean([_dev(world, name, column) for world in worlds]) for name in _shared(worlds)}
        best, *others = sorted(means, key=lambda name: -means[name])
        text = [f"{best} {100 * means[best]:.1f}"]
        for name in others[:RUNNERS_UP]:
            p = difference(worlds, name, best, column, DEV).p_pairs
            text.append(f"{name} {100 * means[name]:.1f} (p, pairs {_p(p)})")
        lines.append(f"Best mean dev accuracy, {column}: {'; '.join(text)}.")
    return "\n".join(lines)


def _overall_text(groups: Sequence[Sequence[WorldResult]]) -> str:
    """Return the variants in the order of their mean dev accuracy over all groups, each group counting the same."""
    names = [name for name in _shared(groups[0]) if all(name in _shared(worlds) for worlds in groups)]
    lines = []
    for column in FIXED:
        means = {
            name: np.mean([np.mean([_dev(w, name, column) for w in worlds]) for worlds in groups]) for name in names
        }
        text = "; ".join(f"{name} {100 * means[name]:.1f}" for name in sorted(means, key=lambda name: -means[name]))
        lines.append(f"Dev accuracy over all worlds, {column}: {text}.")
    return "\n".join(lines)


# ── one table ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _table(worlds: Sequence[WorldResult], group: str, test: str) -> str:
    columns = _columns(worlds[0])
    own = test == worlds[0].own
    pairs = [len(world.prompts[test]) for world in worlds]
    size = f"{sum(pairs):,} unseen pairs" if own else f"{pairs[0]:,} pairs, the same for each seed"
    title = f"**{group}, {test}** ({len(worlds)} seeds; {size})"
    head = ["variant", *(["dev, top 6"] if own else []), "top 6"]
    for reference in ("literal", "default"):
        head += [f"minus {reference}", "p, seeds", "p, pairs"]
    for column in columns[1:]:
        head += [*([f"dev, {column}"] if own and column == BY_DEV else []), column, "minus default", "p, pairs"]
    names = [name for name in _names(worlds) if test in worlds[0].points[name][columns[0]]]
    cells = {name: _row_start(worlds, name, test, own=own) for name in names}
    for reference in (LITERAL, USUAL):
        _add_differences(cells, worlds, reference, columns[0], test, seeds=True)
    for column in columns[1:]:
        for name in names:
            if own and column == BY_DEV:
                cells[name].append(_spread(worlds, name, column, DEV))
            cells[name].append(_spread(worlds, name, column, test))
        _add_differences(cells, worlds, USUAL, column, test, seeds=False)
    rows = [f"| {name} | {' | '.join(row)} |" for name, row in cells.items()]
    return "\n".join([title, "", f"| {' | '.join(head)} |", "|---" * len(head) + "|", *rows])


def _names(worlds: Sequence[WorldResult]) -> list[str]:
    """Return the rows that every world has: yardsticks, candidates, what dev chose."""
    shared = [name for name in worlds[0].points if all(name in world.points for world in worlds)]
    candidates = worlds[0].candidates
    last = [name for name in shared if name in (CHOSEN, EQUAL)]
    return [
        *(name for name in shared if name not in candidates and name not in last),
        *(name for name in shared if name in candidates),
        *last,
    ]


def _row_start(worlds: Sequence[WorldResult], name: str, test: str, *, own: bool) -> list[str]:
    return [_spread(worlds, name, "top 6", one) for one in ((DEV, test) if own else (test,))]


def _spread(worlds: Sequence[WorldResult], name: str, column: str, part: str) -> str:
    if any(part not in world.points[name].get(column, {}) for world in worlds):
        return "–"
    values = 100 * np.array([world.points[name][column][part].mean() for world in worlds])
    return f"{values.mean():.1f} ± {values.std(ddof=1):.1f}" if len(values) > 1 else f"{values[0]:.1f}"


def _add_differences(
    cells: dict[str, list[str]], worlds: Sequence[WorldResult], reference: str, column: str, test: str, *, seeds: bool
) -> None:
    """Append the difference from a reference with its p-values to every row; a star is for 5 % after Holm."""
    found = {
        name: difference(worlds, name, reference, column, test)
        for name in cells
        if name != reference and all(_has(world, name, reference, column, test) for world in worlds)
    }
    adjusted = dict(zip(found, holm([one.p_pairs for one in found.values()]), strict=True)) if found else {}
    for name, row in cells.items():
        if name not in found:
            row.extend(["–"] * (3 if seeds else 2))
            continue
        one = found[name]
        star = "*" if adjusted[name] < SIGNIFICANT else ""
        row.append(f"{100 * one.mean:+.1f} [{100 * one.low:.1f}, {100 * one.high:.1f}]{star}")
        row.extend([*([_p(one.p_seeds)] if seeds else []), _p(one.p_pairs)])


def _has(world: WorldResult, name: str, reference: str, column: str, test: str) -> bool:
    return all(test in world.points.get(one, {}).get(column, {}) for one in (name, reference))


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A mean difference in points, its bootstrap interval over prompts, and two p-values; NaN with one seed."""

    mean: float
    low: float
    high: float
    p_seeds: float
    p_pairs: float


def difference(worlds: Sequence[WorldResult], name: str, reference: str, column: str, test: str) -> Difference:
    """Compare two variants on the same pairs.

    `p_seeds` is a paired t test over seeds. `p_pairs` pools the pairs: a two-sided normal test of the mean difference
    whose error counts pairs of one prompt as one; tests that are the same for every seed are averaged over seeds first.
    (Dev pairs of two folds may be the same; they are pooled all the same.)
    """
    first, second = ([world.points[one][column][test].astype(float) for world in worlds] for one in (reference, name))
    means = [np.array([part.mean() for part in parts]) for parts in (first, second)]
    p_seeds = float(ttest_rel(means[1], means[0]).pvalue) if len(worlds) > 1 and np.ptp(means[1] - means[0]) else np.nan
    labels = [world.prompts[test] for world in worlds]
    if test in (DEV, worlds[0].own):
        starts = np.cumsum([0, *(int(rows.max()) + 1 for rows in labels)])
        prompts = np.concatenate([rows + start for rows, start in zip(labels, starts, strict=False)])
        before, after = np.concatenate(first), np.concatenate(second)
    else:
        prompts, before, after = labels[0], np.mean(first, axis=0), np.mean(second, axis=0)
    low, high = paired_difference_interval(before, after, clusters=prompts.tolist(), resamples=RESAMPLES)
    return Difference(
        mean=float((after - before).mean()),
        low=low,
        high=high,
        p_seeds=p_seeds,
        p_pairs=_clustered_p(after - before, prompts),
    )


def _clustered_p(values: np.ndarray, clusters: np.ndarray) -> float:
    """Return the two-sided p of a mean of 0; the error sums deviations within clusters before squaring them."""
    sums = np.bincount(clusters, values - values.mean())
    error = float(np.sqrt((sums**2).sum())) / len(values)
    if error == 0:
        return 1.0 if values.mean() == 0 else 0.0
    return 2 * NormalDist().cdf(-abs(float(values.mean())) / error)


def _p(value: float) -> str:
    if np.isnan(value):
        return "–"
    return "< 0.001" if value < SMALLEST_P else f"{value:.1g}"
