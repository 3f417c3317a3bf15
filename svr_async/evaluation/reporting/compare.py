"""Runs against each other on the items they share: McNemar or sign flips, bootstrap of the difference, Holm."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import orjson

from svr_async.adapters import ADAPTERS
from svr_async.core.statistics import (
    Interval,
    holm,
    mcnemar_exact,
    newcombe_interval,
    paired_counts,
    paired_difference_interval,
    sign_flip_exact,
    wilson_interval,
)
from svr_async.errors import UsageError
from svr_async.evaluation.items import Item
from svr_async.evaluation.labels import benchmark_name, mark_words, run_titles
from svr_async.evaluation.noise import Noise, NoiseEffect, asked_apart, noise_effect
from svr_async.evaluation.run_folder import Run
from svr_async.evaluation.wording import plural, points

SIGNIFICANT = 0.05
HOLM = (
    "p: how often chance alone would part two equally good runs this far. Holm: p raised because several tests are "
    "made at once; a difference is taken as shown at 0.05 or below."
)
_Key = tuple[str, int]
_Tester = Callable[[Mapping[_Key, Item], Mapping[_Key, Item], Sequence[_Key]], "PairedTest"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """One run by itself. Accuracies are strict, as fractions of 1."""

    title: str
    name: str
    benchmark: str
    method: str
    judge: str
    marks: tuple[str, ...]
    n_total: int
    coverage: float | None
    accuracy: float | None
    ci95: Interval | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedTest:
    """Two runs on the same items. `difference` is second − first; `p_holm` is adjusted within its family.

    With a judge's `noise` the interval is never narrower than that noise by itself makes it.
    """

    n: int
    accuracy_first: float
    accuracy_second: float
    difference: float
    ci95: Interval
    both: int
    only_first: int
    only_second: int
    neither: int
    p: float
    p_holm: float
    noise: NoiseEffect | None = None

    @property
    def significant(self) -> bool:
        """Whether the adjusted p-value is at most 0.05."""
        return self.p_holm <= SIGNIFICANT


@dataclass(frozen=True, slots=True, kw_only=True)
class Duel:
    """The first run against a later one: overall, and per domain (Holm over the domains).

    `only_in_first` and `only_in_second` count the items that the other run does not have.
    """

    first: str
    second: str
    only_in_first: int
    only_in_second: int
    overall: PairedTest
    domains: Mapping[str, PairedTest]

    @property
    def verdict(self) -> str:
        """One sentence that says what was found."""
        found, gap = self.overall, points(abs(self.overall.difference)).lstrip("+")
        if not found.significant:
            return f"No difference shown on {plural(found.n, 'shared pair')}: the gap of {gap} points may be chance."
        better = self.second if found.difference > 0 else self.first
        return f"{better} is better by {gap} points of strict accuracy on {plural(found.n, 'shared pair')}."


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Every later run against the first (Holm over these), with what makes the comparison doubtful."""

    runs: tuple[RunSummary, ...]
    duels: tuple[Duel, ...]
    warnings: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values, keys as the fields; an interval is [low, high]."""
        plain: dict[str, Any] = orjson.loads(orjson.dumps(self, default=list))
        return plain


def item_of(item: Item) -> str:
    """Return the benchmark's item that a pair belongs to: what the bootstrap draws as a whole."""
    return item.item


def compare_runs(
    runs: Sequence[Run],
    *,
    seed: int = 0,
    cluster: Callable[[Item], str] | None = None,
    require_shared: bool = True,
    noise: Noise | None = None,
) -> Comparison:
    """Compare every later run with the first on the items both have.

    Items are paired by id (the n-th of a repeated id with the n-th); those without a right answer take no part, and
    an item without a verdict counts as wrong. `cluster` names what belongs together (the prompt of several pairs): the
    bootstrap draws it as a whole and the test flips it as a whole; by default every item stands alone.
    `noise` is the judge's own, measured apart. UsageError where a run shares no item with the first, unless
    `require_shared` is off: it then has no test, and a warning says so.
    """
    if len(runs) < 2:
        raise UsageError(f"a comparison needs two runs or more (got {len(runs)})", hint="svr compare RUN RUN…")
    titles = run_titles(runs)
    drawn = partial(_test, seed=seed, cluster=cluster, noise=noise)
    tried = [_duel(runs[0], run, (titles[0], title), drawn) for run, title in zip(runs[1:], titles[1:], strict=True)]
    apart = [run for run, duel in zip(runs[1:], tried, strict=True) if duel is None]
    if apart and require_shared:
        message = f"{runs[0].path} and {apart[0].path} share no item with a right answer"
        raise UsageError(message, hint="compare runs over the same data")
    duels = [duel for duel in tried if duel is not None]
    adjusted = holm([duel.overall.p for duel in duels])
    return Comparison(
        runs=tuple(summarise(run, title) for run, title in zip(runs, titles, strict=True)),
        duels=tuple(
            replace(duel, overall=replace(duel.overall, p_holm=p)) for duel, p in zip(duels, adjusted, strict=True)
        ),
        warnings=(
            *_warnings(runs, titles),
            *_other_judges(runs, noise),
            *(f"{run.name} shares no pair with {runs[0].name}: nothing to test." for run in apart),
            *_missing(duels),
            *_shared_prompts(runs, cluster),
        ),
    )


def summarise(run: Run, title: str) -> RunSummary:
    """Return one run's own numbers."""
    return RunSummary(
        title=title,
        name=run.name,
        benchmark=str(run.metrics["benchmark"]),
        method=str(run.metrics["method"]),
        judge=run.judge_label,
        marks=mark_words(run),
        n_total=run.metrics["n_total"],
        coverage=run.metrics.get("coverage"),
        accuracy=run.metrics.get("accuracy"),
        ci95=accuracy_interval(run),
    )


def accuracy_interval(run: Run) -> Interval | None:
    """Return the 95 % interval of the strict accuracy: as recorded, else Wilson's from the items."""
    recorded = run.metrics.get("accuracy_ci95")
    if recorded is not None:
        return Interval(recorded[0], recorded[1])
    marked = [item.correct for item in run.items if item.correct is not None]
    return wilson_interval(sum(marked), len(marked)) if marked else None


def _duel(first: Run, second: Run, titles: tuple[str, str], test: _Tester) -> Duel | None:
    """Test two runs overall and per domain; None where they share no item."""
    left, right = by_key(first.items), by_key(second.items)
    common = [key for key in left if key in right]
    if not common:
        return None
    by_domain: dict[str, list[_Key]] = {}
    for key in common:
        by_domain.setdefault(left[key].domain, []).append(key)
    tests = {name: test(left, right, keys) for name, keys in by_domain.items()}
    adjusted = holm([found.p for found in tests.values()])
    return Duel(
        first=titles[0],
        second=titles[1],
        only_in_first=len(left) - len(common),
        only_in_second=len(right) - len(common),
        overall=test(left, right, common),
        domains={name: replace(found, p_holm=p) for (name, found), p in zip(tests.items(), adjusted, strict=True)},
    )


def by_key(items: Sequence[Item]) -> dict[tuple[str, int], Item]:
    """Return the items that have a right answer by (id, how many with that id came before)."""
    seen: Counter[str] = Counter()
    found = {}
    for item in items:
        if item.correct is not None:
            found[item.id, seen[item.id]] = item
            seen[item.id] += 1
    return found


def _test(
    left: Mapping[_Key, Item],
    right: Mapping[_Key, Item],
    keys: Sequence[_Key],
    *,
    seed: int,
    cluster: Callable[[Item], str] | None,
    noise: Noise | None,
) -> PairedTest:
    clusters = None if cluster is None else [cluster(left[key]) for key in keys]
    apart = asked_apart([(left[key], right[key]) for key in keys])
    effect = None if noise is None else noise_effect(noise, len(keys), apart)
    first, second = [left[key].correct is True for key in keys], [right[key].correct is True for key in keys]
    return paired_test(first, second, clusters=clusters, seed=seed, noise=effect, one_judging=not apart)


def paired_test(
    first: Sequence[bool],
    second: Sequence[bool],
    *,
    clusters: Sequence[str] | None = None,
    seed: int = 0,
    noise: NoiseEffect | None = None,
    one_judging: bool = False,
) -> PairedTest:
    """Test who was right where of two lists over the same items; `clusters` names what belongs together.

    A bootstrap does not draw what was not seen: of twenty items that both have right it shows no difference at all. So
    the interval reaches at least as far as Newcombe's of the two shares of discordant items, unless both lists are of
    `one_judging`, which cannot differ. With `noise` it reaches at least its half width to either side.
    """
    table = paired_counts(first, second)
    n, gap = table.n, (table.only_second - table.only_first) / table.n
    drawn = paired_difference_interval(first, second, clusters=clusters, seed=seed)
    rare = drawn if one_judging else newcombe_interval(table.only_second / n, n, table.only_first / n, n)
    least = 0.0 if noise is None else noise.half_width
    p = _p_value(first, second, clusters)
    return PairedTest(
        n=n,
        accuracy_first=(table.both + table.only_first) / n,
        accuracy_second=(table.both + table.only_second) / n,
        difference=gap,
        ci95=Interval(min(drawn.low, rare.low, gap - least), max(drawn.high, rare.high, gap + least)),
        both=table.both,
        only_first=table.only_first,
        only_second=table.only_second,
        neither=table.neither,
        p=p,
        p_holm=p,
        noise=noise,
    )


def _p_value(first: Sequence[bool], second: Sequence[bool], clusters: Sequence[str] | None) -> float:
    """Return McNemar's exact p-value; where pairs belong to clusters, that of flipping whole clusters."""
    if clusters is None:
        table = paired_counts(first, second)
        return mcnemar_exact(table.only_first, table.only_second)
    sums: Counter[str] = Counter()
    for cluster, before, after in zip(clusters, first, second, strict=True):
        sums[cluster] += after - before
    return sign_flip_exact(list(sums.values()))


def _warnings(runs: Sequence[Run], titles: Sequence[str]) -> list[str]:
    found = []
    benchmarks = sorted({benchmark_name(run) for run in runs})
    if len(benchmarks) > 1:
        found.append(f"The runs are of different benchmarks ({', '.join(benchmarks)}).")
    digests = {str((run.manifest.get("data") or {}).get("digest")) for run in runs}
    if len(digests) > 1:
        found.append("The data digests differ: the runs did not judge the same files. Items are paired by id.")
    found += [
        f"{title} is PARTIAL: it did not finish." for run, title in zip(runs, titles, strict=True) if not run.complete
    ]
    return found + _unlike_marks(runs, titles) + _gold_conflicts(runs, titles)


def _other_judges(runs: Sequence[Run], noise: Noise | None) -> list[str]:
    others = sorted({str(run.metrics["judge"]) for run in runs if noise and run.metrics["judge"] != noise.judge})
    return [f"The noise is that of {noise.judge}, not of {', '.join(others)}."] if noise and others else []


def _unlike_marks(runs: Sequence[Run], titles: Sequence[str]) -> list[str]:
    """Say in one line which marks some runs carry and others do not: by name where it is one run, else by counts."""
    kinds = [frozenset(mark_words(run)) - {"PARTIAL"} for run in runs]
    shared = frozenset.intersection(*kinds)
    words = [" and ".join(sorted(kind - shared)) for kind in kinds]
    marked = [(title, text) for title, text in zip(titles, words, strict=True) if text]
    if len(marked) == 1:
        return [f"{marked[0][0]} is marked {marked[0][1]}; not all of the others are."]
    counts = ", ".join(f"{n} {text or 'not at all'}" for text, n in Counter(words).items())
    return [f"The runs are marked differently: {counts}."] if marked else []


def _gold_conflicts(runs: Sequence[Run], titles: Sequence[str]) -> list[str]:
    first = by_key(runs[0].items)
    found = []
    for run, title in zip(runs[1:], titles[1:], strict=True):
        other = by_key(run.items)
        n = sum(1 for key, item in first.items() if key in other and other[key].gold != item.gold)
        if n:
            found.append(f"{plural(n, 'shared pair')} of {title} and {titles[0]} have different right answers.")
    return found


def _missing(duels: Sequence[Duel]) -> list[str]:
    found = []
    for duel in duels:
        for n, has, lacks in (
            (duel.only_in_first, duel.first, duel.second),
            (duel.only_in_second, duel.second, duel.first),
        ):
            if n:
                found.append(f"{plural(n, 'pair')} of {has} are not in {lacks} and are left out of the paired test.")
    return found


def _shared_prompts(runs: Sequence[Run], cluster: Callable[[Item], str] | None) -> list[str]:
    adapters = [ADAPTERS.get(str(run.metrics["benchmark"])) for run in runs]
    if cluster is not None or not any(adapter is not None and adapter.shares_prompts for adapter in adapters):
        return []
    return ["Several pairs share a prompt here; McNemar's p-values treat them as independent and may be too small."]
