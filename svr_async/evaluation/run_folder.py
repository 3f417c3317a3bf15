"""Reads run folders: manifest, items, metrics."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import msgspec
import orjson

from svr_async.core.files import reason
from svr_async.core.integrity import Marks
from svr_async.core.pair import PreferencePair, prompt_text
from svr_async.errors import ArtefactError, StorageError, UsageError
from svr_async.evaluation.items import Item, read_item
from svr_async.evaluation.wording import percent, plural

if TYPE_CHECKING:
    from svr_async.evaluation.summary import RunSummary

AGAIN = "run svr eval again; what was judged is in the cache"
T = TypeVar("T")
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
