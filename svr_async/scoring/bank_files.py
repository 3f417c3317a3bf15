"""A bank on disk: bank.json, selector.safetensors, vocabulary.json, card.md and, where it was trained, history.json.

No pickle, and checked on reading.
"""

from __future__ import annotations

import errno
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import orjson

from svr_async.core.files import read_plain, reason, write_atomic
from svr_async.core.integrity import read_marks
from svr_async.core.rubric import Check, Rubric
from svr_async.errors import ArtefactError, StorageError, UsageError
from svr_async.fit.forward import pack_tensors, unpack_tensors
from svr_async.scoring.bank import BankRubric, Floats, InferenceSettings, RubricBank
from svr_async.scoring.bank_card import render_card
from svr_async.scoring.bank_history import history_bytes, read_history

SCHEMA_VERSION = 1
FORMAT = "svr-bank"
BANK, SELECTOR, VOCABULARY, CARD = "bank.json", "selector.safetensors", "vocabulary.json", "card.md"
HISTORY = "history.json"  # optional: a bank that was merged, or is of an older version, has none
FILES = (BANK, SELECTOR, VOCABULARY, CARD, HISTORY)
IDF = "features.idf"  # stored with the selector's arrays
COPIED = (
    "name", "judge", "licence", "prompts_digest", "data_digests", "notes", "inference", "fit_settings", "dev_metrics",
)  # fmt: skip
RUBRIC_FIELDS = {field.name for kind in (Rubric, BankRubric) for field in fields(kind)} - {"rubric"}
SOMETIMES = {"criterion", "disabled", "added"}  # written only if not empty
MAX_BYTES = {BANK: 64 << 20, SELECTOR: 1 << 30, VOCABULARY: 16 << 20, HISTORY: 16 << 20}
B = TypeVar("B", bound=RubricBank)


# ── writing ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def save_bank(bank: RubricBank, folder: Path) -> str:
    """Write a bank's files, each whole, bank.json last, and return the bank's digest.

    The same bank always gives the same bytes. Where an older bank is replaced and the machine stops half way, the
    folder is refused on reading rather than read as a mixture. StorageError where a file cannot be written,
    ArtefactError before the first is where one would be larger than what is read.
    """
    files = bank_contents(bank)
    for name, limit in MAX_BYTES.items():
        if len(files.get(name, b"")) > limit:
            problem = f"{name} would have {len(files[name]):,} bytes, at most {limit:,} are read"
            raise ArtefactError(f"the bank for {folder} is not written: {problem}", hint="give pairs shorter ids")
    for name in (SELECTOR, VOCABULARY, HISTORY, CARD, BANK):
        if name in files:
            write_atomic(folder / name, files[name])
    if HISTORY not in files:
        (folder / HISTORY).unlink(missing_ok=True)  # of the bank that was replaced
    return _sha256(files[BANK])


def bank_digest(bank: RubricBank) -> str:
    """Return the SHA-256 of bank.json, which holds the digests of the other files."""
    return _sha256(bank_contents(bank)[BANK])


def bank_contents(bank: RubricBank) -> dict[str, bytes]:
    """Return the bytes of every file."""
    parts = {
        SELECTOR: pack_tensors({**bank.selector, IDF: bank.idf}),
        VOCABULARY: orjson.dumps(dict(bank.vocabulary), option=orjson.OPT_SORT_KEYS),
    }
    if bank.history is not None:
        parts[HISTORY] = history_bytes(bank.history)
    described = bank_json(bank, {name: {"bytes": len(d), "sha256": _sha256(d)} for name, d in parts.items()})
    text = orjson.dumps(described, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE)
    return {**parts, BANK: text, CARD: render_card(bank).encode()}


def bank_json(bank: RubricBank, files: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return bank.json as plain values; `files` are the entries of the other files."""
    shapes = {name: list(values.shape) for name, values in bank.selector.items()}
    return {
        **{name: getattr(bank, name) for name in COPIED},
        "format": FORMAT,
        "schema_version": SCHEMA_VERSION,
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


# ── reading ─────────────────────────────────────────────────────────────────────────────────────────────────────────


class _File(msgspec.Struct):
    sha256: str


class _Selector(msgspec.Struct):
    kind: str
    arrays: dict[str, list[int]]


class _Described(msgspec.Struct):
    """bank.json."""

    format: str
    schema_version: int
    name: str
    judge: str
    licence: str
    prompts_digest: str
    data_digests: dict[str, str]
    notes: tuple[str, ...]
    inference: InferenceSettings
    fit_settings: dict[str, Any]
    dev_metrics: dict[str, Any]
    selector: _Selector
    files: dict[str, _File]
    rubrics: list[dict[str, Any]]
    marks: list[str] | None = None

    def __post_init__(self) -> None:
        """Refuse files of another format or version."""
        if self.format != FORMAT:
            raise ValueError(f"its format is {self.format[:40]!r}, not {FORMAT!r}")
        if self.schema_version != SCHEMA_VERSION:
            wanted = f"this program reads {SCHEMA_VERSION}: install a newer svr-async"
            raise ValueError(f"its schema version is {self.schema_version}, {wanted}")


def load_bank(folder: Path, kind: type[B]) -> B:
    """Read a bank folder into a bank of this class and check all of it.

    UsageError if there is no bank. ArtefactError, naming the file and the reason, if a file is missing, too large, of
    another fit (its digest differs from the one in bank.json), of an unknown schema, or holds an invalid value.
    """
    if folder.is_file():
        raise ArtefactError(
            f"{folder} is a file; a bank is a folder with {BANK}", hint="pickled banks are never opened"
        )
    if not (folder / BANK).is_file():
        raise UsageError(f"there is no bank in {folder} ({BANK} is missing)", hint=_instead(folder))
    try:
        return _assembled(folder, msgspec.json.decode(_read(folder / BANK), type=_Described), kind)
    except (ValueError, TypeError) as error:
        none = "at least one rubric" in str(error)
        hint = "train one with svr train, or judge without a bank by --method direct" if none else ""
        raise _refused(folder / BANK, f"it is not valid: {error}", hint) from error


def _instead(folder: Path) -> str:
    """Return what to name instead of a folder without a bank, by its content."""
    if (folder / "bank" / BANK).is_file():
        return f"name {folder / 'bank'}"
    if (folder / "meta.json").is_file():
        return "it is a feature store; svr-fit makes a bank of one"
    if (folder / "manifest.json").is_file():
        return "it is the folder of a run; svr explain and svr report take one"
    return "give a bank's folder; svr train makes one"


def _assembled(folder: Path, described: _Described, kind: type[B]) -> B:
    """Read the other files and make the bank; ValueError if bank.json holds an invalid value."""
    listed = (SELECTOR, VOCABULARY, HISTORY) if HISTORY in described.files else (SELECTOR, VOCABULARY)
    parts = {name: _verified(folder / name, described.files.get(name)) for name in listed}
    readers = {SELECTOR: unpack_tensors, VOCABULARY: msgspec.json.Decoder(dict[str, int]).decode, HISTORY: read_history}
    found: dict[str, Any] = {}
    for name, data in parts.items():
        try:
            found[name] = readers[name](data)
        except ValueError as error:
            raise _refused(folder / name, str(error)) from error
    arrays: dict[str, Floats] = found[SELECTOR]
    idf = arrays.pop(IDF, None)
    if idf is None:
        raise _refused(folder / SELECTOR, f"it lacks the array {IDF!r}")
    shapes = {name: list(values.shape) for name, values in arrays.items()}
    if shapes != described.selector.arrays:
        raise ValueError(f"it expects selector arrays {described.selector.arrays}, the file has {shapes}")
    return kind(
        rubrics=tuple(_rubrics(described.rubrics)),
        selector_kind=described.selector.kind,
        selector=arrays,
        vocabulary=found[VOCABULARY],
        idf=idf,
        marks=read_marks(described.marks),
        history=found.get(HISTORY),
        **{name: getattr(described, name) for name in COPIED},
    )


def _rubrics(values: Sequence[dict[str, Any]]) -> Iterator[BankRubric]:
    for number, value in enumerate(values, 1):
        try:
            yield _rubric(value)
        except ValueError as error:
            raise ValueError(f"rubric number {number}: {error}") from error


def _rubric(value: dict[str, Any]) -> BankRubric:
    """Read the output of `rubric_json`; ValueError if a value has another type or is out of range."""
    if wrong := (value.keys() ^ RUBRIC_FIELDS) - SOMETIMES:
        raise ValueError(f"missing or unknown fields: {', '.join(sorted(wrong))}")
    check = None if value["check"] is None else Check.from_json(msgspec.convert(value["check"], dict[str, Any]))
    rubric = msgspec.convert({**value, "check": check}, Rubric)
    return msgspec.convert({**value, "rubric": rubric}, BankRubric)


def _read(path: Path) -> bytes:
    """Return the bytes of a plain file of an allowed size."""
    if path.is_symlink() or (path.exists() and not path.is_file()):  # could name any file, or block as a pipe does
        raise _refused(path, "it is not a plain file but a link, pipe or folder", "copy the file into the folder")
    try:
        data = read_plain(path, MAX_BYTES[path.name])
    except FileNotFoundError as error:
        raise _refused(path, "it is missing") from error
    except OSError as error:
        if error.errno == errno.EFBIG:
            raise _refused(path, f"it has more than the {MAX_BYTES[path.name]:,} bytes allowed") from error
        raise StorageError(f"cannot read {path}: {reason(error)}") from error
    if data[:1] == b"\x80" and path.name != SELECTOR:
        raise _refused(path, "it is a pickle, which this package never opens")
    return data


def _verified(path: Path, expected: _File | None) -> bytes:
    """Return a file's bytes after comparing them with the digest in bank.json."""
    if expected is None:
        raise ValueError(f"it lists no digest of {path.name}")
    data = _read(path)
    found = _sha256(data)
    if found != expected.sha256:
        problem = f"its SHA-256 is {found[:16]}…, {BANK} expects {expected.sha256[:16]}…: damaged, or of another fit"
        raise _refused(path, problem, "copy the whole folder again, or fit again")
    return data


def _refused(path: Path, problem: str, hint: str = "") -> ArtefactError:
    return ArtefactError(f"{path} is refused: {problem}", hint=hint or "fit again, or copy the bank again")


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
