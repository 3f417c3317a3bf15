"""What the report's template shows of one run: plain values, worked out and worded, nothing escaped yet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from svr_async.core.integrity import Mark
from svr_async.core.statistics import Interval, quantile_groups, wilson_interval
from svr_async.evaluation import wording
from svr_async.evaluation.chance import against_chance
from svr_async.evaluation.compare import accuracy_interval
from svr_async.evaluation.explain import Explanation, by_size
from svr_async.evaluation.items import MISTAKES, Item, confident_mistakes
from svr_async.evaluation.labels import benchmark_name, caption, marks, run_title
from svr_async.evaluation.metrics import accuracy_block
from svr_async.evaluation.rubric_effects import RubricEffects
from svr_async.evaluation.run_folder import Run, with_reasons
from svr_async.reports.charts import Bin
from svr_async.reports.official import UNJUDGED_ARE_WRONG, chance_in_words, has_official_rule, own_scores
from svr_async.reports.rubric_tables import effects_of
from svr_async.reports.rubric_view import RubricsView, view_effects
from svr_async.reports.runfacts import Fact, cost_facts, flat_facts, how_facts, moment, number, panel_facts

MAX_PROMPT_CHARS = 4_000
MAX_RESPONSE_CHARS = 6_000
SHORT = 4  # rows of a table of scores that is not folded up


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainRow:
    """The accuracy of one domain."""

    name: str
    n: int
    accuracy: float | None
    ci95: Interval | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreRow:
    """One of the benchmark's own scores; a heading where `value` is empty. `depth` is how far it is nested.

    `n` is how many pairs the domain or subset of that name has, where it names one.
    """

    name: str
    value: str
    depth: int
    n: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreTable:
    """A nested table of the benchmark's own scores; a long one is folded up."""

    name: str
    rows: tuple[ScoreRow, ...]

    @property
    def long(self) -> bool:
        """Whether it is folded up."""
        return len(self.rows) > SHORT


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeRow:
    """How many items ended in one way."""

    name: str
    meaning: str
    n: int
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RunView:
    """Everything the template shows of one run."""

    benchmark: str
    title: str
    method: str
    judge: str
    bank: str
    caption: str
    started: str
    marks: tuple[Mark, ...]
    notes: tuple[str, ...]
    n_total: int
    left_out: str
    accuracy: float | None
    ci95: Interval | None
    over_prompts: bool
    reading: str
    headline: tuple[Fact, ...]
    domains: tuple[DomainRow, ...]
    subsets: tuple[DomainRow, ...]
    rubrics: RubricsView | None
    official: tuple[ScoreRow, ...]
    official_tables: tuple[ScoreTable, ...]
    official_title: str
    rule: str
    outcomes: tuple[OutcomeRow, ...]
    verdict_shares: tuple[tuple[str, str, float], ...]
    order: tuple[Fact, ...]
    calibration: tuple[Bin, ...]
    mistakes: tuple[Explanation, ...]
    n_mistakes: int
    cost: tuple[Fact, ...]
    panel: tuple[Fact, ...]
    how: tuple[Fact, ...]
    config: tuple[Fact, ...]


def view_run(run: Run, effects: RubricEffects | None = None) -> RunView:
    """Work out what is shown of a run; `effects` are those of its rubrics, by domain, where they are known already."""
    interval, official = accuracy_interval(run), own_scores(run.metrics)
    sizes, subsets = _sizes(run), _subsets(run)
    return RunView(
        benchmark=benchmark_name(run),
        title=run_title(run),
        method=str(run.metrics["method"]),
        judge=run.judge_label,
        bank=str(run.metrics.get("bank") or ""),
        caption=caption(run),
        started=moment(run.manifest.get("started")),
        marks=marks(run),
        notes=tuple(str(note) for note in run.metrics.get("notes") or ()),
        n_total=run.metrics["n_total"],
        left_out=wording.left_out(run.metrics.get("left_out")),
        accuracy=run.metrics.get("accuracy"),
        ci95=interval,
        over_prompts=run.metrics.get("accuracy_ci95_unit") == "prompt",
        reading=against_chance(run.metrics, interval),
        headline=_headline(run.metrics),
        domains=_domains(run.metrics),
        subsets=subsets,
        rubrics=view_effects(effects_of([run]) if effects is None else effects, "Domain"),
        official=tuple(_plain_scores(official)),
        official_tables=tuple(_score_tables(official, sizes)),
        official_title="Official scores" if has_official_rule(run.metrics) else "Other scores",
        rule=" ".join(filter(None, (_rule(official, whole=run.complete), chance_in_words(run.metrics)))),
        outcomes=_outcomes(run.metrics),
        verdict_shares=_verdict_shares(run),
        order=_order(run.metrics.get("order") or {}),
        calibration=calibration(run.items),
        mistakes=_mistakes(run),
        n_mistakes=len(confident_mistakes(run.items, len(run.items))),
        cost=cost_facts(run.metrics),
        panel=panel_facts(run.metrics),
        how=tuple(how_facts(run)),
        config=tuple(flat_facts(run.manifest.get("config") or {})),
    )


def calibration(items: Sequence[Item], groups: int = 5) -> tuple[Bin, ...]:
    """Group items by |margin| into at most five equal parts, with the accuracy of each; fewer than two give none."""
    known = [(abs(item.margin), item.correct) for item in items if item.margin is not None and item.correct is not None]
    sizes = [size for size, _ in known]
    bins = [_bin([known[i] for i in members]) for members in quantile_groups(sizes, groups)]
    return tuple(bins) if len(bins) > 1 else ()


def _bin(members: Sequence[tuple[float, bool]]) -> Bin:
    right = sum(correct for _, correct in members)
    return Bin(
        low=min(size for size, _ in members),
        high=max(size for size, _ in members),
        n=len(members),
        accuracy=right / len(members),
        ci95=wilson_interval(right, len(members)),
    )


def _headline(metrics: Mapping[str, Any]) -> tuple[Fact, ...]:
    scored, total = metrics["n_scored"], metrics["n_total"]
    return (
        Fact(
            name="Coverage",
            value=wording.percent(metrics.get("coverage")),
            note=f"{wording.count(scored)} of {wording.count(total)} have a verdict",
        ),
        Fact(
            name="Half credit",
            value=wording.percent(metrics.get("accuracy_half_credit")),
            note="as strict accuracy, but a tie counts one half",
        ),
        Fact(
            name="Of those with a verdict",
            value=wording.percent(metrics.get("accuracy_scored")),
            note="pairs without a verdict left out; a tie is wrong",
        ),
        Fact(
            name="Bounds",
            value=wording.interval(metrics.get("accuracy_bounds")),
            note="if all ties and missing verdicts were wrong, and if all were right",
        ),
    )


def _domains(metrics: Mapping[str, Any]) -> tuple[DomainRow, ...]:
    """Return the accuracy of each domain; nothing where one domain is all there is."""
    rows = []
    for name, entry in (metrics.get("by_domain") or {}).items():
        n, accuracy, ends = entry["n"], entry.get("accuracy"), entry.get("ci95")
        rows.append(DomainRow(name=name, n=n, accuracy=accuracy, ci95=None if ends is None else Interval(*ends)))
    return () if len(rows) == 1 and rows[0].n == metrics["n_total"] else tuple(rows)


def _subsets(run: Run) -> tuple[DomainRow, ...]:
    """Return the strict accuracy of each subset, in alphabetical order; nothing where these are the domains again."""
    groups: dict[str, list[Item]] = {}
    for item in run.items:
        if item.gold is not None and item.subset:
            groups.setdefault(item.subset, []).append(item)
    parted = len({(item.domain, item.subset) for some in groups.values() for item in some})
    if len(groups) < 2 or parted == len(run.metrics.get("by_domain") or {}):
        return ()
    blocks = {name: accuracy_block(some) for name, some in sorted(groups.items())}
    return tuple(
        DomainRow(name=name, n=one["n_total"], accuracy=one["accuracy"], ci95=Interval(*one["accuracy_ci95"]))
        for name, one in blocks.items()
    )


def _sizes(run: Run) -> Counter[str]:
    """Return how many pairs with a right answer each domain and subset has, by its name."""
    known = [item for item in run.items if item.gold is not None]
    return Counter(name for item in known for name in {item.domain, item.subset})


def _plain_scores(official: Mapping[str, Any]) -> Iterator[ScoreRow]:
    """Yield the benchmark's own scores that stand by themselves, in no table."""
    for name, value in official.items():
        yield from (row for row in _scores({name: value}, 0) if row.value and not row.depth)


def _score_tables(official: Mapping[str, Any], sizes: Mapping[str, int]) -> Iterator[ScoreTable]:
    """Yield the nested tables of a benchmark's own scores with the pairs of what they name."""
    for key, value in official.items():
        rows = list(_scores({key: value}, 0))
        if rows and not rows[0].value:
            sized = tuple(replace(row, n=sizes.get(row.name)) for row in rows[1:])
            yield ScoreTable(name=rows[0].name, rows=sized)


def _told(table: ScoreTable, subsets: Sequence[DomainRow]) -> bool:
    """Whether a table of scores repeats the accuracies of the subsets."""
    known = {row.name: wording.percent(row.accuracy) for row in subsets}
    return all(known.get(row.name) == row.value for row in table.rows)


def _scores(value: Mapping[str, Any], depth: int) -> Iterator[ScoreRow]:
    """Yield the benchmark's own scores, nested tables and matrices below a heading; texts and flags are left out."""
    for key, entry in value.items():
        name = str(key) if depth else str(key).replace("_", " ").capitalize()
        if isinstance(entry, Mapping):
            rows = tuple(_scores(entry, depth + 1))
            yield from (ScoreRow(name=name, value="", depth=depth), *rows) if rows else ()
        elif isinstance(entry, list) and any(isinstance(part, list) for part in entry):
            yield ScoreRow(name=name, value="", depth=depth)
            yield from _scores({str(i): part for i, part in enumerate(entry, start=1)}, depth + 1)
        elif isinstance(entry, list):
            yield ScoreRow(name=name, value="  ".join(_score(part) for part in entry), depth=depth)
        elif not isinstance(entry, str | bool):
            yield ScoreRow(name=name, value=_score(entry), depth=depth)


def _score(value: Any) -> str:
    """Word a fraction as a percentage, and a whole number as a count."""
    known = number(value)
    return wording.count(known) if isinstance(known, int) else wording.percent(known)


def _rule(official: Mapping[str, Any], *, whole: bool) -> str:
    """Return the benchmark's rule in words, whether parts of it were missing, and what a run that is not whole does."""
    rule = str(official.get("rule") or "").rstrip(".")
    missing = "Parts of the benchmark are missing" if official.get("complete") is False else ""
    unjudged = "" if whole else UNJUDGED_ARE_WRONG
    return "".join(f"{text[:1].upper()}{text[1:]}. " for text in (rule, missing, unjudged) if text).strip()


def _outcomes(metrics: Mapping[str, Any]) -> tuple[OutcomeRow, ...]:
    counts = {name: int(n or 0) for name, n in (metrics.get("outcomes") or {}).items()}
    total = sum(counts.values()) or 1
    return tuple(
        OutcomeRow(name=name.replace("_", " "), meaning=wording.OUTCOME_WORDS.get(name, ""), n=n, share=n / total)
        for name, n in counts.items()
        if n
    )


def _verdict_shares(run: Run) -> tuple[tuple[str, str, float], ...]:
    """Return (class, words, share) of what was right, wrong, tied and without a verdict; pairs with a right answer."""
    known = [item for item in run.items if item.correct is not None]
    if not known:
        return ()
    right = sum(item.correct is True for item in known)
    tied = sum(item.outcome == "tie" for item in known)
    wrong = sum(item.outcome == "scored" and item.correct is False for item in known)
    rest = len(known) - right - tied - wrong
    parts = (("right", "right", right), ("wrong", "wrong", wrong), ("tied", "tie", tied), ("none", "no verdict", rest))
    return tuple((name, words, n / len(known)) for name, words, n in parts if n)


def _order(order: Mapping[str, Any]) -> tuple[Fact, ...]:
    """Word the order audit; `lean_a` is the share of verdicts for the response shown first."""
    audited = number(order.get("audited"))
    facts = [Fact(name="Order shown", value=wording.order_in_words(str(order.get("policy") or wording.UNKNOWN)))]
    if audited is not None:
        facts.append(Fact(name="Judged in both orders", value=wording.count(audited)))
    for key, name, note in (
        ("flip_rate", "Flip rate", "verdicts that change when the two responses trade places"),
        ("lean_a", "For the first response", "share of verdicts for the one shown first; 50 % is even-handed"),
        ("accuracy_ab", "Accuracy, order A–B", ""),
        ("accuracy_ba", "Accuracy, order B–A", ""),
    ):
        value = number(order.get(key))
        if value is not None:
            facts.append(Fact(name=name, value=wording.percent(value), note=note))
    return tuple(facts)


def _mistakes(run: Run) -> tuple[Explanation, ...]:
    found, mistakes = [], confident_mistakes(run.items, MISTAKES)
    judged_now = any(item.reasons for item in run.items)  # none of those read of a folder has any yet
    for item in mistakes if judged_now else with_reasons(run.path, mistakes):
        rows = by_size(item.rubrics)
        largest = abs(rows[0].contribution) if rows else 0.0
        found.append(Explanation(item=item, rows=rows, largest=largest, texts=run.examples.get(item.id), caption=""))
    return tuple(found)
