"""The summary of a run: every number that terminal, pages, tables and CSV show, worked out once."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

import orjson

from svr_async.core.integrity import Mark
from svr_async.core.statistics import Interval, wilson_interval
from svr_async.core.verdict import is_number
from svr_async.evaluation import wording
from svr_async.evaluation.compare import accuracy_interval
from svr_async.evaluation.items import Item
from svr_async.evaluation.labels import adapter_of, benchmark_name, caption, marks, run_title
from svr_async.evaluation.metrics import accuracy_block
from svr_async.evaluation.rubric_effects import RubricEffects, by_domain, rubric_effects
from svr_async.evaluation.run_folder import Run
from svr_async.evaluation.wording import against_chance

Kind = Literal["share", "count", "dollars"]
ELSEWHERE = ("coverage", "tie_credit")  # of the benchmark's own scores: shown with the accuracy, and in the settings
CLOSE = 0.1  # this share of the verdicts, those with the smallest |margin|, is called close


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """A named value in words, with a note where the name is not enough; `code` is typed or hashed.

    `words` are the parts of a command, which a line is broken between.
    """

    name: str
    value: str
    note: str = ""
    code: bool = False
    words: tuple[str, ...] = ()


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

    @property
    def accuracy(self) -> float | None:
        """The value of a share."""
        return self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Bin:
    """Pairs with margins of like size: |margin| from `low` to `high`."""

    low: float
    high: float
    n: int
    accuracy: float
    ci95: Interval

    @property
    def range(self) -> str:
        """The range as `0.12–0.31`; one number where both ends read the same."""
        digits = 2 if self.high < 10 else 1 if self.high < 100 else 0
        low, high = f"{self.low:.{digits}f}", f"{self.high:.{digits}f}"
        return low if low == high else f"{low}–{high}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """Everything that is shown of a run. `shares` are (class, words, share) of right, wrong, tie and no verdict."""

    name: str
    folder: str
    benchmark: str
    title: str
    caption: str
    method: str
    judge: str
    bank: str
    started: str
    marks: tuple[Mark, ...]
    notes: tuple[str, ...]
    complete: bool
    n_total: int
    n_scored: int
    headline: str
    reading: str
    accuracy: float | None
    ci95: Interval | None
    tokens_per_pair: float
    numbers: tuple[Number, ...]
    official_title: str
    rule: str
    shares: tuple[tuple[str, str, float], ...]
    outcomes: tuple[tuple[str, int, str], ...]
    confidence: tuple[Bin, ...]
    close: float | None
    effects: RubricEffects
    order: tuple[Fact, ...]
    judges: tuple[Fact, ...]
    cost: tuple[Fact, ...]
    how: tuple[Fact, ...]
    config: tuple[Fact, ...]

    def of(self, group: str) -> tuple[Number, ...]:
        """Return the numbers of a group: empty for those of the whole run, or domain, subset, official, outcome."""
        return tuple(one for one in self.numbers if one.group == group)

    @property
    def domains(self) -> tuple[Number, ...]:
        """The accuracy of each domain; nothing for a single one."""
        return self.of("domain")


def summarise(run: Run) -> RunSummary:
    """Work out the summary of a run."""
    metrics, interval = run.metrics, accuracy_interval(run)
    usage = metrics.get("usage") or {}
    tokens = (usage.get("prompt_tokens") or 0) + (usage.get("completion_tokens") or 0)
    known = metrics["n_scored"] > 0 or not run.items
    accuracy, interval = (metrics.get("accuracy"), interval) if known else (None, None)
    return RunSummary(
        name=run.name,
        folder=str(run.path),
        benchmark=benchmark_name(run),
        title=run_title(run),
        caption=caption(run),
        method=str(metrics["method"]),
        judge=run.judge_label,
        bank=str(metrics.get("bank") or ""),
        started=moment(run.manifest.get("started")),
        marks=marks(run),
        notes=tuple(str(note) for note in metrics.get("notes") or ()),
        complete=run.complete,
        n_total=metrics["n_total"],
        n_scored=metrics["n_scored"],
        headline=_headline(run, accuracy, interval),
        reading=against_chance(metrics, interval),
        accuracy=accuracy,
        ci95=interval,
        tokens_per_pair=tokens / max(1, metrics["n_total"]),
        numbers=tuple(_numbers(run, accuracy, interval)),
        official_title="Official scores" if has_official_rule(metrics) else "Other scores",
        rule=_rule(metrics) if run.complete else "",
        shares=_shares(run.items),
        outcomes=_outcomes(metrics),
        confidence=confidence(run.items),
        close=_close(run.items),
        effects=rubric_effects(by_domain(run.items)),
        order=tuple(_order(metrics.get("order") or {})),
        judges=tuple(_judges(metrics)),
        cost=tuple(_cost(metrics)),
        how=tuple(_how(run)),
        config=tuple(flat_facts(run.manifest.get("config") or {})),
    )


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
            yield Number(key="outcome", name=str(name), value=n, group="outcome", kind="count")
    yield Number(key="cost_usd", name="Cost", value=metrics.get("cost_usd"), kind="dollars", group="cost")


def _groups(run: Run) -> Iterator[Number]:
    """Yield the accuracies of domains and subsets where there are several, and the benchmark's own scores."""
    domains = run.metrics.get("by_domain") or {}
    for name, row in domains.items() if len(domains) > 1 else ():
        ends = row.get("ci95")
        yield Number(
            key="accuracy", name=str(name), value=row.get("accuracy"), n=row["n"], group="domain",
            ci95=None if ends is None else Interval(*ends),
        )  # fmt: skip
    subsets: dict[str, list[Item]] = {}
    for item in run.items:
        if item.gold is not None and item.subset:
            subsets.setdefault(item.subset, []).append(item)
    parts = {(item.domain, item.subset) for some in subsets.values() for item in some}
    if len(subsets) > 1 and len(parts) != len(domains):
        for name, block in ((name, accuracy_block(some)) for name, some in sorted(subsets.items())):
            ends = Interval(*block["accuracy_ci95"])
            yield Number(
                key="accuracy", name=name, value=block["accuracy"], n=block["n_total"], group="subset", ci95=ends
            )
    if run.complete:
        yield from _scores(own_scores(run.metrics), "")


def has_official_rule(metrics: Mapping[str, Any]) -> bool:
    """Whether the authors of this data say how it is scored."""
    adapter = adapter_of(metrics)
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
    official, adapter = own_scores(metrics), adapter_of(metrics)
    parts = [
        str(official.get("rule") or "").rstrip("."),
        "Parts of the benchmark are missing" if official.get("complete") is False else "",
        (adapter.chance if adapter else "").rstrip("."),
    ]
    return " ".join(f"{text[:1].upper()}{text[1:]}." for text in parts if text)


def _outcomes(metrics: Mapping[str, Any]) -> tuple[tuple[str, int, str], ...]:
    counts = {str(name): int(n or 0) for name, n in (metrics.get("outcomes") or {}).items()}
    meanings = wording.OUTCOME_WORDS
    return tuple((name.replace("_", " "), n, meanings.get(name, "")) for name, n in counts.items() if n)


def _shares(items: Sequence[Item]) -> tuple[tuple[str, str, float], ...]:
    known = [item for item in items if item.correct is not None]
    right = sum(item.correct is True for item in known)
    tied = sum(item.outcome == "tie" for item in known)
    wrong = sum(item.outcome == "scored" and item.correct is False for item in known)
    rest = len(known) - right - tied - wrong
    parts = (("right", "right", right), ("wrong", "wrong", wrong), ("tied", "tie", tied), ("none", "no verdict", rest))
    return tuple((name, words, n / len(known)) for name, words, n in parts if n)


def confidence(items: Sequence[Item], groups: int = 5) -> tuple[Bin, ...]:
    """Group items by |margin| into at most five equal parts, with the accuracy of each; fewer than two give none."""
    known = [(abs(item.margin), item.correct) for item in items if item.margin is not None and item.correct is not None]
    bins = []
    for members in _quantile_groups([size for size, _ in known], groups):
        sizes, right = [known[i][0] for i in members], sum(known[i][1] for i in members)
        ends = wilson_interval(right, len(members))
        bins.append(Bin(low=min(sizes), high=max(sizes), n=len(members), accuracy=right / len(members), ci95=ends))
    return tuple(bins) if len(bins) > 1 else ()


def _quantile_groups(values: Sequence[float], groups: int) -> tuple[tuple[int, ...], ...]:
    """Split indices into at most `groups` runs of rising value and about equal size; equal values stay together.

    The value at sorted place i (0-based, of n) belongs to group ⌊groups·i/n⌋ of the first item that shares it.
    """
    order = sorted(range(len(values)), key=lambda i: values[i])
    found: dict[int, list[int]] = {}
    group = 0
    for place, index in enumerate(order):
        if place == 0 or values[index] != values[order[place - 1]]:
            group = groups * place // len(order)
        found.setdefault(group, []).append(index)
    return tuple(tuple(sorted(members)) for members in found.values())


def _close(items: Sequence[Item]) -> float | None:
    """Return the |margin| up to which a verdict is called close; None where all margins are of one size."""
    sizes = sorted(abs(item.margin) for item in items if item.margin)
    if not sizes or sizes[0] == sizes[-1]:
        return None
    return min(sizes[int(CLOSE * len(sizes))], sizes[-1])


def _order(order: Mapping[str, Any]) -> Iterator[Fact]:
    """Yield the order audit; `lean_a` is the share of verdicts for the response shown first."""
    yield Fact(name="Order shown", value=wording.order_in_words(str(order.get("policy") or wording.UNKNOWN)))
    audited, below = number(order.get("audited")), order.get("audit_below")
    if audited is not None:
        note = f"those with a margin below {below:g}" if below is not None else ""
        yield Fact(name="Judged in both orders", value=wording.count(audited) if audited else "none", note=note)
    for key, name, note in (
        ("flip_rate", "Flip rate", "verdicts that change when the two responses trade places"),
        ("lean_a", "For the first response", "share of verdicts for the one shown first; 50 % is even-handed"),
        ("accuracy_ab", "Accuracy, order A–B", ""),
        ("accuracy_ba", "Accuracy, order B–A", ""),
    ):
        value = number(order.get(key))
        if value is not None:
            yield Fact(name=name, value=wording.percent(value), note=note)


def _judges(metrics: Mapping[str, Any]) -> Iterator[Fact]:
    """Yield how several judges of a run agreed and what each cost; nothing for runs with one judge."""
    votes, judges = metrics.get("votes") or {}, metrics.get("judges") or {}
    if (agreement := number(votes.get("agreement"))) is not None:
        note = "share of pairs with two verdicts or more on which all of them agree"
        yield Fact(name="Agreement", value=wording.percent(agreement), note=note)
    if (escalated := number(votes.get("escalated"))) is not None:
        changed = wording.count(number(votes.get("changed")))
        yield Fact(name="Escalated", value=wording.count(escalated), note=f"{changed} changed sides")
    for name, block in judges.items():
        if isinstance(block, Mapping):
            calls = block.get("calls") or {}
            sent, known = wording.count(number(calls.get("sent"))), wording.count(number(calls.get("cache_hits")))
            note = f"{sent} calls sent, {known} from the cache"
            yield Fact(name=str(name), value=wording.dollars(number(block.get("cost_usd"))), note=note)


CALLS = {
    "sent": "Calls sent", "cache_hits": "Answered by the cache", "joined": "Joined a call in flight",
    "failed": "Calls that failed", "lost": "Replies lost",
}  # fmt: skip


def _cost(metrics: Mapping[str, Any]) -> Iterator[Fact]:
    """Yield calls, tokens, dollars and time."""
    calls, usage = metrics.get("calls") or {}, metrics.get("usage") or {}
    for name, n in calls.items():
        yield Fact(name=CALLS.get(name, name.replace("_", " ").capitalize()), value=wording.count(n))
    prompt, cached = usage.get("prompt_tokens"), usage.get("cached_tokens")
    saved = number((metrics.get("cache") or {}).get("saved_usd"))
    share = f"{wording.percent(cached / prompt, 0)} read from the endpoint's cache" if prompt and cached else ""
    share += f", which saved {wording.dollars(saved)}" if share and saved else ""
    yield Fact(name="Prompt tokens", value=wording.count(prompt), note=share)
    yield Fact(name="Completion tokens", value=wording.count(usage.get("completion_tokens")))
    cost, total = metrics.get("cost_usd"), metrics["n_total"]
    each = f"{wording.dollars(1000 * cost / total)} per 1,000 pairs" if cost and total else ""
    yield Fact(name="Cost", value=wording.dollars(cost), note=each)
    if "paid_usd" in metrics:
        yield Fact(name="Paid by this run", value=wording.dollars(number(metrics["paid_usd"])))
    yield Fact(name="Time", value=wording.duration(metrics.get("wall_s")))


def _how(run: Run) -> Iterator[Fact]:
    """Yield how a run was made."""
    manifest = run.manifest
    data, judge = manifest.get("data") or {}, manifest.get("judge") or {}
    skipped = data.get("skipped")
    if isinstance(skipped, Mapping):
        skipped = "; ".join(f"{reason}: {n}" for reason, n in skipped.items())
    rows = (
        ("Command", manifest.get("command"), True),
        ("Package", manifest.get("svr_version") and f"svr-async {manifest['svr_version']}", False),
        ("Started", moment(manifest.get("started")), False),
        ("Ended", moment(manifest.get("ended")), False),
        ("Run folder", run.name, True),
        ("Judge", judge.get("name"), False),
        ("Model", judge.get("model"), True),
        ("Endpoint", judge.get("base_url"), True),
        ("Data", data.get("path"), True),
        ("Data digest", data.get("digest"), True),
        ("Pairs", data.get("n_pairs"), False),
        ("Skipped rows", skipped, False),
        ("Left out", wording.left_out(run.metrics.get("left_out")), False),
    )
    for name, value, code in rows:
        if value not in (None, "", (), [], {}):
            words = tuple(map(shlex.quote, value)) if code and _is_words(value) else ()
            yield Fact(name=name, value=plain(value), code=code, words=words)
    for name, value in (manifest.get("prompts") or {}).items():
        yield Fact(name=f"Prompt {name}", value=plain(value), code=True)
    for name, value in (manifest.get("versions") or {}).items():
        yield Fact(name=str(name), value=plain(value))


def flat_facts(value: Mapping[str, Any], prefix: str = "") -> Iterator[Fact]:
    """Yield a nested configuration as facts, named `outer.inner`."""
    for name, entry in value.items():
        if isinstance(entry, Mapping) and entry:
            yield from flat_facts(entry, f"{prefix}{name}.")
        else:
            yield Fact(name=f"{prefix}{name}", value=plain(entry), code=True)


def plain(value: Any) -> str:
    """Return a JSON value as text: texts as they are, lists of words as a shell would read them, the rest as JSON."""
    if isinstance(value, str):
        return value
    return shlex.join(value) if _is_words(value) else orjson.dumps(value, default=str).decode()


def _is_words(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(entry, str) for entry in value)


def moment(value: Any) -> str:
    """Return an ISO time as `5 January 2026, 10:22 UTC`; anything else as it stands."""
    try:
        when = datetime.fromisoformat(str(value))
    except ValueError:
        return "" if value is None else str(value)
    return f"{when.day} {when:%B %Y, %H:%M} {when.tzname() or ''}".rstrip()


def number(value: Any) -> float | None:
    """Return a value that is a number; None for anything else."""
    return value if is_number(value) else None
