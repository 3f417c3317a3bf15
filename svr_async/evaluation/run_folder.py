"""Run folders: manifest, items, metrics, reasons, report."""

from __future__ import annotations

import gzip
import os
import re
import zlib
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import orjson

from svr_async.core.files import reason, write_atomic
from svr_async.core.integrity import Marks, marks_of_old_label
from svr_async.core.validation import is_deep, short
from svr_async.core.verdict import is_number, is_whole
from svr_async.errors import ArtefactError, StorageError, UsageError
from svr_async.evaluation.items import Item, Reason
from svr_async.evaluation.run_tables import Table, arrow_table, pandas_frame
from svr_async.evaluation.wording import percent, plural

FILE = "reasons.json.gz"
COLUMNS = ("item", "rubric", "shown", "judge", "text")


def write_reasons(folder: Path, items: Sequence[Item]) -> None:
    """Write the reasons of these items into a run folder, whole; without any there is no file. StorageError."""
    path = folder / FILE
    if any(item.reasons for item in items):
        packed = gzip.compress(orjson.dumps(_columns(items)), 5, mtime=0)
        write_atomic(path, packed)
        return
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise StorageError(f"cannot remove {path}: {reason(error)}", hint="choose another place with --out") from error


def with_reasons(folder: Path, items: Sequence[Item]) -> tuple[Item, ...]:
    """Return items read from a run folder with the reasons that it keeps of them; ArtefactError for a garbled file."""
    path = folder / FILE
    found = _read_reasons(path, {item.id for item in items}) if items and path.exists() else {}
    return tuple(replace(item, reasons=tuple(found.get(item.id, ()))) for item in items)


def _columns(items: Sequence[Item]) -> dict[str, list[str]]:
    rows = [(item.id, one) for item in items for one in item.reasons]
    return {name: [key if name == "item" else getattr(one, name) for key, one in rows] for name in COLUMNS}


def _read_reasons(path: Path, ids: Collection[str]) -> Mapping[str, list[Reason]]:
    found: dict[str, list[Reason]] = defaultdict(list)
    try:
        columns = orjson.loads(gzip.decompress(path.read_bytes()))
        for item, *texts in zip(*(columns[name] for name in COLUMNS), strict=True):
            if item in ids:
                found[item].append(Reason(**dict(zip(COLUMNS[1:], map(str, texts), strict=True))))
    except (OSError, EOFError, zlib.error, ValueError, TypeError, KeyError) as error:
        said = " ".join(str(error).split())[:200]
        hint = "run svr eval again; what was judged is in the cache"
        raise ArtefactError(f"{path}: not the reasons of a run ({said})", hint=hint) from error
    return found


Test = Callable[[Any], bool]
Schema = Mapping[str, tuple[Test, str]]
"""Key → a test of its value and words for what passes. Keys that are not listed pass."""
_MARK = re.compile("[a-z][a-z_]{0,39}")
_KEY = re.compile("(?:[0-9a-f]{2}){1,64}")


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_interval(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(is_number(end) for end in value)


def _is_object(value: Any) -> bool:
    return isinstance(value, dict)


def _is_number_table(value: Any) -> bool:
    return _is_object(value) and all(entry is None or is_number(entry) for entry in value.values())


def _is_margins(value: Any) -> bool:
    return _is_object(value) and set(value) <= {"ab", "ba"} and all(map(is_number, value.values()))


def _is_domain_table(value: Any) -> bool:
    return _is_object(value) and all(_is_domain(entry) for entry in value.values())


def _is_domain(value: Any) -> bool:
    return (
        _is_object(value)
        and is_whole(value.get("n"))
        and _optional(is_number)(value.get("accuracy"))
        and _optional(_is_interval)(value.get("ci95"))
    )


def _is_list(value: Any) -> bool:
    return isinstance(value, list)


def _is_judge(value: Any) -> bool:
    """Whether it is an object whose marks, where it has any, are a list of short words."""
    return _is_object(value) and _optional(_is_marks)(value.get("marks"))


def _is_marks(value: Any) -> bool:
    return _is_list(value) and all(_is_text(mark) and _MARK.fullmatch(mark) for mark in value)


def _is_texts(value: Any) -> bool:
    return _is_list(value) and all(map(_is_text, value))


def _is_keys(value: Any) -> bool:
    return _is_texts(value) and all(map(_KEY.fullmatch, value))


def _is_chances(value: Any) -> bool:
    return _is_list(value) and len(value) == 3 and all(map(is_number, value))


def _one_of(*allowed: Any) -> Test:
    texts = frozenset(entry for entry in allowed if isinstance(entry, str))
    others = [entry for entry in allowed if not isinstance(entry, str)]
    return lambda value: value in texts if isinstance(value, str) else any(value is entry for entry in others)


def _optional(test: Test) -> Test:
    return lambda value: value is None or test(value)


METRICS: Schema = {
    "benchmark": (_is_text, "a text"),
    "method": (_is_text, "a text"),
    "judge": (_is_text, "a text"),
    "judge_label": (_optional(_is_text), "a text"),
    "bank": (_optional(_is_text), "a text or null"),
    "n_total": (is_whole, "a count"),
    "n_scored": (is_whole, "a count"),
    "coverage": (_optional(is_number), "a number"),
    "accuracy": (_optional(is_number), "a number"),
    "accuracy_scored": (_optional(is_number), "a number"),
    "accuracy_half_credit": (_optional(is_number), "a number"),
    "accuracy_bounds": (_optional(_is_interval), "[low, high]"),
    "accuracy_ci95": (_optional(_is_interval), "[low, high]"),
    "accuracy_ci95_unit": (_one_of("pair", "prompt", None), "pair or prompt"),
    "by_domain": (_optional(_is_domain_table), "{name: {n, accuracy, ci95}}"),
    "official": (_optional(_is_object), "an object"),
    "outcomes": (_optional(_is_number_table), "{name: count}"),
    "order": (_optional(_is_object), "an object"),
    "calls": (_optional(_is_number_table), "{name: count}"),
    "usage": (_optional(_is_number_table), "{name: count}"),
    "cost_usd": (_optional(is_number), "a number or null"),
    "wall_s": (_optional(is_number), "a number"),
    "notes": (_optional(_is_list), "a list"),
    "cache": (_optional(_is_number_table), "{name: number}"),
    "votes": (_optional(_is_number_table), "{name: number}"),
    "judges": (_optional(_is_object), "an object"),
}
MANIFEST: Schema = {
    **dict.fromkeys(("config", "data", "prompts", "versions"), (_optional(_is_object), "an object")),
    "judge": (_optional(_is_judge), "an object whose marks are words"),
}
ITEM: Schema = {
    **dict.fromkeys(("id", "item", "domain", "subset", "order", "outcome", "detail"), (_is_text, "a text")),
    "predicted": (_one_of("A", "B", None), "A, B or null"),
    "gold": (_one_of("A", "B", None), "A, B or null"),
    "correct": (_one_of(True, False, None), "true, false or null"),
    "margin": (_optional(is_number), "a number or null"),
    "margins": (_is_margins, "{ab or ba: margin}"),
    "rubrics": (_is_list, "a list"),
    "flags": (_is_texts, "a list of texts"),
    "requests": (_is_keys, "a list of cache keys in hex"),
    "judge": (_optional(_is_text), "a text"),
    "scores": (_optional(_is_interval), "two numbers"),
    "votes": (_optional(_is_list), "a list"),
}
VOTE: Schema = {
    **dict.fromkeys(("judge", "part", "order", "outcome"), (_is_text, "a text")),
    "margin": (_optional(is_number), "a number or null"),
    "predicted": (_one_of("A", "B", None), "A, B or null"),
    "contributions": (_optional(_is_number_table), "{rubric: number}"),
    "detail": (_optional(_is_text), "a text"),
}
RUBRIC: Schema = {
    **dict.fromkeys(("id", "text"), (_is_text, "a text")),
    "shown": (_one_of("ab", "ba"), "ab or ba"),
    **dict.fromkeys(("alpha", "weight", "importance", "contribution"), (is_number, "a number")),
    **dict.fromkeys(("a", "b"), (_one_of("pass", "fail", None), "pass, fail or null")),
    "better": (_one_of("A", "B", None), "A, B or null"),
    "delta": (_optional(is_number), "a number or null"),
    "filler": (_one_of(True, False), "true or false"),
    "chances": (_optional(_is_chances), "three numbers or null"),
    "rephrased": (_optional(_is_text), "a text or null"),
    "judge": (_optional(_is_text), "a text"),
}
EXAMPLE: Schema = dict.fromkeys(("id", "prompt", "response_a", "response_b"), (_is_text, "a text"))


def problem(value: Mapping[str, Any], schema: Schema) -> str:
    """Return what is wrong with the first key of the wrong type; empty where nothing is. A missing key is null."""
    for name, (test, words) in schema.items():
        if not test(value.get(name)):
            return f"{name} is {short(value.get(name))}, not {words}"
    return ""


def item_problem(value: Mapping[str, Any]) -> str:
    """Return what is wrong with one line of items.jsonl; empty where nothing is."""
    found = problem(value, ITEM)
    if found:
        return found
    return _problem_in("rubric", value["rubrics"], RUBRIC) or _problem_in("vote", value.get("votes") or [], VOTE)


def _problem_in(what: str, rows: list[Any], schema: Schema) -> str:
    for place, row in enumerate(rows):
        found = problem(row, schema) if isinstance(row, dict) else "it is not an object"
        if found:
            return f"{what} {place}: {found}"
    return ""


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
        return str(reports().run_html(self))

    def to_arrow(self, of: Table = "items") -> Any:
        """Return a `pyarrow.Table` with a row for each item, or, of `rubrics`, for each rubric of each item."""
        return arrow_table(self.items, of)

    def to_pandas(self, of: Table = "items") -> Any:
        """Return the same as a `pandas.DataFrame`; UsageError where pandas is not installed."""
        return pandas_frame(self.items, of)


def run_in_short(metrics: Mapping[str, Any]) -> str:
    """Return a run in a line: what was judged how and by whom, and the accuracy."""
    judge = metrics.get("judge_label") or metrics["judge"]
    return (
        f"{metrics['benchmark']}, {metrics['method']} by {judge}: {percent(metrics['accuracy'])} "
        f"of {plural(metrics['n_total'], 'pair')}{'' if metrics.get('complete') else ', PARTIAL'}"
    )


def reports() -> Any:
    """Return the module that renders runs, which is in the layer above: the only way from here to there."""
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
