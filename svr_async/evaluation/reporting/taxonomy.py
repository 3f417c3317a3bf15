"""The form of pairs that two runs both miss: written for a person to fill in, read again and counted."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from svr_async.core.pair import PreferencePair, prompt_text
from svr_async.core.table import Table, csv_text
from svr_async.errors import DataError
from svr_async.evaluation import wording
from svr_async.evaluation.items import Item
from svr_async.evaluation.reporting.overlap import verdict_of

CATEGORIES = ("subjective preference", "capability ceiling", "label noise", "other")
MOST_CELL_CHARS = 2**24


@dataclass(frozen=True, slots=True, kw_only=True)
class Taxonomy:
    """What a form says: pairs by category, those not filled in, and ids that are not missed by both runs."""

    counts: Mapping[str, int]
    unfilled: int
    strangers: tuple[str, ...]


def both_miss(couples: Sequence[tuple[Item, Item]]) -> list[tuple[Item, Item]]:
    """Return the pairs that neither run has right."""
    return [(a, b) for a, b in couples if a.correct is not True and b.correct is not True]


def form_rows(missed: Sequence[tuple[Item, Item]], pairs: Mapping[str, PreferencePair]) -> list[dict[str, Any]]:
    """Return a row for each pair that both miss, with its texts and verdicts; category and note are for a person."""
    return [
        {
            "id": first.id,
            "domain": first.domain,
            "prompt": prompt_text(pairs[first.id].prompt),
            "response_a": pairs[first.id].response_a,
            "response_b": pairs[first.id].response_b,
            "gold": first.gold,
            "first": verdict_of(first),
            "second": verdict_of(second),
            "category": "",
            "note": "",
        }
        for first, second in missed
    ]


def read_form(data: bytes, suffix: str, where: str) -> list[dict[str, Any]]:
    """Return the rows of a form; DataError for a line that cannot be read, or a row without id or category."""
    try:
        if suffix == ".jsonl":
            rows = [orjson.loads(line) for line in data.splitlines() if line.strip()]
        else:
            csv.field_size_limit(MOST_CELL_CHARS)
            rows = list(csv.DictReader(io.StringIO(data.decode("utf-8-sig"), newline="")))
    except (ValueError, csv.Error) as error:
        raise DataError(
            f"{where} cannot be read: {error}", hint="save it in the form that it was written in"
        ) from error
    for number, row in enumerate(rows, 1):
        if not isinstance(row, dict) or not {"id", "category"} <= row.keys():
            raise DataError(f"{where} row {number} has no id or category", hint="keep the columns of the form")
    return rows


def count_form(rows: Sequence[Mapping[str, Any]], missed: Sequence[tuple[Item, Item]], where: str) -> Taxonomy:
    """Count a filled form; DataError names the row of a category that there is not, or of an id that is there twice."""
    counts, strangers, seen = Counter[str](), [], dict[str, int]()
    known = {name for item, _ in missed for name in (item.id, csv_text(item.id))}
    for number, row in enumerate(rows, 1):
        category = " ".join(str(row["category"] or "").casefold().split())
        if category and category not in CATEGORIES:
            hint = f"there are {', '.join(CATEGORIES)}"
            raise DataError(f"{where} row {number}: category {row['category']!r} is not known", hint=hint)
        if (before := seen.setdefault(str(row["id"]), number)) != number:
            hint = "keep one row for each pair"
            raise DataError(f"{where} row {number} has the id {row['id']!r} of row {before}", hint=hint)
        counts[category] += 1
        if str(row["id"]) not in known:
            strangers.append(str(row["id"]))
    told = {name: counts[name] for name in CATEGORIES}
    return Taxonomy(counts=told, unfilled=counts[""], strangers=tuple(strangers))


def taxonomy_table(found: Taxonomy, where: str) -> Table:
    """Lay out the counts of a form."""
    filled = sum(found.counts.values()) or 1
    rows = tuple((name, wording.count(n), wording.percent(n / filled)) for name, n in found.counts.items())
    notes = [f"{wording.plural(found.unfilled, 'row')} not filled in yet"] if found.unfilled else []
    if found.strangers:
        notes.append(
            f"{wording.plural(len(found.strangers), 'row')} not missed by both: {', '.join(found.strangers[:5])}"
        )
    return Table(
        caption=f"what both miss, by {where}", heads=("category", "pairs", "share"), rows=rows, notes=tuple(notes)
    )
