"""Files of people's labels: read back filled in, and written for people to fill in; what the judge said is in none."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import orjson

from svr_async.adapters.tables import Row, read_rows
from svr_async.core.files import write_atomic
from svr_async.errors import DataError, UsageError
from svr_async.evaluation.people import LABELS, Label, Pick
from svr_async.evaluation.run_folder import Texts

FIELDS = ("id", "domain", "picked", "prompt", "response_a", "response_b", "label", "labeller", "note")
_MEANT = {one.casefold(): one for one in LABELS}
_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # what a spreadsheet would calculate


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelFile:
    """The labels of a file, and how many of its rows nobody has filled in."""

    labels: tuple[Label, ...]
    blank: int


def read_labels(path: Path) -> LabelFile:
    """Read rows of id, label (a, b or tie, as the data set lists the responses), labeller, note and picked.

    Any of the forms that `read_rows` takes; only id and label have to be there. DataError, naming the row, for one that
    is no label; UsageError where no row has one.
    """
    found, blank = [], 0
    for row in read_rows(path):
        label = _label(row)
        if label is None:
            blank += 1
        else:
            found.append(label)
    if not found:
        raise UsageError(f"{path} holds no label", hint="fill in a, b or tie in its column label")
    return LabelFile(labels=tuple(found), blank=blank)


def _label(row: Row) -> Label | None:
    if row.problem:
        raise DataError(f"{row.where}: {row.problem}", hint="a row has an id and a label")
    lacking = next((name for name in ("id", "label") if name not in row.values), None)
    lacking = "id" if row.values.get("id") is None else lacking
    if lacking is not None:
        raise DataError(f"{row.where} has no {lacking}", hint="a row has an id and a label: a, b or tie")
    texts = {name: str(row.values.get(name) or "").strip() for name in ("label", "labeller", "note", "picked")}
    said = texts.pop("label")
    if not said:
        return None
    if said.casefold() not in _MEANT:
        raise DataError(f"{row.where}: {said[:40]!r} is no label", hint="write a, b or tie")
    return Label(id=str(row.values["id"]), label=_MEANT[said.casefold()], where=row.where, **texts)


def write_sheet(path: Path, picks: Sequence[Pick], texts: Mapping[str, Texts]) -> None:
    """Write items for people to label, whole, as JSONL or CSV by the suffix; UsageError for another, or a file."""
    kind = path.suffix.lower()
    if kind not in {".jsonl", ".csv"}:
        raise UsageError(f"--out {path}: no format for labels", hint="use .jsonl or .csv")
    if path.exists():
        raise UsageError(f"{path} is there already, and may hold labels", hint="name another file with --out")
    rows = [_blank(pick, texts.get(pick.item.id)) for pick in picks]
    write_atomic(path, b"".join(orjson.dumps(row) + b"\n" for row in rows) if kind == ".jsonl" else _csv(rows))


def _blank(pick: Pick, texts: Texts | None) -> dict[str, str]:
    shown = {} if texts is None else {name: getattr(texts, name) for name in ("prompt", "response_a", "response_b")}
    row = {"id": pick.item.id, "domain": pick.item.domain, "picked": pick.why, **shown}
    return {name: row.get(name, "") for name in FIELDS}


def _csv(rows: Sequence[Mapping[str, str]]) -> bytes:
    """Return rows as CSV; texts but ids that a spreadsheet would calculate begin with an apostrophe."""
    out = io.StringIO()
    writer = csv.DictWriter(out, FIELDS, lineterminator="\n")
    writer.writeheader()
    for row in rows:
        marks = {name: "'" if name != "id" and text.startswith(_FORMULA) else "" for name, text in row.items()}
        writer.writerow({name: marks[name] + text for name, text in row.items()})
    return out.getvalue().encode("utf-8", "replace")
