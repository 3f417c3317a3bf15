"""Compare runs on shared items: paired tests, disagreements, a judge's drift, and what makes them not comparable."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

import orjson

from svr_async.core.statistics import (
    Interval,
    holm,
    newcombe_interval,
    paired_counts,
    paired_difference_interval,
    sign_flip_exact,
    wilson_interval,
)
from svr_async.core.table import to_html, warnings_of
from svr_async.errors import UsageError
from svr_async.evaluation.items import Item, numbered
from svr_async.evaluation.run_folder import Run, reports
from svr_async.evaluation.summary import RunSummary, summaries_of
from svr_async.evaluation.wording import plural, points

SIGNIFICANT = 0.05
SIDES = {"A": 1.0, "B": -1.0}
HOLM = (
    "p: how often chance alone gives such a difference between equally good runs. p Holm: adjusted for several tests; "
    "0.05 or below counts as a difference."
)
JUDGE, MODEL, PROMPTS, SETTINGS = "judge", "model", "prompts", "settings"
ALLOWABLE = (JUDGE, MODEL, PROMPTS, SETTINGS)  # kinds of difference that `svr gate --allow` accepts
SAME_SETTINGS = ("order", "audit_below", "salt", "jury_rule", "escalate_to", "escalate_below")


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedTest:
    """Two runs on the same items. `difference` is second − first; `p_holm` is adjusted within its family."""

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

    @property
    def significant(self) -> bool:
        """Whether the adjusted p-value is at most 0.05."""
        return self.p_holm <= SIGNIFICANT


@dataclass(frozen=True, slots=True, kw_only=True)
class Disagreement:
    """A pair that exactly one of two runs has right. `first` and `second` are A, B or the outcome."""

    id: str
    domain: str
    gold: str
    first: str
    second: str
    first_margin: float | None
    second_margin: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Duel:
    """The first run against a later one: overall, and per domain (Holm over the domains).

    `only_in_first` and `only_in_second` count items missing from the other run. `lost` are the pairs that only the
    first run has right, `won` those that only the second has right, the largest gap between margins first.
    """

    first: str
    second: str
    only_in_first: int
    only_in_second: int
    overall: PairedTest
    domains: Mapping[str, PairedTest]
    lost: tuple[Disagreement, ...]
    won: tuple[Disagreement, ...]

    @property
    def verdict(self) -> str:
        """The result in one sentence."""
        test, gap = self.overall, points(abs(self.overall.difference)).lstrip("+")
        if not test.significant:
            return f"No difference shown on {plural(test.n, 'shared pair')}: the gap of {gap} points may be chance."
        better = self.second if test.difference > 0 else self.first
        return f"{better} is better by {gap} points of strict accuracy on {plural(test.n, 'shared pair')}."


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Every later run against the first (Holm over these); `warnings` say what makes the comparison doubtful."""

    runs: tuple[RunSummary, ...]
    duels: tuple[Duel, ...]
    warnings: tuple[str, ...]

    def __repr__(self) -> str:
        return f"<Comparison of {len(self.runs)} runs: {' '.join(duel.verdict for duel in self.duels)}>"

    def _repr_html_(self) -> str:
        tables = reports("compare_tables")
        return to_html([*warnings_of(self.warnings), *tables.comparison_tables(self, tables.WIDE)])

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values, keys as the fields; an interval is [low, high]."""
        return _as_json(self.runs, duels=self.duels, warnings=self.warnings)


@dataclass(frozen=True, slots=True, kw_only=True)
class RubricDrift:
    """One rubric over the pairs on which both runs have its Δ: the share of opposite signs, the mean change of Δ."""

    id: str
    text: str
    pairs: int
    flips: float
    shift: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Shift:
    """A later run against the first: share of flipped verdicts, mean shift of the margin towards the right answer.

    `rubrics` start with the largest share of flips. Values are None without data.
    """

    run: str
    flips: float | None
    flips_ci95: Interval | None
    margin_shift: float | None
    rubrics: tuple[RubricDrift, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """Runs of the same pairs with one bank; `differs` lists what differs between the runs."""

    runs: tuple[RunSummary, ...]
    shifts: tuple[Shift, ...]
    differs: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values, keys as the fields; an interval is [low, high]."""
        return _as_json(self.runs, shifts=self.shifts, differs=self.differs)


def _as_json(runs: Sequence[RunSummary], **values: Any) -> dict[str, Any]:
    plain: dict[str, Any] = orjson.loads(
        orjson.dumps({"runs": [one.to_json() for one in runs], **values}, default=list)
    )
    return plain


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A difference between two runs: `kind` is judge, model, data, prompts, settings or partial."""

    kind: str
    text: str


def compare_runs(runs: Sequence[Run], *, require_shared: bool = True) -> Comparison:
    """Compare every later run with the first on the items both have.

    Items are paired by id (the n-th of a repeated id with the n-th). Items without a right answer are left out; items
    without a verdict count as wrong. Pairs of one prompt are one cluster: drawn and flipped together.
    UsageError if a run shares no item with the first; with `require_shared` off, a warning instead of a test.
    """
    if len(runs) < 2:
        raise UsageError(f"a comparison needs at least two runs (got {len(runs)})", hint="svr compare RUN RUN…")
    summaries = summaries_of(runs)
    titles = [one.title for one in summaries]
    tried = [_duel(runs[0], run, (titles[0], title)) for run, title in zip(runs[1:], titles[1:], strict=True)]
    apart = [run for run, duel in zip(runs[1:], tried, strict=True) if duel is None]
    if apart and require_shared:
        message = f"{runs[0].path} and {apart[0].path} share no item with a right answer"
        raise UsageError(message, hint="compare runs over the same data")
    duels = [duel for duel in tried if duel is not None]
    adjusted = holm([duel.overall.p for duel in duels])
    return Comparison(
        runs=summaries,
        duels=tuple(
            replace(duel, overall=replace(duel.overall, p_holm=p)) for duel, p in zip(duels, adjusted, strict=True)
        ),
        warnings=(
            *_warnings(runs, summaries),
            *(f"{run.name} shares no pair with {runs[0].name}: nothing to test." for run in apart),
            *_missing(duels),
        ),
    )


def _duel(first: Run, second: Run, titles: tuple[str, str]) -> Duel | None:
    """Test two runs overall and per domain; None where they share no item."""
    left, right = by_key(first.items), by_key(second.items)
    common = [key for key in left if key in right]
    if not common:
        return None
    couples = [(left[key], right[key]) for key in common]
    by_domain: dict[str, list[tuple[Item, Item]]] = {}
    for couple in couples:
        by_domain.setdefault(couple[0].domain, []).append(couple)
    tests = {name: paired_test(group) for name, group in by_domain.items()}
    adjusted = holm([found.p for found in tests.values()])
    unlike = [(a, b) for a, b in couples if (a.correct is True) != (b.correct is True)]
    unlike.sort(key=lambda couple: (-abs((couple[0].margin or 0.0) - (couple[1].margin or 0.0)), couple[0].id))
    return Duel(
        first=titles[0],
        second=titles[1],
        only_in_first=len(left) - len(common),
        only_in_second=len(right) - len(common),
        overall=paired_test(couples),
        domains={name: replace(found, p_holm=p) for (name, found), p in zip(tests.items(), adjusted, strict=True)},
        lost=tuple(_disagreement(a, b) for a, b in unlike if a.correct),
        won=tuple(_disagreement(a, b) for a, b in unlike if not a.correct),
    )


def _disagreement(first: Item, second: Item) -> Disagreement:
    return Disagreement(
        id=first.id,
        domain=first.domain,
        gold=first.gold or "",
        first=first.predicted or first.outcome,
        second=second.predicted or second.outcome,
        first_margin=first.margin,
        second_margin=second.margin,
    )


def by_key(items: Sequence[Item]) -> dict[tuple[str, int], Item]:
    """Return the items that have a right answer by (id, number of earlier items with that id)."""
    return dict(numbered(item for item in items if item.correct is not None))


def paired_test(couples: Sequence[tuple[Item, Item]]) -> PairedTest:
    """Test two runs on their shared items: sign flips of whole prompts, McNemar's exact test where each has one pair.

    A bootstrap never draws what was not observed: with twenty items that both have right, it shows no uncertainty. So
    the interval is at least as wide as Newcombe's of the shares of discordant items. If both runs are of the same
    replies, they cannot differ by chance: the bootstrap interval stands.
    """
    first, second = ([item.correct is True for item in side] for side in zip(*couples, strict=True))
    clusters = [one.item for one, _ in couples]
    table = paired_counts(first, second)
    n, gap = table.n, (table.only_second - table.only_first) / table.n
    drawn = paired_difference_interval(first, second, clusters=clusters)
    same_replies = all(one.requests == other.requests and one.margins == other.margins for one, other in couples)
    rare = drawn if same_replies else newcombe_interval(table.only_second / n, n, table.only_first / n, n)
    sums: Counter[str] = Counter()
    for cluster, before, after in zip(clusters, first, second, strict=True):
        sums[cluster] += after - before
    p = sign_flip_exact(list(sums.values()))
    return PairedTest(
        n=n,
        accuracy_first=(table.both + table.only_first) / n,
        accuracy_second=(table.both + table.only_second) / n,
        difference=gap,
        ci95=Interval(min(drawn.low, rare.low, gap), max(drawn.high, rare.high, gap)),
        both=table.both,
        only_first=table.only_first,
        only_second=table.only_second,
        neither=table.neither,
        p=p,
        p_holm=p,
    )


def _warnings(runs: Sequence[Run], summaries: Sequence[RunSummary]) -> list[str]:
    found, titles = [], [one.title for one in summaries]
    benchmarks = sorted({one.benchmark for one in summaries})
    if len(benchmarks) > 1:
        found.append(f"The runs are of different benchmarks ({', '.join(benchmarks)}).")
    digests = {str((run.manifest.get("data") or {}).get("digest")) for run in runs}
    if len(digests) > 1:
        found.append("The data digests differ: the runs did not judge the same files. Items are paired by id.")
    found += [f"{one.title} is PARTIAL: it did not finish." for one in summaries if not one.complete]
    marks = [frozenset(one.mark_words) - {"PARTIAL"} for one in summaries]
    extra = [sorted(kind - frozenset.intersection(*marks)) for kind in marks]
    if named := [f"{title} {' and '.join(words)}" for title, words in zip(titles, extra, strict=True) if words]:
        found.append(f"Only some runs are marked: {'; '.join(named)}.")
    first = by_key(runs[0].items)
    for run, title in zip(runs[1:], titles[1:], strict=True):
        other = by_key(run.items)
        n = sum(1 for key, item in first.items() if key in other and other[key].gold != item.gold)
        if n:
            found.append(f"{plural(n, 'shared pair')} of {title} and {titles[0]} have different right answers.")
    return found


def _missing(duels: Sequence[Duel]) -> Iterator[str]:
    for duel in duels:
        first, second = duel.first, duel.second
        for n, has, lacks in ((duel.only_in_first, first, second), (duel.only_in_second, second, first)):
            if n:
                yield f"{plural(n, 'pair')} of {has} are not in {lacks} and are left out of the paired test."


def differences(run: Run, baseline: Run) -> list[Difference]:
    """Return differences that may be the cause of a gap between two runs.

    Method, bank, rubrics and top-k may differ: they are the subject of the comparison.
    """
    found = [*_partial(run, baseline), *_judges(run, baseline), *_data(run, baseline)]
    for kind, part, names in ((PROMPTS, "prompts", None), (SETTINGS, "config", SAME_SETTINGS)):
        mine, other = _part(run, part), _part(baseline, part)
        changed = [name for name in names or sorted({*mine, *other}) if mine.get(name) != other.get(name)]
        found += [_unlike(kind, name.replace("_", "-"), mine.get(name), other.get(name)) for name in changed]
    return found


def _partial(run: Run, baseline: Run) -> Iterator[Difference]:
    for name, one in (("run", run), ("baseline", baseline)):
        if not one.complete:
            yield Difference(kind="partial", text=f"partial: the {name} {one.path} did not finish")


def _judges(run: Run, baseline: Run) -> Iterator[Difference]:
    """Yield other judges, and other models in their replies; a run read from the cache may not record the models."""
    mine, other = _panel(run), _panel(baseline)
    if len(mine) != len(other):
        yield _unlike(JUDGE, "", f"{len(mine)} judges", f"{len(other)} judges")
        return
    for one, two in zip(mine, other, strict=True):
        for name in ("name", "model", "max_tokens", "params", "marks"):
            if one.get(name) != two.get(name):
                yield _unlike(JUDGE, "" if name == "name" else name, one.get(name), two.get(name))
        seen, expected = one.get("models_seen") or [], two.get("models_seen") or []
        if seen and expected and list(seen) != list(expected):
            yield _unlike(MODEL, "seen", ", ".join(seen), ", ".join(expected))


def _data(run: Run, baseline: Run) -> Iterator[Difference]:
    if run.metrics["benchmark"] != baseline.metrics["benchmark"]:
        yield _unlike("data", "benchmark", run.metrics["benchmark"], baseline.metrics["benchmark"])
    digests = [_part(one, "data").get("digest") for one in (run, baseline)]
    if digests[0] != digests[1] or digests[0] is None:
        yield _unlike("data", "digest", *digests)
    mine, other = [(item.id, item.gold) for item in run.items], [(item.id, item.gold) for item in baseline.items]
    if mine != other:
        sizes = f"{len(mine)} pairs, the baseline has {len(other)}"
        same = f"{len(set(mine) & set(other))} are the same with the same right answer"
        yield Difference(kind="data", text=f"data: {sizes}; {same}")


def drift_of(runs: Sequence[Run]) -> Drift:
    """Measure the drift of later runs against the first; UsageError unless method, bank and pairs are the same."""
    unlike = [one for run in runs[1:] for one in differences(run, runs[0])]
    refused = [f"needs the same pairs: {one.text}" for one in unlike if one.kind == "data"]
    for name in ("method", "bank"):
        values = list(dict.fromkeys(str(run.metrics.get(name) or "not set") for run in runs))
        refused += [f"needs one {name}: {' and '.join(values)}"] if len(values) > 1 else []
    if refused or len(runs) < 2:
        raise UsageError(f"--drift {(*refused, 'needs at least two runs')[0]}", hint="svr compare RUN RUN --drift")
    tables, summaries = [by_key(run.items) for run in runs], summaries_of(runs)
    shifts = tuple(
        _shift(one.title, [(item, table[key]) for key, item in tables[0].items() if key in table])
        for one, table in zip(summaries[1:], tables[1:], strict=True)
    )
    return Drift(runs=summaries, shifts=shifts, differs=tuple(dict.fromkeys(one.text for one in unlike)))


def _shift(title: str, couples: Sequence[tuple[Item, Item]]) -> Shift:
    flips = [a.predicted != b.predicted for a, b in couples if a.predicted and b.predicted]
    values = [
        SIDES[str(a.gold)] * (b.margin - a.margin) for a, b in couples if a.margin is not None and b.margin is not None
    ]
    return Shift(
        run=title,
        flips=fmean(flips) if flips else None,
        flips_ci95=wilson_interval(sum(flips), len(flips)) if flips else None,
        margin_shift=fmean(values) if values else None,
        rubrics=tuple(sorted(_rubric_drift(couples), key=lambda one: (-one.flips, -one.pairs, one.id))),
    )


def _rubric_drift(couples: Sequence[tuple[Item, Item]]) -> Iterator[RubricDrift]:
    texts = {row.id: row.text for first, _ in couples for row in first.rubrics}
    found: dict[str, list[tuple[float, float]]] = {}
    for first, second in couples:
        before, after = _deltas(first), _deltas(second)
        for name in before.keys() & after.keys():
            found.setdefault(name, []).append((before[name], after[name]))
    for name, deltas in found.items():
        flips, shift = fmean((a > 0) != (b > 0) for a, b in deltas), fmean(b - a for a, b in deltas)
        yield RubricDrift(id=name, text=texts[name], pairs=len(deltas), flips=flips, shift=shift)


def _deltas(item: Item) -> Mapping[str, float]:
    """Return each rubric's mean Δ towards the right answer, over orders and judges."""
    values: dict[str, list[float]] = {}
    for row in item.rubrics:
        if row.delta is not None:
            values.setdefault(row.id, []).append(SIDES[str(item.gold)] * row.delta)
    return {name: fmean(deltas) for name, deltas in values.items()}


def notes_on(run: Run, baseline: Run) -> list[str]:
    """Return differences that do not forbid a comparison: the version, and missing verdicts."""
    found, versions = [], [one.manifest.get("svr_version") for one in (run, baseline)]
    if versions[0] != versions[1]:
        found.append(f"judged with svr-async {versions[0]}, the baseline with {versions[1]}")
    lost = [one.metrics["n_total"] - one.metrics["n_scored"] for one in (run, baseline)]
    if any(lost):
        found.append(f"pairs without a verdict count as wrong: {lost[0]} of the run, {lost[1]} of the baseline")
    return found


def _panel(run: Run) -> list[Mapping[str, Any]]:
    """Return the recorded facts of every judge of a run."""
    facts = _part(run, "judge")
    judges = facts.get("judges")
    return [one for one in judges if isinstance(one, dict)] if isinstance(judges, list) else [facts]


def _part(run: Run, name: str) -> Mapping[str, Any]:
    return run.manifest.get(name) or {}


def _unlike(kind: str, what: str, mine: object, other: object) -> Difference:
    name = f"{kind}, {what}" if what else kind
    return Difference(kind=kind, text=f"{name}: {_short(mine)}, the baseline has {_short(other)}")


def _short(value: object) -> str:
    """Return a recorded value in words: not set, items of a list, the words of an object."""
    if isinstance(value, list | tuple):
        text = ", ".join(map(str, value)) or "none"
    elif isinstance(value, Mapping):
        text = ", ".join(f"{name} {one}" for name, one in value.items()) or "none"
    else:
        text = "not set" if value is None else str(value)
    return text if len(text) <= 80 else f"{text[:79]}…"
