"""Gates and agreement with people, as lines and tables; sheets of items to label."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import orjson

from svr_async.core.files import write_atomic
from svr_async.core.safetext import one_line
from svr_async.core.table import Line, Parts, Table, to_markdown
from svr_async.errors import UsageError
from svr_async.evaluation import wording
from svr_async.evaluation.details import known_texts
from svr_async.evaluation.gate import Gate, Verdict
from svr_async.evaluation.human_labels import LABELS, Estimate, HumanAgreement, Pick, RaterAgreement, worth_labelling
from svr_async.evaluation.run_folder import Run, Texts
from svr_async.evaluation.wording import plural, points

LINE_CHARS = 600
FIELDS = ("id", "domain", "picked", "prompt", "response_a", "response_b", "label", "labeller", "note")
_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # a spreadsheet would calculate these
SHOWN = 10
LEVELS = {Verdict.PASSED: "notice", Verdict.UNDECIDED: "warning", Verdict.FAILED: "error", Verdict.REFUSED: "error"}
HEADS = ("raters", "items", "same label", "95 % interval", "Cohen’s κ", "95 % interval")


def _text(gate: Gate) -> str:
    lines = [f"{gate.verdict.upper()}: {one_line(gate.sentence, LINE_CHARS)}"]
    lines += [f"  {name}: {one_line(value, LINE_CHARS)}" for name, value in _facts(gate)]
    return "".join(f"{line}\n" for line in [*lines, *(f"! {one_line(text, LINE_CHARS)}" for text in _remarks(gate))])


def _json(gate: Gate) -> str:
    """Return the fields of the gate; an interval is [low, high]."""
    return orjson.dumps(gate, default=list, option=orjson.OPT_INDENT_2).decode() + "\n"


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
        yield "margin tolerated", f"{100 * gate.margin:g} points"
        yield "only the run right", wording.count(test.only_second)
        yield "only the baseline right", wording.count(test.only_first)
        yield "exact paired test, p", wording.p_value(test.p)


FORMATS: Mapping[str, Callable[[Gate], str]] = {"text": _text, "json": _json, "github": _github, "md": _markdown}


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


def write_next(
    run: Run, count: int, out: Path, *, done: frozenset[str] = frozenset(), random: bool = False,
    data: Path | None = None, seed: int = 0,
) -> tuple[dict[str, Any], str]:  # fmt: skip
    """Write up to `count` items to label to `out`, .jsonl or .csv; return what was written, as values and in words.

    Texts are from `data`, else from the run's own data if it is still there. The verdicts are not written. UsageError
    if no item is left to label.
    """
    picks = worth_labelling(run.items, count, done=done, random=random, seed=seed)
    if not picks:
        raise UsageError(f"{run.path} has no item left to label", hint="every item with a verdict has a label")
    texts, _ = known_texts(run, data)
    _write_sheet(out, picks, texts)
    reasons = Counter(pick.why for pick in picks)
    why = ", ".join(f"{n} by {name}" for name, n in sorted(reasons.items()))
    lacking = "" if texts else "; without texts, which --data PATH adds"
    values = {"out": str(out), "items": len(picks), "by": dict(reasons), "with_texts": bool(texts)}
    return values, f"{len(picks)} items to label in {out} ({why}){lacking}; fill in label: a, b or tie"


def _write_sheet(path: Path, picks: Sequence[Pick], texts: Mapping[str, Texts]) -> None:
    """Write items to label; a CSV cell that a spreadsheet would calculate gets an apostrophe."""
    kind = path.suffix.lower()
    if kind not in {".jsonl", ".csv"}:
        raise UsageError(f"--out {path} is neither .jsonl nor .csv", hint="name a .jsonl or .csv file")
    if path.exists():
        raise UsageError(f"{path} exists and may hold labels", hint="name another file with --out")
    rows = []
    for pick in picks:
        shown = asdict(texts[pick.item.id]) if pick.item.id in texts else {}
        row = {"id": pick.item.id, "domain": pick.item.domain, "picked": pick.why, **shown}
        rows.append({name: row.get(name, "") for name in FIELDS})
    if kind == ".jsonl":
        data = b"".join(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for row in rows)
    else:
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(FIELDS)
        for row in rows:
            shown = {n: "'" + text if text.startswith(_FORMULA) else text for n, text in row.items()}
            writer.writerow((shown | {"id": row["id"]}).values())  # an id must match the run
        data = out.getvalue().encode("utf-8", "replace")
    write_atomic(path, data)
