"""Summaries of runs as lines and tables: for terminals, notebooks, Markdown, LaTeX and CSV."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from svr_async.core.table import Line, Part, Table
from svr_async.engine.request import CHARS_PER_TOKEN
from svr_async.evaluation import wording
from svr_async.evaluation.compare import Comparison, compare_runs
from svr_async.evaluation.run_folder import Run
from svr_async.evaluation.summary import Number, RunSummary, summaries_of
from svr_async.judges.questions import TOKENS_OF_REASONING, TOKENS_OF_TEXT, TOKENS_PER_ROW, TOKENS_PER_RUBRIC
from svr_async.reports.compare_tables import paired_tables
from svr_async.reports.effects import effects_of, effects_tables
from svr_async.reports.facts import Fact, cost_facts, how_facts, judge_facts, order_facts
from svr_async.reports.writers import WRITERS, to_csv
from svr_async.scoring.dry_run import AUTO_IN_FLIGHT, FIRST_TOKEN_S, TOKENS_PER_S, describe_stages

CSV_HEADS = ("run", "benchmark", "method", "judge", "marks", "score", "group", "n", "value", "low", "high")
ASSUMED = (
    f"assumed: {CHARS_PER_TOKEN:g} characters a token in; {TOKENS_PER_ROW} tokens for each judged rubric, "
    f"{TOKENS_OF_TEXT} for a direct verdict, {TOKENS_PER_RUBRIC} for each written rubric, {TOKENS_OF_REASONING} more "
    "with a reasoning effort; a small run first replaces these by what this judge takes"
)
SPEED = f"{FIRST_TOKEN_S:g} s a call and {TOKENS_PER_S:.0f} tokens a second, {AUTO_IN_FLIGHT} in flight with auto"
MOST_SCORES = 8  # of the benchmark's own scores on a terminal; a page and a table show all
HALVES = ("accuracy_half_credit", "accuracy_scored", "accuracy_bounds")  # shown where they differ from the accuracy


def run_parts(found: RunSummary) -> Iterator[Part]:
    """Yield what a terminal or a notebook shows of a run: the result in a sentence, the domains, the other facts."""
    yield Line(f"{found.benchmark} · {found.title}")
    yield from (Line(f"{mark.word}: {mark.text}", wrapped=True, loud=True) for mark in found.marks)
    yield Line(f"{found.headline} {found.reading}".rstrip())
    if domains := found.of("domain"):
        rows = [(one.name, wording.count(one.n), one.words, one.interval) for one in domains]
        yield Table(("domain", "pairs", "accuracy", "95 % interval"), rows)
    for one in found.of(""):
        if one.key in HALVES and {one.value, *(one.ci95 or ())} - {None, found.accuracy}:
            yield Line(f"{one.words} ({one.note})", label=one.name.lower())
    if scores := [one for one in found.of("official") if not one.depth]:
        text = ", ".join(f"{one.name} {one.words}" for one in scores[:MOST_SCORES])
        yield Line(text, label=found.official_title.split()[0].lower())
    if outcomes := found.of("outcome"):
        yield Line(", ".join(f"{one.name} {one.words}".replace("_", " ") for one in outcomes), label="outcomes")
    if left := next((fact.value for fact in how_facts(found) if fact.name == "Left out"), ""):
        yield Line(left, label="rows")
    for label, facts in (
        ("order", order_facts(found)), ("calls", cost_facts(found.metrics)), ("judges", judge_facts(found)),
    ):  # fmt: skip
        if text := in_one_line(facts):
            yield Line(text, label=label, wrapped=True)
    yield from (Line(note, label="note", wrapped=True) for note in found.notes)


def in_one_line(facts: Iterable[Fact]) -> str:
    """Return the facts that are known and not 0, without their notes."""
    return "; ".join(f"{one.name} {one.value}" for one in facts if one.value not in {"0", wording.UNKNOWN})


def render_tables(runs: Sequence[Run], kinds: Sequence[str]) -> dict[str, str]:
    """Return the tables of one run, or of several side by side, as some of `md`, `tex` and `csv`."""
    summaries = summaries_of(runs)
    found = {"csv": runs_csv(summaries)} if "csv" in kinds else {}
    if set(kinds) - {"csv"}:
        title = summaries[0].caption if len(runs) == 1 else f"{len(runs)} runs together"
        compared = compare_runs(runs, require_shared=False) if len(runs) > 1 else None
        tables = [
            run_table(summaries, compared),
            *(paired_tables(compared) if compared else ()),
            *effects_tables(effects_of(runs), f"Rubrics that decide, {title}"),
        ]
        found |= {kind: "\n".join(map(WRITERS[kind], tables)) for kind in kinds if kind != "csv"}
    return found


def run_table(summaries: Sequence[RunSummary], compared: Comparison | None = None) -> Table:
    """Lay out all numbers with a column for each run; the first run is the baseline."""

    def cell(one: Number | None) -> str:
        return wording.UNKNOWN if one is None else f"{one.words} ({one.interval})" if one.interval else one.words

    tables = [{(one.group, one.key, one.name): one for one in found.numbers} for found in summaries]
    keys = list(dict.fromkeys(key for one in tables for key in one if key[0] != "heading"))
    rows = [(_row_name(key, tables), *(cell(one.get(key)) for one in tables)) for key in keys]
    if compared is None:
        found = summaries[0]
        notes = [f"{found.headline} {found.reading}".rstrip(), *(f"{one.word}: {one.text}" for one in found.marks)]
        return Table(
            ("", "Value"), rows, caption=found.caption, notes=[*notes, *filter(None, [found.rule]), *found.notes]
        )
    heads = [one.marked_title for one in summaries]
    benchmarks = ", ".join(dict.fromkeys(one.benchmark for one in summaries))
    caption = f"{benchmarks}: {len(summaries)} runs compared"
    return Table(("", *heads), rows, caption=caption, notes=compared.warnings)


def _row_name(key: tuple[str, str, str], tables: Sequence[Mapping[tuple[str, str, str], Number]]) -> str:
    one = next(found[key] for found in tables if key in found)
    if one.group == "official":
        return f"Official: {one.key.replace('_', ' ')}"
    name = one.name if one.group in {"", "cost"} else f"{one.group.capitalize()}: {one.name.replace('_', ' ')}"
    return f"{name} (n = {wording.count(one.n)})" if one.n is not None and one.group in {"domain", "subset"} else name


def runs_csv(summaries: Sequence[RunSummary]) -> str:
    """Return one number a row, in fractions of 1 and full precision; every row has its run's marks."""
    rows: list[list[Any]] = []
    for found in summaries:
        start = [found.name, str(found.metrics["benchmark"]), found.method, found.judge, " ".join(found.mark_words)]
        for one in found.numbers:
            if one.group != "heading":
                score, group = (
                    (one.group, one.key) if one.group == "official" else (one.key, "" if not one.group else one.name)
                )
                rows.append(
                    [*start, score, "" if one.group == "cost" else group, one.n, one.value, *(one.ci95 or (None, None))]
                )
        for effect in found.effects.rubrics:
            total = effect.total
            ends = total.ci95 or (None, None)
            rows.append([*start, "rubric_right", effect.id, total.leaned, total.accuracy, *ends])
            if found.effects.summed:
                rows.append([*start, "rubric_net", effect.id, total.used, total.net, None, None])
    return to_csv(CSV_HEADS, rows)


def describe_count(count: Mapping[str, Any] | None, *, verbose: bool = False) -> str:
    """Return the count as text: calls, cost and time; with `verbose` also what they rest on."""
    if count is None:
        return "0 calls: this judge sends nothing"
    audit, maybe = count["audit_calls"], count["maybe_calls"]
    parts = [f"{audit:,} of them for the order audit"] if audit else []
    parts += [f"{maybe:,} of them only if margins turn out small"] if maybe else []
    known = f"; {count['cache_hits']:,} answers are in the cache" if count["cache_hits"] else ""
    lines = [
        f"dry run: {count['calls']:,} calls{''.join(f', {part}' for part in parts)}{known}. Nothing was sent.",
        (
            f"  cost: {_cost(count)} ({count['prompt_tokens']:,} tokens in, {count['completion_tokens']:,} out, "
            f"at most {count['max_completion_tokens']:,})"
        ),
        f"  time: about {wording.duration(count['seconds'])}",
    ]
    for name, one in count.get("judges", {}).items():
        lines.append(f"  {name}: {one['calls']:,} calls, {one['cache_hits']:,} from the cache; {_cost(one)}")
    if count.get("assumes"):
        lines.append(f"  by stage: {describe_stages(count['method_calls'])}; assumed: {count['assumes']}")
    if sampled := count["sampled_answers"]:
        lines.append(f"  scaled by {sampled:,} answers in the cache")
    elif verbose:
        lines.append(f"  {ASSUMED}; {SPEED}")
    return "\n".join(lines)


def _cost(count: Mapping[str, Any]) -> str:
    if count["usd"] is None:
        return "price unknown: give --price IN/OUT, or price = [in, cached, out] in judges.toml"
    return f"about {wording.dollars(count['usd'])}, at most {wording.dollars(count['max_usd'])}"
