"""A bank on disk: bank.json, selector.safetensors, vocabulary.json, card.md and, if it was trained, history.json.

No pickle, and checked on reading.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import orjson

from svr_async.core.files import reason, write_atomic
from svr_async.core.integrity import read_marks
from svr_async.core.rubric import Check, Rubric
from svr_async.errors import ArtefactError, StorageError, UsageError
from svr_async.fit.forward import pack_tensors, unpack_tensors
from svr_async.scoring.bank import BankHistory, BankRubric, RubricBank
from svr_async.scoring.bank_card import render_card

BANK, SELECTOR, VOCABULARY, CARD = "bank.json", "selector.safetensors", "vocabulary.json", "card.md"
HISTORY = "history.json"  # optional: merged banks and those of older versions lack it
FILES = (SELECTOR, VOCABULARY, HISTORY, CARD, BANK)  # in the order of writing
IDF = "features.idf"  # stored with the selector's arrays
COPIED = (
    "name", "judge", "licence", "prompts_digest", "data_digests", "notes", "inference", "fit_settings", "dev_metrics",
)  # fmt: skip
FIELDS = {*COPIED, "format", "schema_version", "marks", "selector", "files", "rubrics"}
RUBRIC_FIELDS = {field.name for kind in (Rubric, BankRubric) for field in fields(kind)} - {"rubric"}
SOMETIMES = {"criterion", "disabled", "added"}  # of a rubric: written only if not empty
OPTIONAL = {"choice", "learning_curve", "edits", "trained_on"}  # of a history, likewise
T = TypeVar("T")
INDENTED = orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE
INSTEAD = {
    f"bank/{BANK}": "name {}/bank",
    "meta.json": "it is a feature store; svr-fit makes a bank of one",
    "manifest.json": "it is the folder of a run; svr explain and svr report take one",
}


def save_bank(bank: RubricBank, folder: Path) -> str:
    """Write a bank's files, each whole, bank.json last, and return the bank's digest.

    The same bank always gives the same bytes. Where an older bank is replaced and the machine stops half way, the
    folder is refused on reading rather than read as a mixture. StorageError where a file cannot be written.
    """
    files = {**bank_contents(bank), CARD: render_card(bank).encode()}
    for name in FILES:
        if name in files:
            write_atomic(folder / name, files[name])
    if HISTORY not in files:
        (folder / HISTORY).unlink(missing_ok=True)  # of the bank that was replaced
    return sha256_of(files[BANK])


def bank_contents(bank: RubricBank) -> dict[str, bytes]:
    """Return the bytes of every file but the card; ArtefactError for a text that UTF-8 cannot hold."""
    try:
        parts = {
            SELECTOR: pack_tensors({**bank.selector, IDF: bank.idf}),
            VOCABULARY: orjson.dumps(dict(bank.vocabulary), option=orjson.OPT_SORT_KEYS),
        }
        if bank.history is not None:
            parts[HISTORY] = orjson.dumps(_history_json(bank.history), option=INDENTED)
        listed = {name: {"bytes": len(data), "sha256": sha256_of(data)} for name, data in parts.items()}
        return {**parts, BANK: orjson.dumps(bank_json(bank, listed), option=INDENTED)}
    except orjson.JSONEncodeError as error:
        raise ArtefactError(f"the bank cannot be written: {error}", hint="look for broken characters") from error


def bank_json(bank: RubricBank, files: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return bank.json as plain values; `files` are the entries of the other files."""
    shapes = {name: list(values.shape) for name, values in bank.selector.items()}
    return {
        **{name: getattr(bank, name) for name in COPIED},
        "format": "svr-bank",
        "schema_version": 1,
        "marks": sorted(bank.marks),
        "inference": bank.inference.as_json(),
        "selector": {"kind": bank.selector_kind, "arrays": shapes},
        "files": dict(files or {}),
        "rubrics": [rubric_json(entry) for entry in bank.rubrics],
    }


def rubric_json(entry: BankRubric) -> dict[str, Any]:
    """Return a rubric of a bank as plain JSON values: its own fields and those of the bank in one level."""
    rubric = entry.rubric
    values = {field.name: getattr(entry, field.name) for field in fields(entry) if field.name != "rubric"}
    values |= {name: getattr(rubric, name) for name in ("id", "text", "facet", "importance", "grounding")}
    values |= {"check": None if rubric.check is None else rubric.check.to_json()}
    values |= {name: float(values[name]) for name in ("weight", "activation_rate")}
    return {name: value for name, value in values.items() if value or name not in SOMETIMES}


def _history_json(history: BankHistory) -> dict[str, Any]:
    """Return history.json, without paths, and without times except the days of edits."""
    plain = {name: value for name, value in asdict(history).items() if value or name not in OPTIONAL}
    return {"format": "svr-history", "schema_version": 1, **plain}


class _File(msgspec.Struct):
    sha256: str


class _Selector(msgspec.Struct):
    kind: str
    arrays: dict[str, list[int]]


class _Parts(msgspec.Struct):
    """The fields of bank.json that are not those of a bank."""

    files: dict[str, _File]
    selector: _Selector
    rubrics: list[dict[str, Any]]
    marks: list[str] | None = None


def load_bank(folder: Path) -> RubricBank:
    """Read a bank folder and check all of it.

    UsageError without a bank. ArtefactError, naming the file and the reason, if a file is missing, of another fit
    (its digest differs from the one in bank.json), of an unknown schema, or holds an invalid value.
    """
    if not (folder / BANK).is_file():
        hint = next((hint for name, hint in INSTEAD.items() if (folder / name).is_file()), "svr train makes one")
        raise UsageError(f"no bank in '{folder}': a bank is a folder with {BANK}", hint=hint.format(folder))
    try:
        return _assembled(folder, msgspec.json.decode(_read(folder / BANK), type=dict[str, Any]))
    except (ValueError, TypeError) as error:
        empty = "at least one rubric" in str(error)
        hint = "train one with svr train, or judge without a bank by --method direct" if empty else ""
        raise _refused(folder / BANK, f"it is not valid: {error}", hint) from error


def _assembled(folder: Path, values: dict[str, Any]) -> RubricBank:
    """Read the other files and make the bank; ValueError if bank.json holds an invalid value."""
    if (values.get("format"), values.get("schema_version")) != ("svr-bank", 1):
        raise ValueError("its format is not svr-bank of schema version 1")
    if wrong := (values.keys() ^ FIELDS) - {"marks"}:  # marks are of later versions
        raise ValueError(f"missing or unknown fields: {', '.join(sorted(wrong))}")
    parts = msgspec.convert(values, _Parts)
    files, selector = parts.files, parts.selector
    arrays = _part(folder, files, SELECTOR, unpack_tensors)
    idf = arrays.pop(IDF, None)
    if idf is None:
        raise _refused(folder / SELECTOR, f"it lacks the array {IDF!r}")
    shapes = {name: list(array.shape) for name, array in arrays.items()}
    if shapes != selector.arrays:
        raise ValueError(f"it expects selector arrays {selector.arrays}, the file has {shapes}")
    read = {
        "selector_kind": selector.kind,
        "selector": arrays,
        "idf": idf,
        "vocabulary": _part(folder, files, VOCABULARY, msgspec.json.Decoder(dict[str, int]).decode),
        "history": _part(folder, files, HISTORY, _read_history) if HISTORY in files else None,
        "rubrics": [_rubric(number, value) for number, value in enumerate(parts.rubrics, 1)],
        "marks": read_marks(parts.marks),
    }
    return msgspec.convert(values | read, RubricBank)


def _rubric(number: int, value: dict[str, Any]) -> BankRubric:
    """Read the output of `rubric_json`; ValueError if a value has another type or is out of range."""
    if wrong := (value.keys() ^ RUBRIC_FIELDS) - SOMETIMES:  # a default in their place might change a margin
        raise ValueError(f"rubric number {number}: missing or unknown fields: {', '.join(sorted(wrong))}")
    try:
        return rubric_of(value)
    except ValueError as error:
        raise ValueError(f"rubric number {number}: {error}") from error


def rubric_of(value: Mapping[str, Any]) -> BankRubric:
    """Read plain values under the names of `rubric_json`, of which a text is enough; ValueError for a wrong one."""
    check = value.get("check")
    check = None if check is None else Check.from_json(msgspec.convert(check, dict[str, Any]))
    rubric = msgspec.convert({**value, "check": check}, Rubric)
    return msgspec.convert({**value, "rubric": rubric}, BankRubric)


def _read_history(data: bytes) -> BankHistory:
    history = msgspec.json.decode(data, type=BankHistory)
    if history.learning_curve is not None and len(history.learning_curve.points) < 2:
        raise ValueError("learning_curve.points must hold two points or more")
    return history


def _part(folder: Path, files: Mapping[str, _File], name: str, read: Callable[[bytes], T]) -> T:
    """Read a file whose digest is the one in bank.json."""
    if name not in files:
        raise ValueError(f"it lists no digest of {name}")
    data, expected = _read(folder / name), files[name].sha256
    if (found := sha256_of(data)) != expected:
        problem = f"its SHA-256 is {found[:16]}…, {BANK} expects {expected[:16]}…: damaged, or of another fit"
        raise _refused(folder / name, problem, "copy the whole folder again, or fit again")
    try:
        return read(data)
    except ValueError as error:
        raise _refused(folder / name, str(error)) from error


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise _refused(path, "it is missing") from error
    except OSError as error:
        raise StorageError(f"cannot read {path}: {reason(error)}") from error


def _refused(path: Path, problem: str, hint: str = "") -> ArtefactError:
    return ArtefactError(f"{path} is refused: {problem}", hint=hint or "fit again, or copy the bank again")


def sha256_of(data: bytes) -> str:
    """Return the digest of a file; that of bank.json, which holds those of the other files, is the bank's."""
    return hashlib.sha256(data).hexdigest()
