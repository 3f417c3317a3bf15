"""A bank on disk: bank.json, selector.safetensors, vocabulary.json, card.md and, where it was trained, history.json.

No pickle, and checked on reading.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import orjson

from svr_async.core.files import reason, write_atomic
from svr_async.core.integrity import read_marks
from svr_async.core.rubric import Check, Rubric
from svr_async.core.verdict import is_number
from svr_async.errors import ArtefactError, StorageError, UsageError
from svr_async.fit import tensors
from svr_async.scoring.bank_card import render_card
from svr_async.scoring.bank_content import BankContent, BankRubric, Floats, InferenceSettings
from svr_async.scoring.bank_history import BankHistory, history_bytes, history_from_json

SCHEMA_VERSION = 1
FORMAT = "svr-bank"
BANK, SELECTOR, VOCABULARY, CARD = "bank.json", "selector.safetensors", "vocabulary.json", "card.md"
HISTORY = "history.json"  # optional: a bank that was merged, or is of an older version, has none
FILES = (BANK, SELECTOR, VOCABULARY, CARD, HISTORY)
IDF = "features.idf"  # kept beside the selector's arrays
EDITED = ("disabled", "added")  # what only the rubrics of an edited bank have, written where it is so
MAX_BYTES = {BANK: 64 << 20, SELECTOR: 1 << 30, VOCABULARY: 16 << 20, HISTORY: 16 << 20}
B = TypeVar("B", bound=BankContent)
T = TypeVar("T")


# ── writing ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def save_bank(bank: BankContent, folder: Path) -> str:
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


def bank_digest(bank: BankContent) -> str:
    """Return the SHA-256 of bank.json, which holds the digests of the other files."""
    return _sha256(bank_contents(bank)[BANK])


def bank_contents(bank: BankContent) -> dict[str, bytes]:
    """Return the bytes of every file."""
    parts = {
        SELECTOR: tensors.pack({**bank.selector, IDF: bank.idf}),
        VOCABULARY: orjson.dumps(dict(bank.vocabulary), option=orjson.OPT_SORT_KEYS),
    }
    if bank.history is not None:
        parts[HISTORY] = history_bytes(bank.history)
    described = bank_json(bank, {name: {"bytes": len(d), "sha256": _sha256(d)} for name, d in parts.items()})
    text = orjson.dumps(described, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE)
    return {**parts, BANK: text, CARD: render_card(bank).encode()}


def bank_json(bank: BankContent, files: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return bank.json as plain values; `files` are the entries of the other files."""
    return {
        "format": FORMAT,
        "schema_version": SCHEMA_VERSION,
        "name": bank.name,
        "judge": bank.judge,
        "marks": sorted(bank.marks),
        "licence": bank.licence,
        "prompts_digest": bank.prompts_digest,
        "data_digests": dict(bank.data_digests),
        "notes": list(bank.notes),
        "inference": bank.inference.as_json(),
        "fit_settings": dict(bank.fit_settings),
        "dev_metrics": dict(bank.dev_metrics),
        "selector": {
            "kind": bank.selector_kind,
            "arrays": {name: list(values.shape) for name, values in bank.selector.items()},
        },
        "files": dict(files or {}),
        "rubrics": [rubric_json(entry) for entry in bank.rubrics],
    }


def rubric_json(entry: BankRubric) -> dict[str, Any]:
    """Return a rubric of a bank as plain JSON values."""
    rubric = entry.rubric
    return {
        "id": rubric.id,
        "text": rubric.text,
        "facet": rubric.facet,
        "importance": rubric.importance,
        "grounding": rubric.grounding,
        "check": None if rubric.check is None else rubric.check.to_json(),
        "weight": float(entry.weight),
        "domain": entry.domain,
        "observed_count": entry.observed_count,
        "support_count": entry.support_count,
        "activation_rate": float(entry.activation_rate),
        "aliases": list(entry.aliases),
        "source_pair_ids": list(entry.source_pair_ids),
        "example_prompts": list(entry.example_prompts),
        **{name: True for name in EDITED if getattr(entry, name)},
    }


# ── reading ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def load_bank(folder: Path, kind: type[B]) -> B:
    """Read a bank folder into a bank of this class and check all of it.

    UsageError where there is no bank. ArtefactError, naming the file and the reason, where a file is missing, too
    large, no plain file, of another fit (its digest is not the one in bank.json), of an unknown schema, or holds a
    value that a bank cannot have.
    """
    if folder.is_file():
        raise ArtefactError(
            f"{folder} is a file; a bank is a folder with {BANK}", hint="pickled banks are never opened"
        )
    if not (folder / BANK).is_file():
        raise UsageError(f"there is no bank in {folder} ({BANK} is missing)", hint=_instead(folder))
    where = folder / BANK
    described = _object(_read(where), where)
    _check_schema(described, where)
    try:
        return _assembled(folder, described, kind)
    except (ValueError, TypeError) as error:
        raise _refused(where, str(error), _hint_of(str(error))) from error


def _instead(folder: Path) -> str:
    """Return what to name instead of a folder without a bank, by what lies in it."""
    if (folder / "bank" / BANK).is_file():
        return f"name {folder / 'bank'}"
    if (folder / "meta.json").is_file():
        return "it is a feature store; svr-fit makes a bank of one"
    if (folder / "manifest.json").is_file():
        return "it is the folder of a run; svr explain and svr report take one"
    return "give a bank's folder; svr train makes one"


def _assembled(folder: Path, described: Mapping[str, Any], kind: type[B]) -> B:
    """Read the other files and make the bank; ValueError where bank.json holds what a bank cannot have."""
    digests = _get(described, "files", dict)
    listed = (SELECTOR, VOCABULARY, HISTORY) if HISTORY in digests else (SELECTOR, VOCABULARY)
    parts = {name: _verified(folder / name, _get(digests, name, dict)) for name in listed}
    arrays = _arrays(parts[SELECTOR], folder / SELECTOR)
    idf = arrays.pop(IDF, None)
    if idf is None:
        raise _refused(folder / SELECTOR, f"it lacks the array {IDF!r}")
    _check_shapes(_get(_get(described, "selector", dict), "arrays", dict), arrays)
    history = _history(parts[HISTORY], folder / HISTORY) if HISTORY in parts else None
    return _bank(kind, described, arrays, _vocabulary(parts[VOCABULARY], folder / VOCABULARY), idf, history)


def _hint_of(problem: str) -> str:
    if "at least one rubric" in problem:
        return "train one with svr train, or judge without a bank by --method direct"
    return ""


def _read(path: Path) -> bytes:
    """Return a file's bytes; only a plain file of an allowed size is read."""
    limit = MAX_BYTES[path.name]
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
        with open(handle, "rb") as file:  # noqa: PTH123  (a handle, so that what was checked is what is read)
            facts = os.fstat(file.fileno())
            if not stat.S_ISREG(facts.st_mode):
                raise _refused(path, "it is not a plain file")
            data = b"" if facts.st_size > limit else file.read(limit + 1)
    except FileNotFoundError as error:
        raise _refused(path, "it is missing") from error
    except OSError as error:
        if error.errno == errno.ELOOP:  # by O_NOFOLLOW
            raise _refused(path, "it is a symbolic link", "copy the file itself into the folder") from error
        raise StorageError(f"cannot read {path}: {reason(error)}") from error
    if facts.st_size > limit or len(data) > limit:
        raise _refused(path, f"it has {facts.st_size:,} bytes, at most {limit:,} are allowed")
    return data


def _verified(path: Path, expected: Mapping[str, Any]) -> bytes:
    """Return a file's bytes after comparing them with the digest that bank.json gives."""
    wanted, data = _get(expected, "sha256", str), _read(path)
    found = _sha256(data)
    if found != wanted:
        problem = f"its SHA-256 is {found[:16]}…, {BANK} expects {wanted[:16]}…: damaged, or of another fit"
        raise _refused(path, problem, "copy the whole folder again, or fit again")
    return data


def _object(data: bytes, path: Path) -> dict[str, Any]:
    if data[:1] == b"\x80":
        raise _refused(path, "it is a pickle, which this package never opens")
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise _refused(path, f"it is not JSON ({error.msg})") from error
    if not isinstance(value, dict):
        raise _refused(path, f"it holds {type(value).__name__}, not an object")
    return value


def _check_schema(described: Mapping[str, Any], where: Path) -> None:
    version = described.get("schema_version")
    if described.get("format") != FORMAT:
        raise _refused(where, f"it does not call itself {FORMAT!r}")
    if isinstance(version, bool) or version != SCHEMA_VERSION:
        raise _refused(
            where,
            f"its schema version is {version!r}, this program reads {SCHEMA_VERSION}",
            "install a newer svr-async",
        )


def _arrays(data: bytes, path: Path) -> dict[str, Floats]:
    try:
        return tensors.unpack(data)
    except ValueError as error:
        raise _refused(path, str(error)) from error


def _vocabulary(data: bytes, path: Path) -> dict[str, int]:
    value = _object(data, path)
    bad = next((term for term, place in value.items() if isinstance(place, bool) or not isinstance(place, int)), None)
    if bad is not None:
        raise _refused(path, f"the place of the term {bad[:40]!r} is no whole number")
    return value


def _history(data: bytes, path: Path) -> BankHistory:
    try:
        return history_from_json(_object(data, path))
    except ValueError as error:
        raise _refused(path, str(error)) from error


def _check_shapes(expected: Mapping[str, Any], arrays: Mapping[str, Floats]) -> None:
    for name in sorted({*expected, *arrays}):
        found = list(arrays[name].shape) if name in arrays else None
        if expected.get(name) != found:
            raise ValueError(f"it expects the selector array {name!r} as {expected.get(name)}, the file has {found}")


def _bank(
    kind: type[B],
    described: Mapping[str, Any],
    arrays: Mapping[str, Floats],
    vocabulary: Mapping[str, int],
    idf: Floats,
    history: BankHistory | None,
) -> B:
    settings, digests = _get(described, "inference", dict), _get(described, "data_digests", dict)
    entries = _get(described, "rubrics", list)
    return kind(
        rubrics=tuple(_rubric(entry, number) for number, entry in enumerate(entries, 1)),
        selector_kind=_get(_get(described, "selector", dict), "kind", str),
        selector=arrays,
        vocabulary=vocabulary,
        idf=idf,
        inference=InferenceSettings(
            top_k=_get(settings, "top_k", int),
            selection_pool=_get(settings, "selection_pool", int),
            filler_weight=_number(settings, "filler_weight"),
            direct="direct" in settings and _get(settings, "direct", bool),
        ),
        fit_settings=_get(described, "fit_settings", dict),
        dev_metrics=_get(described, "dev_metrics", dict),
        **{key: _get(described, key, str) for key in ("name", "judge", "licence", "prompts_digest")},
        marks=read_marks(described.get("marks")),
        data_digests={key: _get(digests, key, str) for key in digests},
        notes=_texts(described, "notes"),
        history=history,
    )


def _rubric(entry: Any, number: int) -> BankRubric:
    """Read one rubric; ValueError says which, by its number, and what is wrong."""
    if not isinstance(entry, dict) or not entry.get("id"):
        raise ValueError(f"rubric number {number} is no object with an id")
    try:
        rubric = Rubric(
            **{key: _get(entry, key, str) for key in ("text", "facet", "importance", "grounding", "id")},
            check=_check(entry),
        )
        return BankRubric(
            rubric=rubric,
            weight=_number(entry, "weight"),
            domain=_get(entry, "domain", str),
            observed_count=_get(entry, "observed_count", int),
            support_count=_get(entry, "support_count", int),
            activation_rate=_number(entry, "activation_rate"),
            aliases=_texts(entry, "aliases"),
            source_pair_ids=_texts(entry, "source_pair_ids"),
            example_prompts=_texts(entry, "example_prompts"),
            **{name: _get(entry, name, bool) for name in EDITED if name in entry},
        )
    except ValueError as error:
        raise ValueError(f"rubric number {number}: {error}") from error


def _check(entry: Mapping[str, Any]) -> Check | None:
    return None if entry.get("check") is None else Check.from_json(_get(entry, "check", dict))


def _get(values: Mapping[str, Any], key: str, kind: type[T]) -> T:
    """Return the value of a field; ValueError where it is missing or of another kind."""
    if key not in values:
        raise ValueError(f"the field {key!r} is missing")
    value = values[key]
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise ValueError(f"the field {key!r} holds {type(value).__name__}, not {kind.__name__}")
    return value


def _number(values: Mapping[str, Any], key: str) -> float:
    value = values.get(key)
    if not is_number(value):
        raise ValueError(f"the field {key!r} holds {str(value)[:40]!r}, not a number")
    return float(value)


def _texts(values: Mapping[str, Any], key: str) -> tuple[str, ...]:
    found = _get(values, key, list)
    if any(not isinstance(text, str) for text in found):
        raise ValueError(f"the field {key!r} holds something that is not a text")
    return tuple(found)


def _refused(path: Path, problem: str, hint: str = "") -> ArtefactError:
    return ArtefactError(f"{path} is refused: {problem}", hint=hint or "fit again, or copy the bank again")


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
