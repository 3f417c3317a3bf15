"""The summary of a run: every number that terminals, pages, tables, figures, gates and trackers show, computed once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, Literal

from svr_async.adapters import ADAPTERS, Adapter
from svr_async.core.integrity import Integrity, Mark, integrity_marks
from svr_async.core.statistics import Interval, wilson_interval
from svr_async.core.verdict import is_number
from svr_async.evaluation import wording
from svr_async.evaluation.items import Item, grouped
from svr_async.evaluation.metrics import accuracy_block
from svr_async.evaluation.rubric_effects import RubricEffects, rubric_effects
from svr_async.evaluation.wording import against_chance
from svr_async.scoring.methods.simple import PREFERS

if TYPE_CHECKING:
    from svr_async.evaluation.run_folder import Run

Kind = Literal["share", "count", "dollars"]
SAMPLE_SUFFIX = "-sample"  # after a benchmark's name: the shipped sample was judged in its format
ELSEWHERE = ("coverage", "tie_credit")  # of the benchmark's own scores: shown with the accuracy, and in the settings
CLOSE = 0.1  # this share of the verdicts, those with the smallest |margin|, is called close
FEWEST = 20  # pairs with a verdict, below which nothing is drawn
MOST_STEPS = 80  # thresholds of an abstention curve


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """One number with its interval; `key` and `group` name it for machines, `n` is how many pairs it is of.

    `depth` is how far a score is nested; one without a value and interval is a heading.
    """

    key: str
    name: str
    value: float | None
    ci95: Interval | None = None
    n: int | None = None
    group: str = ""
    kind: Kind = "share"
    note: str = ""
    depth: int = 0

    @property
    def words(self) -> str:
        """The value as people read it."""
        if self.key == "accuracy_bounds":
            return wording.interval(self.ci95)
        say = {"share": wording.percent, "count": wording.count, "dollars": wording.dollars}[self.kind]
        return say(self.value)

    @property
    def interval(self) -> str:
        """The interval as people read it; empty where it is not known or already in the words."""
        return "" if self.ci95 is None or self.value is None else wording.interval(self.ci95)


@dataclass(frozen=True, slots=True, kw_only=True)
class Abstention:
    """Accuracy by the share of pairs answered, largest |margin| first; fractions of 1."""

    answered: float
    accuracy: float
    ci95: Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """Everything that is shown of a run. `shares` are (class, words, share) of right, wrong, tie and no verdict.

    Accuracies are strict, as fractions of 1. `metrics` and `manifest` are the files of the run folder.
    """

    name: str
    folder: str
    benchmark: str
    title: str
    method: str
    judge: str
    bank: str
    marks: tuple[Mark, ...]
    notes: tuple[str, ...]
    complete: bool
    n_total: int
    n_scored: int
    headline: str
    reading: str
    coverage: float | None
    accuracy: float | None
    ci95: Interval | None
    tokens_per_pair: float
    numbers: tuple[Number, ...]
    official_title: str
    rule: str
    shares: tuple[tuple[str, str, float], ...]
    abstention: tuple[Abstention, ...]
    close: float | None
    effects: RubricEffects
    metrics: Mapping[str, Any]
    manifest: Mapping[str, Any]

    @property
    def mark_words(self) -> tuple[str, ...]:
        """The caveats as words, as `("PARTIAL", "SIMULATED")`."""
        return tuple(mark.word for mark in self.marks)

    @property
    def marked_title(self) -> str:
        """Method, judge and marks."""
        return f"{self.title}{''.join(f' [{word}]' for word in self.mark_words)}"

    @property
    def caption(self) -> str:
        """Benchmark, method, judge and marks in one line."""
        return f"{self.benchmark} · {self.marked_title}"

    def of(self, group: str) -> tuple[Number, ...]:
        """Return the numbers of a group: "" for the whole run, domain or subset if several, official, outcome."""
        return tuple(one for one in self.numbers if one.group == group)

    def to_json(self) -> dict[str, Any]:
        """Return the main numbers as plain JSON values."""
        names = ("title", "name", "method", "judge", "n_total", "coverage", "accuracy", "ci95")
        plain = {name: getattr(self, name) for name in names}
        return plain | {"benchmark": str(self.metrics["benchmark"]), "marks": self.mark_words}


def summarise(run: Run) -> RunSummary:
    """Compute the summary of a run; `Run.summary` keeps it."""
    metrics = run.metrics
    usage = metrics.get("usage") or {}
    tokens = (usage.get("prompt_tokens") or 0) + (usage.get("completion_tokens") or 0)
    known, marks = metrics["n_scored"] > 0 or not run.items, tuple(_marks(run))
    accuracy, ends = (metrics.get("accuracy"), metrics.get("accuracy_ci95")) if known else (None, None)
    interval = None if ends is None else Interval(*ends)
    return RunSummary(
        name=run.name,
        folder=str(run.path),
        benchmark=_benchmark(metrics),
        title=f"{metrics['method']} · {run.judge_label}",
        method=str(metrics["method"]),
        judge=run.judge_label,
        bank=str(metrics.get("bank") or ""),
        marks=marks,
        notes=tuple(
            note for note in map(str, metrics.get("notes") or ()) if not any(note in one.text for one in marks)
        ),
        complete=run.complete,
        n_total=metrics["n_total"],
        n_scored=metrics["n_scored"],
        headline=_headline(run, accuracy, interval),
        reading=against_chance(metrics, interval),
        coverage=metrics.get("coverage"),
        accuracy=accuracy,
        ci95=interval,
        tokens_per_pair=tokens / max(1, metrics["n_total"]),
        numbers=tuple(_numbers(run, accuracy, interval)),
        official_title="Official scores" if has_official_rule(metrics) else "Other scores",
        rule=_rule(metrics) if run.complete else "",
        shares=_shares(run.items),
        abstention=abstention(run.items),
        close=_close(run.items),
        effects=rubric_effects(grouped(run.items, "domain")),
        metrics=metrics,
        manifest=run.manifest,
    )


def summaries_of(runs: Sequence[Run]) -> tuple[RunSummary, ...]:
    """Return the summaries of runs; equal titles get the folder's name, then a number."""
    found = [run.summary for run in runs]
    titles = [one.title for one in found]
    titles = [f"{t} · {one.name}" if titles.count(t) > 1 else t for t, one in zip(titles, found, strict=True)]
    titles = [f"{t} ({i})" if titles.count(t) > 1 else t for i, t in enumerate(titles, start=1)]
    return tuple(replace(one, title=title) for one, title in zip(found, titles, strict=True))


def _adapter(metrics: Mapping[str, Any]) -> Adapter | None:
    """Return the adapter of a run's benchmark, or of that of its sample; None if unknown."""
    return ADAPTERS.get(str(metrics["benchmark"]).removesuffix(SAMPLE_SUFFIX))


def _benchmark(metrics: Mapping[str, Any]) -> str:
    """Return the benchmark's name as its authors write it."""
    key, adapter = str(metrics["benchmark"]), _adapter(metrics)
    plain = key.removesuffix(SAMPLE_SUFFIX)
    name = adapter.title if adapter else plain
    return name if plain == key else f"{name} sample"


def _marks(run: Run) -> Iterator[Mark]:
    """Yield the caveats of a run, the gravest first; nothing for a finished run of a real judge on official data."""
    data: Mapping[str, Any] = run.manifest.get("data") or {}
    if not run.complete:
        planned = data.get("n_pairs")
        done, total = run.metrics["n_scored"], planned if isinstance(planned, int) else run.metrics["n_total"]
        judged = f"{wording.count(done)} of {wording.plural(total, 'pair')} have a verdict"
        yield Mark(word="PARTIAL", text=f"The run did not finish: {judged}. Its numbers will change.")
    yield from integrity_marks(run.integrity)
    if run.manifest.get("sample") is True:
        text = "The small sample that ships with the package was judged, not the benchmark itself."
        yield Mark(word="SAMPLE DATA", text=text)
    adapter = ADAPTERS.get(str(run.metrics["benchmark"]))
    if data.get("official") is False and adapter is not None and not adapter.training:
        notes = data.get("notes") or ()
        why = "; ".join(map(str, notes)) if isinstance(notes, list | tuple) else str(notes)
        text = "The data does not have the official counts, so the scores are not comparable with published ones."
        yield Mark(word="NOT OFFICIAL COUNTS", text=f"{text} {why}".strip())
    if Integrity.CONTENT_BLIND in run.integrity:
        prefers = PREFERS.get(str(run.metrics["method"]))
        always = f": it always prefers {prefers}" if prefers else ""
        yield Mark(word="CONTENT-BLIND", text=f"A baseline that reads nothing{always}.")


def _headline(run: Run, accuracy: float | None, interval: Interval | None) -> str:
    """Return the result in a sentence; for a run without any verdict the most common reason."""
    metrics = run.metrics
    planned = (run.manifest.get("data") or {}).get("n_pairs")
    total = planned if isinstance(planned, int) and not run.complete else metrics["n_total"]
    judged = f"{wording.count(metrics['n_scored'])} of {wording.plural(total, 'pair')} judged"
    if accuracy is None:
        return f"No accuracy: {judged}.{_no_verdict(run.items)}"
    unit = " over prompts" if metrics.get("accuracy_ci95_unit") == "prompt" else ""
    known = f"95 % interval{unit} {wording.interval(interval)}, " if interval else ""
    return f"Accuracy {wording.percent(accuracy)} ({known}{judged})."


def _no_verdict(items: Sequence[Item]) -> str:
    """Say why most pairs have no verdict, in the words of the judge or the endpoint where these are kept."""
    if not items:
        return ""
    outcome, n = Counter(item.outcome for item in items).most_common(1)[0]
    details = Counter(item.detail for item in items if item.outcome == outcome and item.detail)
    own = f" ({details.most_common(1)[0][0][:300]})" if details else ""
    return f" Most common reason, for {wording.plural(n, 'pair')}: {wording.OUTCOME_WORDS.get(outcome, outcome)}{own}."


def _numbers(run: Run, accuracy: float | None, interval: Interval | None) -> Iterator[Number]:
    metrics, total = run.metrics, run.metrics["n_total"]
    strict = "a tie or a missing verdict counts as wrong"
    yield Number(key="accuracy", name="Accuracy", value=accuracy, ci95=interval, n=total, note=strict)
    if accuracy is not None:
        bounds = metrics.get("accuracy_bounds")
        for key, name, note in (
            ("coverage", "Coverage", f"{wording.count(metrics['n_scored'])} of {wording.count(total)} have a verdict"),
            ("accuracy_half_credit", "Ties at half", "a tie counts one half"),
            ("accuracy_scored", "Of those with a verdict", "pairs without a verdict left out"),
        ):
            yield Number(key=key, name=name, value=metrics.get(key), n=total, note=note)
        if bounds is not None:
            note = "depending on how ties and missing verdicts count"
            yield Number(key="accuracy_bounds", name="Range", value=None, ci95=Interval(*bounds), n=total, note=note)
        yield from _groups(run)
    for name, n in (metrics.get("outcomes") or {}).items():
        if n:
            note = wording.OUTCOME_WORDS.get(name, "")
            yield Number(key="outcome", name=str(name), value=n, group="outcome", kind="count", note=note)
    yield Number(key="cost_usd", name="Cost", value=metrics.get("cost_usd"), kind="dollars", group="cost")


def _groups(run: Run) -> Iterator[Number]:
    """Yield the accuracies of domains and subsets if there are several, and the benchmark's own scores."""
    domains = run.metrics.get("by_domain") or {}
    for name, row in domains.items() if len(domains) > 1 else ():
        ends = row.get("ci95")
        yield Number(
            key="accuracy", name=str(name), value=row.get("accuracy"), n=row["n"], group="domain",
            ci95=None if ends is None else Interval(*ends),
        )  # fmt: skip
    subsets = grouped((item for item in run.items if item.gold is not None and item.subset), "subset")
    parts = {(item.domain, item.subset) for some in subsets.values() for item in some}
    if len(subsets) > 1 and len(parts) != len(domains):
        for name, block in ((name, accuracy_block(some)) for name, some in subsets.items()):
            ends = Interval(*block["accuracy_ci95"])
            yield Number(
                key="accuracy", name=name, value=block["accuracy"], n=block["n_total"], group="subset", ci95=ends
            )
    if run.complete:
        yield from _scores(own_scores(run.metrics), "")


def has_official_rule(metrics: Mapping[str, Any]) -> bool:
    """Whether the authors of this data say how it is scored."""
    adapter = _adapter(metrics)
    return adapter is None or adapter.ruled


def own_scores(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """Return the benchmark's own scores without those that repeat domains, coverage or settings.

    Without an official rule those that repeat the accuracy are left out too. Texts (`rule`) stay where any score does.
    """
    scores = {name: value for name, value in (metrics.get("official") or {}).items() if name not in ELSEWHERE}
    domains = {name: _rounded(row.get("accuracy")) for name, row in (metrics.get("by_domain") or {}).items()}
    accuracy = None if has_official_rule(metrics) else metrics.get("accuracy")
    kept = {name: value for name, value in scores.items() if not _repeats(value, accuracy, domains)}
    return kept if any(not isinstance(value, str | bool) for value in kept.values()) else {}


def _repeats(value: Any, accuracy: float | None, domains: Mapping[str, float | None]) -> bool:
    if isinstance(value, Mapping):
        return not value or {name: _rounded(score) for name, score in value.items()} == domains
    return value is None or (accuracy is not None and _rounded(value) == _rounded(accuracy))


def _rounded(value: Any) -> Any:
    return round(value, 6) if isinstance(value, float) else value


def _scores(scores: Mapping[str, Any], prefix: str, depth: int = 0) -> Iterator[Number]:
    """Yield the benchmark's own scores; nested tables and matrices follow a heading, texts and flags are left out."""
    for key, entry in scores.items():
        name = str(key) if depth else str(key).replace("_", " ").capitalize()
        here = f"{prefix}{key}"
        if isinstance(entry, list):
            rows = tuple(_scores({str(i): part for i, part in enumerate(entry, start=1)}, f"{here}/", depth + 1))
        else:
            rows = tuple(_scores(entry, f"{here}/", depth + 1)) if isinstance(entry, Mapping) else ()
        if isinstance(entry, Mapping | list):
            if rows:
                yield Number(key=here, name=name, value=None, group="heading", depth=depth)
                yield from rows
        elif not isinstance(entry, str | bool):
            kind: Kind = "count" if isinstance(entry, int) else "share"
            yield Number(key=here, name=name, value=number(entry), group="official", kind=kind, depth=depth)


def _rule(metrics: Mapping[str, Any]) -> str:
    """Return the benchmark's rule in words, whether parts of it were missing, and what guessing would score."""
    official, adapter = own_scores(metrics), _adapter(metrics)
    parts = [
        str(official.get("rule") or "").rstrip("."),
        "Parts of the benchmark are missing" if official.get("complete") is False else "",
        (adapter.chance if adapter else "").rstrip("."),
    ]
    return " ".join(f"{text[:1].upper()}{text[1:]}." for text in parts if text)


def _shares(items: Sequence[Item]) -> tuple[tuple[str, str, float], ...]:
    known = [item for item in items if item.correct is not None]
    right = sum(item.correct is True for item in known)
    tied = sum(item.outcome == "tie" for item in known)
    wrong = sum(item.outcome == "scored" and item.correct is False for item in known)
    rest = len(known) - right - tied - wrong
    parts = (("right", "right", right), ("wrong", "wrong", wrong), ("tied", "tie", tied), ("none", "no verdict", rest))
    return tuple((name, words, n / len(known)) for name, words, n in parts if n)


def _close(items: Sequence[Item]) -> float | None:
    """Return the |margin| up to which a verdict is called close; None where all margins are of one size."""
    sizes = sorted(abs(item.margin) for item in items if item.margin)
    if not sizes or sizes[0] == sizes[-1]:
        return None
    return min(sizes[int(CLOSE * len(sizes))], sizes[-1])


def abstention(items: Sequence[Item]) -> tuple[Abstention, ...]:
    """Return the accuracy at thresholds of |margin|; no threshold splits pairs of one |margin|."""
    known = [item for item in items if item.correct is not None]
    sizes = sorted(((abs(item.margin), item.correct) for item in known if item.margin), key=lambda one: -one[0])
    right = list(accumulate(int(bool(correct)) for _, correct in sizes))
    last = [i for i, (one, other) in enumerate(pairwise(sizes)) if one[0] != other[0]]
    steps = [i for i in (*last, len(sizes) - 1) if i + 1 >= FEWEST]
    kept = dict.fromkeys(
        steps[round(i * (len(steps) - 1) / (MOST_STEPS - 1))] for i in range(MOST_STEPS if steps else 0)
    )
    return tuple(
        Abstention(answered=(i + 1) / len(known), accuracy=right[i] / (i + 1), ci95=wilson_interval(right[i], i + 1))
        for i in kept
    )


def number(value: Any) -> float | None:
    """Return a value that is a number; None for anything else."""
    return value if is_number(value) else None
