"""Where two runs differ: net advantage by a column of their items, and the pairs that exactly one has right."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson

from svr_async.core.statistics import holm
from svr_async.core.table import Table, csv_text
from svr_async.errors import UsageError
from svr_async.evaluation import wording
from svr_async.evaluation.items import Item
from svr_async.evaluation.labels import run_titles
from svr_async.evaluation.reporting.compare import PairedTest, by_key, paired_test
from svr_async.evaluation.run_folder import Run

FORMS = (".csv", ".jsonl")
ITEM_COLUMNS = ("domain", "subset", "order", "outcome", "gold", "judge")


@dataclass(frozen=True, slots=True, kw_only=True)
class Disagreement:
    """A pair that exactly one of two runs has right: `right` is first or second; verdicts are A, B or the outcome."""

    id: str
    domain: str
    subset: str
    right: str
    gold: str
    first: str
    second: str
    first_margin: float | None
    second_margin: float | None

    @property
    def apart(self) -> float:
        """How far the margins lie apart; 0 where one is missing."""
        return abs((self.first_margin or 0.0) - (self.second_margin or 0.0))


def couples(first: Run, second: Run) -> list[tuple[Item, Item]]:
    """Return the items that both runs have, with a right answer; UsageError where there are none."""
    left, right = by_key(first.items), by_key(second.items)
    found = [(left[key], right[key]) for key in left if key in right]
    if not found:
        message = f"{first.path} and {second.path} share no item with a right answer"
        raise UsageError(message, hint="compare runs over the same data")
    return found


def item_column(name: str) -> Callable[[Item], str]:
    """Return what reads a column of an item."""
    return lambda item: str(getattr(item, name)) or "–"


def nets_by(
    pairs: Sequence[tuple[Item, Item]], column: Callable[[Item], str], *, seed: int = 0
) -> dict[str, PairedTest]:
    """Test two runs on the pairs of each value of a column (of the first run's item), Holm over the values.

    The largest net advantage of the second run comes first; pairs of a prompt are taken together.
    """
    groups: dict[str, list[tuple[Item, Item]]] = {}
    for couple in pairs:
        groups.setdefault(column(couple[0]), []).append(couple)
    tests = {name: _tested(group, seed) for name, group in groups.items()}
    adjusted = holm([test.p for test in tests.values()])
    found = {name: replace(test, p_holm=p) for (name, test), p in zip(tests.items(), adjusted, strict=True)}
    return dict(sorted(found.items(), key=lambda entry: (-net(entry[1]), entry[0])))


def _tested(group: Sequence[tuple[Item, Item]], seed: int) -> PairedTest:
    first, second = ([item.correct is True for item in side] for side in zip(*group, strict=True))
    return paired_test(first, second, clusters=[a.item for a, _ in group], seed=seed)


def net(test: PairedTest) -> int:
    """Return the net advantage of the second run in pairs: only it right, less only the first right."""
    return test.only_second - test.only_first


def net_table(name: str, tests: Mapping[str, PairedTest]) -> Table:
    """Lay out the net advantage of the second run by a column."""
    rows = tuple(
        (
            value,
            wording.count(test.n),
            wording.signed(net(test), 0),
            wording.points(test.difference),
            f"{test.only_first}:{test.only_second}",
            wording.p_value(test.p),
            wording.p_value(test.p_holm),
        )
        for value, test in tests.items()
    )
    heads = (name, "pairs", "net", "points", "only 1st:2nd", "p", "p Holm")
    return Table(caption=f"net advantage of the second run by {name}", heads=heads, rows=rows)


def disagreements(pairs: Sequence[tuple[Item, Item]]) -> list[Disagreement]:
    """Return the pairs that exactly one of two runs has right: those that the second lost, then those that it won.

    In each part those with margins furthest apart come first.
    """
    found = [_disagreement(a, b) for a, b in pairs if (a.correct is True) != (b.correct is True)]
    return sorted(found, key=lambda one: (one.right, -one.apart, one.id))


@dataclass(frozen=True, slots=True, kw_only=True)
class Parted:
    """Where a later run lost pairs to the first and won pairs from it, those with margins furthest apart first."""

    lost: tuple[Disagreement, ...]
    won: tuple[Disagreement, ...]


def parted(first: Run, second: Run) -> Parted | None:
    """Return the pairs on which exactly one of two runs is right; None where they share no pair."""
    if not by_key(first.items).keys() & by_key(second.items).keys():
        return None
    found = disagreements(couples(first, second))
    return Parted(
        lost=tuple(one for one in found if one.right == "first"),
        won=tuple(one for one in found if one.right == "second"),
    )


def parted_tables(runs: Sequence[Run], shown: int = 5) -> Iterator[Table]:
    """Yield for each later run the first pairs that it lost to the first run and that it won from it."""
    for run, title in zip(runs[1:], run_titles(runs)[1:], strict=True):
        found = parted(runs[0], run)
        if found is not None and (found.lost or found.won):
            several = f" ({title})" if len(runs) > 2 else ""
            told = f"{wording.count(len(found.lost))} pairs lost by the second{several}, {len(found.won):,} won"
            rows = (*found.lost[:shown], *found.won[:shown])
            note = "--disagreements N lists more, --disagreements FILE.csv all of them" if len(runs) == 2 else ""
            yield replace(_table(rows, told), notes=(note,) if note else ())


def _disagreement(first: Item, second: Item) -> Disagreement:
    return Disagreement(
        id=first.id,
        domain=first.domain,
        subset=first.subset,
        right="first" if first.correct else "second",
        gold=first.gold or "",
        first=verdict_of(first),
        second=verdict_of(second),
        first_margin=first.margin,
        second_margin=second.margin,
    )


def verdict_of(item: Item) -> str:
    """Return A or B, or the outcome where there is no side."""
    return item.predicted or item.outcome


def disagreement_table(found: Sequence[Disagreement], shown: int) -> Table:
    """Lay out the first disagreements, and say how many there are."""
    return _table(found[:shown], f"{min(shown, len(found))} of {len(found)} disagreements, those lost first")


def _table(rows: Sequence[Disagreement], caption: str) -> Table:
    heads = ("pair", "domain", "answer", "first", "second", "only right")
    cells = ((one.id, one.domain, one.gold, *_verdicts(one), one.right) for one in rows)
    return Table(caption=caption, heads=heads, rows=tuple(cells))


def _verdicts(one: Disagreement) -> tuple[str, str]:
    """Return what each run said, with its margin."""
    told = ((one.first, one.first_margin), (one.second, one.second_margin))
    first, second = (said if margin is None else f"{said} {wording.signed(margin)}" for said, margin in told)
    return first, second


def rows_as(rows: Sequence[Mapping[str, Any]], suffix: str) -> bytes:
    """Return rows of the same keys as .csv, which a spreadsheet never runs, or .jsonl; UsageError for others."""
    if suffix not in FORMS:
        raise UsageError(f"no such form: {suffix or 'a file without a suffix'}", hint="name the file .csv or .jsonl")
    if suffix == ".jsonl":
        return b"".join(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for row in rows)
    return "".join(_csv(rows)).encode()


def _csv(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    if rows:
        writer.writerow(rows[0])
    for row in rows:
        writer.writerow(["" if value is None else csv_text(str(value)) for value in row.values()])
    yield out.getvalue()
