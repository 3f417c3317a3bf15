"""What `svr compare` works out beside its tests: by a column, disagreements, the form of what both runs miss."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from svr_async.core.files import read_plain, reason, write_atomic
from svr_async.core.pair import PreferencePair
from svr_async.core.table import Table
from svr_async.errors import StorageError, UsageError
from svr_async.evaluation.items import Item
from svr_async.evaluation.reporting import overlap, taxonomy
from svr_async.evaluation.run_folder import Run
from svr_async.evaluation.running.frontier import judged_pairs, settings_of

PAIR_COLUMNS = ("source", "strength")  # that a run's data has and its items do not


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What to work out of two runs: the column, a number or file of disagreements, the form's file."""

    by: str | None = None
    disagreements: str | None = None
    taxonomy: Path | None = None

    def __bool__(self) -> bool:
        return any((self.by, self.disagreements, self.taxonomy))


def analyse(runs: Sequence[Run], wanted: Wanted, *, seed: int = 0) -> Iterator[tuple[str, Any, Table]]:
    """Yield name, JSON value and table of each thing wanted; UsageError unless there are two runs."""
    if not wanted:
        return
    if len(runs) != 2:
        raise UsageError(
            f"--by, --disagreements and --taxonomy are about two runs (got {len(runs)})", hint="svr compare RUN RUN …"
        )
    pairs = overlap.couples(*runs)
    if wanted.by:
        tests = overlap.nets_by(pairs, _column(runs[0], wanted.by), seed=seed)
        value = {"column": wanted.by, "values": {name: asdict(test) for name, test in tests.items()}}
        yield "by", value, overlap.net_table(wanted.by, tests)
    if wanted.disagreements:
        yield _disagreements(overlap.disagreements(pairs), wanted.disagreements)
    if wanted.taxonomy:
        yield _taxonomy(runs[0], taxonomy.both_miss(pairs), wanted.taxonomy)


def _column(run: Run, name: str) -> Callable[[Item], str]:
    """Return what reads a column of a run's items, or of the pairs that they were made of."""
    if name in overlap.ITEM_COLUMNS:
        return overlap.item_column(name)
    if name not in PAIR_COLUMNS:
        known = ", ".join((*overlap.ITEM_COLUMNS, *PAIR_COLUMNS))
        raise UsageError(f"--by {name}: items have no such column", hint=f"there are {known}")
    values = {pair.id: str(getattr(pair, name) or "–") for pair in _pairs(run).values()}
    return lambda item: values.get(item.id, "–")


def _pairs(run: Run) -> dict[str, PreferencePair]:
    return {pair.id: pair for pair in judged_pairs(settings_of(run), run)}


def _disagreements(found: Sequence[overlap.Disagreement], where: str) -> tuple[str, Any, Table]:
    rows = [asdict(one) for one in found]
    if where.isdecimal():
        return "disagreements", rows[: int(where)], overlap.disagreement_table(found, int(where))
    path = Path(where)
    if path.suffix not in overlap.FORMS:
        raise UsageError(f"--disagreements {where} is neither a number nor a file", hint="name a .csv or .jsonl file")
    if path.exists():
        raise UsageError(f"--disagreements {where} is there already", hint="name another file, or take that one away")
    write_atomic(path, overlap.rows_as(rows, path.suffix))
    return "disagreements", {"out": where, "rows": len(rows)}, Table(
        caption=f"{len(rows)} disagreements in {where}", heads=(), rows=()
    )  # fmt: skip


def _taxonomy(run: Run, missed: Sequence[tuple[Item, Item]], path: Path) -> tuple[str, Any, Table]:
    """Write the form where there is none, else read it and count."""
    try:
        data = read_plain(path)
    except FileNotFoundError:
        rows = taxonomy.form_rows(missed, _pairs(run))
        write_atomic(path, overlap.rows_as(rows, path.suffix))
        caption = f"{len(rows)} pairs that both miss are in {path}: fill in category, then give the same command"
        note = f"categories: {', '.join(taxonomy.CATEGORIES)}"
        return (
            "taxonomy",
            {"out": str(path), "rows": len(rows)},
            Table(caption=caption, heads=(), rows=(), notes=(note,)),
        )
    except OSError as error:
        raise StorageError(f"cannot read {path}: {reason(error)}") from error
    found = taxonomy.count_form(taxonomy.read_form(data, path.suffix, str(path)), missed, str(path))
    return "taxonomy", asdict(found), taxonomy.taxonomy_table(found, str(path))
