"""Run folders: manifest, items, metrics; each file is written whole or not at all, and checked on reading."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import orjson

from svr_async.core.files import reason
from svr_async.core.integrity import Marks
from svr_async.core.pair import PreferencePair, prompt_text
from svr_async.core.table import to_html
from svr_async.errors import ArtefactError, StorageError, UsageError
from svr_async.evaluation.items import Item, Items, read_item
from svr_async.evaluation.wording import percent, plural

if TYPE_CHECKING:
    from svr_async.evaluation.summary import RunSummary

SCHEMA_VERSION = 1
MANIFEST, ITEMS, METRICS, PAIRS_FILE = "manifest.json", "items.jsonl", "metrics.json", "pairs.jsonl"
AGAIN = "run svr eval again; what was judged is in the cache"
Count = Annotated[int, msgspec.Meta(ge=0)]
Interval = tuple[float, float] | None
Numbers = dict[str, float | None] | None


class _Domain(msgspec.Struct):
    n: Count
    accuracy: float | None = None
    ci95: Interval = None


class _Metrics(msgspec.Struct):
    """The keys of metrics.json that are read; others are ignored."""

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
    """An evaluation and its folder, `path`. `metrics` and `manifest` are the parsed files, checked on reading.

    `items` are the judged pairs in the order of the data, also as a table by `items.to_pandas()` and
    `items.to_arrow()`. `signal` is the one that has just ended the run, or 0.
    """

    path: Path
    manifest: Mapping[str, Any]
    items: Items
    metrics: Mapping[str, Any]
    signal: int = 0

    @classmethod
    def load(cls, path: str | os.PathLike[str], items: Sequence[Item] | None = None) -> Run:
        """Read and check a run folder; `items` that were just written there are not read again.

        UsageError if the folder has no run, ArtefactError for a missing or damaged file, StorageError for one that
        cannot be read.
        """
        folder = Path(path)
        if not _exists(folder / METRICS) and not _exists(folder / ITEMS):
            raise _no_run(folder)
        return cls(
            path=folder,
            manifest=_read_object(folder / MANIFEST, _Manifest),
            metrics=_read_object(folder / METRICS, _Metrics),
            items=Items(_lines(folder / ITEMS) if items is None else items),
        )

    def explain(self, item: str, *, data: str | os.PathLike[str] | None = None) -> Any:
        """Return the `Explanation` of the decision on one pair: each rubric's verdicts and signed contribution.

        `item` is the pair's id, `run.items[0].id`; `data` is the file of the pairs, if it was moved after the run.
        """
        return reports("explain").explain(self, item, data=None if data is None else Path(data))

    @property
    def name(self) -> str:
        """The folder's name."""
        return self.path.resolve().name

    @property
    def complete(self) -> bool:
        """Whether the run is finished; an unfinished run is marked PARTIAL, and the same call continues it."""
        return self.metrics.get("complete") is True

    @property
    def accuracy(self) -> float | None:
        """The strict accuracy as a fraction of 1: ties and missing verdicts are wrong. None without labelled pairs."""
        accuracy: float | None = self.metrics.get("accuracy")
        return accuracy

    @property
    def left(self) -> str:
        """The progress of the run in words; failed pairs do not count as judged."""
        judged, failed = self.metrics["n_scored"], len(self.items) - self.metrics["n_scored"]
        also = f", {failed} failed" if failed else ""
        return (
            f"{judged} of {(self.manifest.get('data') or {})['n_pairs']} pairs are judged and kept in {self.path}{also}"
        )

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
        found, mark = self.metrics, "" if self.complete else ", PARTIAL"
        what = f"{found['benchmark']}, {found['method']} by {self.judge_label}"
        return f"<Run {self.name}, {what}: {percent(found['accuracy'])} of {plural(found['n_total'], 'pair')}{mark}>"

    def _repr_html_(self) -> str:
        return to_html(reports("text").run_parts(self.summary))


def reports(module: str = "files") -> Any:
    """Return a module that renders runs; no other function here may use the layer above."""
    return import_module(f"svr_async.reports.{module}")


def _no_run(folder: Path) -> UsageError:
    if _exists(folder / MANIFEST):
        message = f"the run in {folder} has no results yet"
        return UsageError(message, hint="repeat the svr eval command to continue it")
    if not _exists(folder):
        return UsageError(f"no such run: '{folder}'", hint="svr runs lists them; svr eval writes one")
    hint = "give a folder that svr eval has written"
    if _exists(folder / "bank.json"):
        hint = "it is a bank: svr view and svr bank show show it, svr explain --bank judges a pair with it"
    return UsageError(f"'{folder}' is not a run folder", hint=hint)


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


def _lines(path: Path) -> list[Item]:
    found = []
    for number, line in enumerate(_read(path).split(b"\n"), start=1):
        if line.strip():
            try:
                found.append(read_item(line))
            except (ValueError, RecursionError) as error:
                raise _damaged(f"{path} line {number}", error) from error
    return found


def _damaged(where: str, error: Exception) -> ArtefactError:
    return ArtefactError(f"{where}: {' '.join(str(error).split())[:200]}", hint=AGAIN)
