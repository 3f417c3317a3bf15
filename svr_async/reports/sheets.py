"""Gates and agreement with people, as lines and tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from svr_async.core.safetext import one_line
from svr_async.core.table import Line, Parts, Table, to_markdown
from svr_async.evaluation import wording
from svr_async.evaluation.gate import Gate, Verdict
from svr_async.evaluation.human_labels import LABELS, Estimate, HumanAgreement, RaterAgreement
from svr_async.evaluation.run_folder import Run
from svr_async.evaluation.wording import plural, points

LINE_CHARS = 600
SHOWN = 10
LEVELS = {Verdict.PASSED: "notice", Verdict.UNDECIDED: "warning", Verdict.FAILED: "error", Verdict.REFUSED: "error"}
HEADS = ("raters", "items", "same label", "95 % interval", "Cohen’s κ", "95 % interval")


def _text(gate: Gate) -> str:
    lines = [f"{gate.verdict.upper()}: {one_line(gate.sentence, LINE_CHARS)}"]
    lines += [f"  {name}: {one_line(value, LINE_CHARS)}" for name, value in _facts(gate)]
    return "".join(f"{line}\n" for line in [*lines, *(f"! {one_line(text, LINE_CHARS)}" for text in _remarks(gate))])


def _github(gate: Gate) -> str:
    """Return annotations for GitHub: one for the verdict, one for each remark; `%` is escaped as in its toolkit."""
    marks = "".join(f" [{word}]" for word in gate.marks)
    level = "error" if gate.verdict is Verdict.REFUSED else "warning"
    whole = f"{gate.run} against {gate.baseline}{marks}. {gate.sentence}"
    lines = [(f"{LEVELS[gate.verdict]} title=svr gate {gate.verdict}", whole)]
    lines += [(f"{level} title=svr gate", text) for text in _remarks(gate)]
    return "".join(f"::{head}::{one_line(text, LINE_CHARS).replace('%', '%25')}\n" for head, text in lines)


def _markdown(gate: Gate) -> str:
    title = f"svr gate: {gate.verdict}. {gate.sentence}"
    return to_markdown(Table(("", "value"), tuple(_facts(gate)), caption=title, notes=_remarks(gate), texts=1))


def _remarks(gate: Gate) -> tuple[str, ...]:
    lost = (
        f"{name} lost: {points(test.difference)} points on {plural(test.n, 'pair')} "
        f"(p, Holm over domains: {wording.p_value(test.p_holm)})"
        for name, test in gate.domains.items()
    )
    return (*gate.refusals, *gate.warnings, *lost)


def _facts(gate: Gate) -> Iterator[tuple[str, str]]:
    yield "run", gate.run
    yield "baseline", gate.baseline
    if gate.marks:
        yield "marks", ", ".join(gate.marks)
    if (test := gate.test) is not None:
        first, second = wording.percent(test.accuracy_first), wording.percent(test.accuracy_second)
        yield "accuracy", f"{second}, the baseline {first}"
        yield "points tolerated", f"{100 * gate.margin:g}"
        yield "only the run right", wording.count(test.only_second)
        yield "only the baseline right", wording.count(test.only_first)
        yield "exact paired test, p", wording.p_value(test.p)


FORMATS: Mapping[str, Callable[[Gate], str]] = {"text": _text, "github": _github, "md": _markdown}


def agreement_sheet(run: Run, found: HumanAgreement, blank: int) -> Parts:
    """Yield a run's agreement with people; `blank` rows of the label file are empty."""
    people = ", ".join(f"{name or 'unnamed'} {count}" for name, count in found.labellers.items())
    empty = f"; {plural(blank, 'row')} not filled in" if blank else ""
    yield Line(run.summary.caption)
    yield Line(f"{plural(found.labels, 'label')} of {plural(found.items, 'item')}: {people}{empty}")
    if found.unjudged:
        yield Line(f"{plural(found.unjudged, 'labelled item')} without a verdict of the judge")
    rows = [_agreement_row(f"{one.first or 'unnamed'} and {one.second or 'unnamed'}", one) for one in found.between]
    yield Line("")
    yield Table(HEADS, rows + ([] if found.judge is None else [_agreement_row("people and the judge", found.judge)]))
    yield Line("")
    counts = [(one, *(wording.count(row[other]) for other in LABELS)) for one, row in found.table.items()]
    yield Table(("people's label", *(f"judge {label}" for label in LABELS)), counts)
    if found.picked:
        yield Line(
            f"{plural(found.picked, 'item')} picked as hard: agreement is lower on these than on a random sample"
        )
    if found.conflicts:
        more = len(found.conflicts) - SHOWN
        ids = ", ".join(found.conflicts[:SHOWN]) + (f" and {more} more (--json lists them)" if more > 0 else "")
        yield Line(f"people and judge prefer different responses in {plural(len(found.conflicts), 'item')}: {ids}")


def _agreement_row(name: str, one: RaterAgreement) -> tuple[str, ...]:
    share = (wording.percent(one.share), wording.interval(one.share_ci95))
    return (name, wording.count(one.n), *share, *_number(one.kappa))


def _number(one: Estimate) -> tuple[str, str]:
    ends = wording.UNKNOWN if one.ci95 is None else " to ".join(wording.signed(end) for end in one.ci95)
    return wording.UNKNOWN if one.value is None else wording.signed(one.value), ends
