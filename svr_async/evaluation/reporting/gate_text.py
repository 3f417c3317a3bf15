"""A gate's verdict as it is printed: for people, for machines, as GitHub annotations, as Markdown."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import orjson

from svr_async.core.safetext import one_line
from svr_async.core.table import Table, markdown, to_markdown
from svr_async.evaluation import wording
from svr_async.evaluation.reporting.compare import PairedTest
from svr_async.evaluation.reporting.gate import Gate, Verdict

LINE_CHARS = 600
LEVELS = {Verdict.PASSED: "notice", Verdict.UNDECIDED: "warning", Verdict.FAILED: "error", Verdict.REFUSED: "error"}


def gate_text(gate: Gate) -> str:
    """Return the verdict for a terminal: a word, a sentence, the numbers under it."""
    lines = [f"{gate.verdict.upper()}: {gate.sentence}", *(f"  {name}: {value}" for name, value in _facts(gate))]
    return "".join(f"{_line(line)}\n" for line in [*lines, *(f"! {text}" for text in _remarks(gate))])


def _line(line: str) -> str:
    """Return a line that cannot steer a terminal, its indent kept."""
    return " " * (len(line) - len(line.lstrip())) + one_line(line, LINE_CHARS)


def gate_json(gate: Gate) -> str:
    """Return the gate's fields as JSON."""
    return orjson.dumps(gate.to_json(), option=orjson.OPT_INDENT_2).decode() + "\n"


def gate_github(gate: Gate) -> str:
    """Return workflow commands that GitHub shows as annotations: one for the verdict, a line for each remark."""
    first = f"::{LEVELS[gate.verdict]} title=svr gate {gate.verdict}::{_escaped(_whole(gate))}\n"
    level = "error" if gate.verdict is Verdict.REFUSED else "warning"
    return first + "".join(f"::{level} title=svr gate::{_escaped(text)}\n" for text in _remarks(gate))


def _whole(gate: Gate) -> str:
    marks = "".join(f" [{word}]" for word in gate.marks)
    return f"{gate.run} against {gate.baseline}{marks}. {gate.sentence}"


def _escaped(text: str) -> str:
    """Escape a message as GitHub's toolkit does: %, CR and LF; they are on one line already."""
    return one_line(text, LINE_CHARS).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def gate_markdown(gate: Gate) -> str:
    """Return a table for a pull request's comment or a job's summary."""
    table = Table(
        caption=f"svr gate: {gate.verdict}. {gate.sentence}",
        heads=("", "value"),
        rows=tuple(_facts(gate)),
        notes=_remarks(gate),
    )
    return to_markdown(table) if table.rows else f"**{markdown(table.caption)}**\n\n" + _bullets(table.notes)


def _bullets(notes: Sequence[str]) -> str:
    return "".join(f"- {markdown(note)}\n" for note in notes)


def _remarks(gate: Gate) -> tuple[str, ...]:
    return (*gate.refusals, *gate.warnings, *(_domain(name, test) for name, test in gate.domains.items()))


def _domain(name: str, test: PairedTest) -> str:
    gap = f"{wording.points(test.difference)} points on {wording.plural(test.n, 'pair')}"
    return f"{name} lost: {gap} (p, Holm over domains: {wording.p_value(test.p_holm)})"


def _facts(gate: Gate) -> Iterator[tuple[str, str]]:
    yield "run", gate.run
    yield "baseline", gate.baseline
    if gate.marks:
        yield "marks", ", ".join(gate.marks)
    test = gate.test
    if test is None:
        return
    shares = wording.percent(test.accuracy_second), wording.percent(test.accuracy_first)
    yield "accuracy", f"{shares[0]}, the baseline {shares[1]}"
    yield "margin tolerated", f"{100 * gate.margin:g} points"
    yield "only the run right", wording.count(test.only_second)
    yield "only the baseline right", wording.count(test.only_first)
    yield "exact paired test, p", wording.p_value(test.p)
    if test.noise is not None:
        least = f"{100 * test.noise.half_width:.1f} points either way at least"
        yield "judge's own noise", f"makes about {test.noise.expected_discordant:.0f} pairs differ: {least}"


FORMATS: Mapping[str, Callable[[Gate], str]] = {
    "text": gate_text,
    "json": gate_json,
    "github": gate_github,
    "md": gate_markdown,
}
