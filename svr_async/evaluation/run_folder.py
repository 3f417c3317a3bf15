"""Reads run folders: manifest, items, metrics, reasons, examples."""

from __future__ import annotations

import gzip
import os
import zlib
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import msgspec
import orjson

from svr_async.core.files import reason, write_atomic
from svr_async.core.integrity import Marks
from svr_async.core.pair import PreferencePair, prompt_text
from svr_async.errors import ArtefactError, StorageError, UsageError
from svr_async.evaluation.items import Item, Reason, RubricRow, read_item
from svr_async.evaluation.wording import percent, plural

if TYPE_CHECKING:
    from svr_async.evaluation.summary import RunSummary

REASONS = "reasons.json.gz"
REASON_COLUMNS = ("item", "rubric", "shown", "judge", "text")
AGAIN = "run svr eval again; what was judged is in the cache"
T = TypeVar("T")
Table = Literal["items", "rubrics"]
NESTED = {"rubrics", "votes", "reasons", "margins"}  # fields of an item that are tables or become two columns
Count = Annotated[int, msgspec.Meta(ge=0)]
Interval = tuple[float, float] | None
Numbers = dict[str, float | None] | None


class _Domain(msgspec.Struct):
    n: Count
    accuracy: float | None = None
    ci95: Interval = None


class _Metrics(msgspec.Struct):
    """The keys of metrics.json that are read; others pass."""

    benchmark: str
    method: str
    judge: str
    n_total: Count
    n_scored: Count
    judge_label: str | None = None
    bank: str | None = None
    coverage: float | None = None
    accuracy: float | None = None
    accuracy_scored: float | None = None
    accuracy_half_credit: float | None = None
    accuracy_bounds: Interval = None
    accuracy_ci95: Interval = None
    accuracy_ci95_unit: str | None = None
    by_domain: dict[str, _Domain] | None = None
    official: dict[str, Any] | None = None
    outcomes: dict[str, Count] | None = None
    order: dict[str, Any] | None = None
    calls: Numbers = None
    usage: Numbers = None
    cost_usd: float | None = None
    wall_s: float | None = None
    notes: list[Any] | None = None
    cache: Numbers = None
    votes: Numbers = None
    judges: dict[str, Any] | None = None


class _Judge(msgspec.Struct):
    marks: list[Annotated[str, msgspec.Meta(pattern="^[a-z][a-z_]{0,39}$")]] | None = None


class _Manifest(msgspec.Struct):
    config: dict[str, Any] | None = None
    data: dict[str, Any] | None = None
    prompts: dict[str, Any] | None = None
    versions: dict[str, Any] | None = None
    judge: _Judge | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Texts:
    """The texts of one item, in the data set's order."""

    prompt: str
    response_a: str
    response_b: str

    @classmethod
    def of(cls, pair: PreferencePair) -> Texts:
        """Return the texts of a pair."""
        return cls(prompt=prompt_text(pair.prompt), response_a=pair.response_a, response_b=pair.response_b)


@dataclass(frozen=True, kw_only=True)  # no slots: the summary is computed once and kept
class Run:
    """The contents of a run folder. `metrics` and `manifest` are the parsed files, checked on reading."""

    path: Path
    manifest: Mapping[str, Any]
    items: tuple[Item, ...]
    metrics: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The folder's name."""
        return self.path.resolve().name

    @property
    def complete(self) -> bool:
        """Whether the run is finished; an unfinished run is marked PARTIAL."""
        return self.metrics.get("complete") is True

    @property
    def judge_label(self) -> str:
        """The recorded label of the judge, or its short name."""
        return str(self.metrics.get("judge_label") or self.metrics["judge"])

    @property
    def integrity(self) -> Marks:
        """The marks of the judge."""
        return frozenset((self.manifest.get("judge") or {}).get("marks") or ())

    @cached_property
    def summary(self) -> RunSummary:
        """Every number that is shown of the run."""
        from svr_async.evaluation.summary import summarise

        return summarise(self)

    def __repr__(self) -> str:
        return f"<Run {self.name}, {run_in_short(self.metrics)}>"

    def _repr_html_(self) -> str:
        return str(reports().run_html(self))

    def to_arrow(self, of: Table = "items") -> Any:
        """Return a `pyarrow.Table` with a row for each item, or, of `rubrics`, for each rubric of each item."""
        return _installed("pyarrow", "to_arrow").table(columns_of(self.items, of))

    def to_pandas(self, of: Table = "items") -> Any:
        """Return the same as a `pandas.DataFrame`; UsageError if pandas is not installed."""
        return _installed("pandas", "to_pandas").DataFrame(columns_of(self.items, of))


def columns_of(items: Sequence[Item], of: Table = "items") -> dict[str, list[Any]]:
    """Return a table by columns, rows in the order of the data; UsageError for an unknown table.

    Of `items`: the fields of `Item` that are not tables; `margin_ab` and `margin_ba` are its margins by order. Of
    `rubrics`: `item` is the item's id, the others are the fields of `RubricRow`.
    """
    if of == "items":
        names = [one.name for one in fields(Item) if one.name not in NESTED]
        orders = {f"margin_{order}": [item.margins.get(order) for item in items] for order in ("ab", "ba")}
        return {name: [_plain(getattr(item, name)) for item in items] for name in names} | orders
    if of == "rubrics":
        names, rows = [one.name for one in fields(RubricRow)], [(item, row) for item in items for row in item.rubrics]
        return {"item": [item.id for item, _ in rows]} | {
            n: [_plain(getattr(row, n)) for _, row in rows] for n in names
        }
    raise UsageError(f"a run has no table {of!r}", hint="the tables are items and rubrics")


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _installed(package: str, method: str) -> ModuleType:
    try:
        return import_module(package)
    except ImportError as error:
        hint = f"pip install {package}"
        raise UsageError(f"{method}() needs {package}, which is not installed", hint=hint) from error


def run_in_short(metrics: Mapping[str, Any]) -> str:
    """Return a run in a line: benchmark, method, judge and accuracy."""
    judge = metrics.get("judge_label") or metrics["judge"]
    return (
        f"{metrics['benchmark']}, {metrics['method']} by {judge}: {percent(metrics['accuracy'])} "
        f"of {plural(metrics['n_total'], 'pair')}{'' if metrics.get('complete') else ', PARTIAL'}"
    )


def reports() -> Any:
    """Return the module that renders runs; no other function here may use the layer above."""
    return import_module("svr_async.reports.files")


def load_run(path: str | os.PathLike[str]) -> Run:
    """Read and check the run in a folder that `evaluate` or `svr eval` has written; errors as of `RunFolder.load`."""
    return RunFolder.load(path)


@dataclass(frozen=True, slots=True)
class RunFolder:
    """Paths of the files of a run."""

    path: Path

    @property
    def manifest(self) -> Path:
        """Versions, command, config, judge profile, digests."""
        return self.path / "manifest.json"

    @property
    def items(self) -> Path:
        """One line per judged item, in data order."""
        return self.path / "items.jsonl"

    @property
    def metrics(self) -> Path:
        """The numbers, under stable keys."""
        return self.path / "metrics.json"

    @property
    def report(self) -> Path:
        """The report for a browser."""
        return self.path / "report.html"

    @staticmethod
    def load(path: str | os.PathLike[str], items: Sequence[Item] | None = None) -> Run:
        """Read and check a run folder; `items` that were just written there are not read again.

        UsageError if the folder has no run, ArtefactError for a missing or damaged file, StorageError for one that
        cannot be read.
        """
        folder = RunFolder(Path(path))
        if not _exists(folder.metrics) and not _exists(folder.items):
            raise _no_run(folder)
        return Run(
            path=folder.path,
            manifest=_read_object(folder.manifest, _Manifest),
            metrics=_read_object(folder.metrics, _Metrics),
            items=tuple(_lines(folder.items, read_item)) if items is None else tuple(items),
        )


def _no_run(folder: RunFolder) -> UsageError:
    if _exists(folder.manifest):
        message = f"the run in {folder.path} has no results yet"
        return UsageError(message, hint="repeat the svr eval command to continue it")
    hint = "give a folder that svr eval has written"
    if _exists(folder.path / "bank.json"):
        hint = "it is a bank: svr bank show lists it, svr explain --bank judges a pair with it"
    return UsageError(f"{folder.path} is not a run folder", hint=hint)


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError as error:
        raise StorageError(f"cannot read {path}: {reason(error)}") from error


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise ArtefactError(f"{path} is missing", hint=AGAIN) from error
    except OSError as error:
        raise StorageError(f"cannot read {path}: {reason(error)}") from error


def _read_object(path: Path, kind: type[msgspec.Struct]) -> dict[str, Any]:
    """Return a JSON object whose known keys have the types of `kind`."""
    try:
        value: dict[str, Any] = orjson.loads(_read(path))
        msgspec.convert(value, kind)
    except (ValueError, RecursionError) as error:
        raise _damaged(str(path), error) from error
    return value


def _lines(path: Path, read: Callable[[bytes], T]) -> list[T]:
    found = []
    for number, line in enumerate(_read(path).split(b"\n"), start=1):
        if line.strip():
            try:
                found.append(read(line))
            except (ValueError, RecursionError) as error:
                raise _damaged(f"{path} line {number}", error) from error
    return found


def _damaged(where: str, error: Exception) -> ArtefactError:
    return ArtefactError(f"{where}: {' '.join(str(error).split())[:200]}", hint=AGAIN)


def write_reasons(folder: Path, items: Sequence[Item]) -> None:
    """Write the judges' reasons of items as `reasons.json.gz`, an object of columns; without any there is no file.

    `pandas.read_json` and `polars` read it.
    """
    path = folder / REASONS
    rows = [(item.id, one.rubric, one.shown, one.judge, one.text) for item in items for one in item.reasons]
    if rows:
        columns = dict(zip(REASON_COLUMNS, zip(*rows, strict=True), strict=True))
        write_atomic(path, gzip.compress(orjson.dumps(columns), 5, mtime=0))
        return
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise StorageError(f"cannot remove {path}: {reason(error)}", hint="choose another place with --out") from error


def with_reasons(folder: Path, items: Sequence[Item]) -> tuple[Item, ...]:
    """Return items with the reasons that the run folder keeps for them; ArtefactError for a damaged file."""
    path = folder / REASONS
    found = _read_reasons(path, {item.id for item in items}) if items and path.exists() else {}
    return tuple(replace(item, reasons=tuple(found.get(item.id, ()))) for item in items)


def _read_reasons(path: Path, ids: Collection[str]) -> Mapping[str, list[Reason]]:
    found: dict[str, list[Reason]] = defaultdict(list)
    try:
        columns = msgspec.json.decode(gzip.decompress(path.read_bytes()), type=dict[str, list[str]])
        for item, rubric, shown, judge, text in zip(*(columns[name] for name in REASON_COLUMNS), strict=True):
            if item in ids:
                found[item].append(Reason(rubric=rubric, shown=shown, judge=judge, text=text))
    except (OSError, EOFError, zlib.error, ValueError, KeyError) as error:
        raise _damaged(f"{path}: not the reasons of a run", error) from error
    return found
