"""Leave-one-out scores of learners over sources, kept on disk, and the Markdown tables of them."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from judged import FOLD_SALT, say
from scores import points
from sources_data import Judged, joined, without_prompts_of
from sources_learners import ENOUGH, Learner
from sources_moments import variance_of_mean

from svr_async.core.pair import hashed_fraction
from svr_async.core.statistics import bootstrap_interval

HELD_OUT = 0.2
LONGEST, GENERAL = "longest answer", "general checks"
Apart = Callable[[Judged], str]
APART: Mapping[str, Apart] = {"source": lambda one: one.source.name, "family": lambda one: one.source.family}


@dataclass(frozen=True, slots=True)
class Gap:
    """A mean difference and its standard error, as fractions of 1."""

    mean: float
    error: float

    def __str__(self) -> str:
        return f"{100 * self.mean:+.1f} ± {100 * self.error:.1f}"


def left_out(learner: Learner, sources: Sequence[Judged], apart: Apart) -> dict[str, np.ndarray]:
    """Return the points of each source's pairs, from what was learned on the counted sources that stand apart from it.

    Pairs whose prompt is asked about are not learned from. Sources that are not counted are only asked, all together.
    """
    asked: dict[str, list[Judged]] = defaultdict(list)
    for judged in sources:
        asked[apart(judged) if judged.source.counted else ""].append(judged)
    found = {}
    for key, group in asked.items():
        others = [one for one in sources if one.source.counted and apart(one) != key]
        kept = [part for part in (without_prompts_of(one, *group) for one in others) if len(part.z)]
        decide = learner(kept)
        found |= {judged.source.name: points(decide(judged)) for judged in group}
    return {one.source.name: found[one.source.name] for one in sources}


def by_prompt(learner: Learner, sources: Sequence[Judged], *, apart: bool) -> tuple[np.ndarray, Judged]:
    """Return the points of held-out pairs of some sources, and these pairs, after learning on their other prompts.

    The prompts are those that `svr data split --share 0.2` holds out. With `apart` each source counts as one, else all
    are one source.
    """
    tests = [np.array([hashed_fraction("split", FOLD_SALT, text) < HELD_OUT for text in one.texts]) for one in sources]
    train = [one.rows(~test) for one, test in zip(sources, tests, strict=True)]
    held = joined([one.rows(test) for one, test in zip(sources, tests, strict=True)])
    return points(learner(train if apart else [joined(train)])(held)), held


def by_prompt_table(learners: Mapping[str, Learner], sources: Sequence[Judged]) -> str:
    """Return a row for each learner: accuracy on held-out prompts, with all as one source and with subsets apart."""
    rows = ["| learner | as one source | subsets as sources |", "|---|---|---|"]
    for name, learner in learners.items():
        say(f"{name}, RMB by prompt")
        cells = []
        for apart in (False, True):
            found, held = by_prompt(learner, sources, apart=apart)
            low, high = bootstrap_interval(found, clusters=held.prompt.tolist())
            cells.append(f"{100 * found.mean():.1f} % [{100 * low:.1f}, {100 * high:.1f}]")
        rows.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(rows)


def scored(
    name: str, learner: Learner, sources: Sequence[Judged], mode: str, kept: Path, *, fresh: bool
) -> dict[str, np.ndarray]:
    """Return `left_out`, from the file of an earlier run unless `fresh`."""
    folder = hashlib.sha256(name.encode()).hexdigest()[:16]
    path = kept / mode / f"{folder}.npz"
    if path.exists() and not fresh:
        with np.load(path) as held:
            return dict(held)
    say(f"{name}, left out by {mode}")
    found = left_out(learner, sources, APART[mode])
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(path, allow_pickle=False, **found)
    return found


def gap(first: np.ndarray, second: np.ndarray, prompt: np.ndarray) -> Gap:
    """Return what the second has above the first, with the standard error over prompts."""
    above = second - first
    return Gap(float(above.mean()), float(np.sqrt(variance_of_mean(above, prompt))))


def mean_gap(gaps: Sequence[Gap]) -> Gap:
    """Return the mean over sources, each the same, and its standard error over prompts within them."""
    return Gap(
        float(np.mean([one.mean for one in gaps])), float(np.sqrt(sum(one.error**2 for one in gaps))) / len(gaps)
    )


def in_the_mean(sources: Sequence[Judged]) -> list[Judged]:
    """Return the sources that the means are over: counted ones with enough pairs."""
    return [one for one in sources if one.source.counted and len(one.z) >= ENOUGH]


def summary(found: Mapping[str, Mapping[str, np.ndarray]], sources: Sequence[Judged]) -> str:
    """Return a row for each learner: means over sources and differences to the two that learn nothing here."""
    heads = (
        "learner", "mean over sources", "to the longest", "to the general checks", "RMB, to the longest",
        "others, to the longest", "below the longest by more than a standard error",
    )  # fmt: skip
    rows = [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
    kept = in_the_mean(sources)
    for name, by_source in found.items():
        longest = [_gap(found[LONGEST], by_source, one) for one in kept]
        general = [_gap(found[GENERAL], by_source, one) for one in kept]
        rmb = [one.source.family == "rmb" for one in kept]
        inside = [g for g, own in zip(longest, rmb, strict=True) if own]
        outside = [g for g, own in zip(longest, rmb, strict=True) if not own]
        below = [one.source.name for one, g in zip(kept, longest, strict=True) if g.mean < -g.error]
        mean = np.mean([by_source[one.source.name].mean() for one in kept])
        cells = [
            name, f"{100 * mean:.1f} %", mean_gap(longest), mean_gap(general), mean_gap(inside), mean_gap(outside),
            ", ".join(below) or "none",
        ]  # fmt: skip
        rows.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(rows)


def detail(found: Mapping[str, Mapping[str, np.ndarray]], sources: Sequence[Judged], name: str) -> str:
    """Return a row for each source: accuracy of one learner with its interval, and the differences."""
    rows = [
        f"| source | pairs | prompts | longest | general | {name} | 95 % | to the longest | to the general checks |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for one in sources:
        key = one.source.name
        low, high = bootstrap_interval(found[name][key], clusters=one.prompt.tolist())
        cells = [
            key if one in in_the_mean(sources) else f"*{key}*",
            f"{len(one.z):,}",
            f"{len(np.unique(one.prompt)):,}",
            *(f"{100 * found[which][key].mean():.1f}" for which in (LONGEST, GENERAL, name)),
            f"{100 * low:.1f} – {100 * high:.1f}",
            _gap(found[LONGEST], found[name], one),
            _gap(found[GENERAL], found[name], one),
        ]
        rows.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(rows)


def _gap(first: Mapping[str, np.ndarray], second: Mapping[str, np.ndarray], one: Judged) -> Gap:
    return gap(first[one.source.name], second[one.source.name], one.prompt)
