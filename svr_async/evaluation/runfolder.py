"""A run folder on disk, read and checked as a whole."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import orjson

from svr_async.core.files import reason, write_atomic
from svr_async.core.integrity import Marks, marks_of_old_label
from svr_async.core.table import to_html
from svr_async.core.validation import is_deep
from svr_async.errors import ArtefactError, StorageError, UsageError
from svr_async.evaluation.items import Item
from svr_async.evaluation.run_tables import Table, arrow_table, pandas_frame
from svr_async.evaluation.run_view import run_in_short, run_sheet
from svr_async.evaluation.runcheck import EXAMPLE, MANIFEST, METRICS, Schema, item_problem, problem

__all__ = ["Run", "RunFolder", "Texts", "load_run", "write_atomic"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Texts:
    """The texts of one item, in the data set's order; already capped by whoever wrote them."""

    prompt: str
    response_a: str
    response_b: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Everything that a run folder holds. `metrics` and `manifest` are the parsed files, checked on reading."""

    path: Path
    manifest: Mapping[str, Any]
    items: tuple[Item, ...]
    metrics: Mapping[str, Any]
    examples: Mapping[str, Texts]

    @property
    def name(self) -> str:
        """The folder's name."""
        return self.path.resolve().name

    @property
    def complete(self) -> bool:
        """Whether the run came to its end; a run that did not is PARTIAL wherever it is shown."""
        return self.metrics.get("complete") is True

    @property
    def judge_label(self) -> str:
        """How results of this judge must be labelled; the judge's short name where nothing was recorded."""
        return str(self.metrics.get("judge_label") or self.metrics["judge"])

    @property
    def integrity(self) -> Marks:
        """The marks of what judged; for a run from before they were kept those that its label tells."""
        kept = (self.manifest.get("judge") or {}).get("marks")
        return marks_of_old_label(self.judge_label) if kept is None else frozenset(kept)

    def __repr__(self) -> str:
        return f"<Run {self.name}, {run_in_short(self.metrics)}>"

    def _repr_html_(self) -> str:
        return to_html(run_sheet(str(self.path), self.metrics, self.integrity))

    def to_arrow(self, of: Table = "items") -> Any:
        """Return a `pyarrow.Table` with a row for each item, or, of `rubrics`, for each rubric of each item."""
        return arrow_table(self.items, of)

    def to_pandas(self, of: Table = "items") -> Any:
        """Return the same as a `pandas.DataFrame`; UsageError where pandas is not installed."""
        return pandas_frame(self.items, of)


def reports() -> Any:
    """Return the module that renders runs, which lies in the layer above; this is the only way up."""
    return import_module("svr_async.reports.files")


def load_run(path: str | os.PathLike[str]) -> Run:
    """Read and check the run in a folder that `evaluate` or `svr eval` has written; errors as of `RunFolder.load`."""
    return RunFolder.load(path)


@dataclass(frozen=True, slots=True)
class RunFolder:
    """Where the files of a run lie."""

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
    def examples(self) -> Path:
        """The texts of the most confident mistakes."""
        return self.path / "examples.jsonl"

    @property
    def report(self) -> Path:
        """The report for a browser."""
        return self.path / "report.html"

    @staticmethod
    def load(path: str | os.PathLike[str], items: Sequence[Item] | None = None) -> Run:
        """Read and check a run folder; `items` are those that were just written there, which are then not read.

        UsageError where there is no run, ArtefactError (file and line named) where a file is missing or garbled,
        StorageError where it cannot be read. `examples.jsonl` may be absent: the texts are then unknown.
        """
        folder = RunFolder(Path(path))
        if not _exists(folder.metrics) and not _exists(folder.items):
            raise _no_run(folder)
        examples = _read_lines(folder.examples) if _exists(folder.examples) else []
        return Run(
            path=folder.path,
            manifest=_check(_read_object(folder.manifest), MANIFEST, f"{folder.manifest}"),
            metrics=_check(_read_object(folder.metrics), METRICS, f"{folder.metrics}"),
            items=_read_items(folder.items) if items is None else tuple(items),
            examples=dict(_example(row, where) for where, row in examples),
        )


def _no_run(folder: RunFolder) -> UsageError:
    if _exists(folder.manifest):
        message = f"the run in {folder.path} has no results yet"
        return UsageError(message, hint="give the same svr eval command again to go on with it")
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
        raise ArtefactError(f"{path} is missing", hint="run svr eval again; what was judged is in the cache") from error
    except OSError as error:
        raise StorageError(f"cannot read {path}: {reason(error)}") from error


def _read_object(path: Path) -> dict[str, Any]:
    value = _parse_object(_read(path), f"{path}")
    if is_deep(value):
        raise _garbled(f"{path}", "its values are nested too deep")
    return value


def _read_lines(path: Path) -> list[tuple[str, dict[str, Any]]]:
    """Return (file and line number, object) for every line that is not blank."""
    lines = ((f"{path} line {number}", line) for number, line in enumerate(_read(path).split(b"\n"), start=1))
    return [(where, _parse_object(line, where)) for where, line in lines if line.strip()]


def _parse_object(data: bytes, where: str) -> dict[str, Any]:
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise _garbled(where, f"not JSON ({error.msg})") from error
    if not isinstance(value, dict):
        raise _garbled(where, f"expected an object, found {type(value).__name__}")
    return value


def _garbled(where: str, problem: str) -> ArtefactError:
    return ArtefactError(f"{where}: {problem}", hint="run svr eval again; what was judged is in the cache")


def _read_items(path: Path) -> tuple[Item, ...]:
    return tuple(_item(row, where) for where, row in _read_lines(path))


def _item(row: dict[str, Any], where: str) -> Item:
    found = item_problem(row)
    if found:
        raise _garbled(where, found)
    try:
        return Item.from_json(row)
    except TypeError as error:  # a field too many or too few: Python's words name it
        raise _garbled(where, f"not an item ({str(error).partition('() ')[2] or error})") from error


def _example(row: dict[str, Any], where: str) -> tuple[str, Texts]:
    _check(row, EXAMPLE, where)
    return row["id"], Texts(prompt=row["prompt"], response_a=row["response_a"], response_b=row["response_b"])


def _check(value: dict[str, Any], schema: Schema, where: str) -> dict[str, Any]:
    found = problem(value, schema)
    if found:
        raise _garbled(where, found)
    return value
