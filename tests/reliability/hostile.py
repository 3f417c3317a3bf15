"""Hostile artefacts, made by script: each would run code, read or delete a file, or fill the memory, if it were let.

A canary is a folder that code hidden in a pickle makes. `made_*` write an artefact and return where it lies.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import pickle
import shutil
import sqlite3
import tarfile
import zipfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from svr_async.judges.rules.registry import rubric_for
from svr_async.scoring.bank import BankRubric, InferenceSettings, RubricBank
from svr_async.vocabulary.rubric import Check

GIB = 2**30


class Bomb:
    """Unpickles to a side effect."""

    def __init__(self, canary: Path) -> None:
        self.canary = canary

    def __reduce__(self) -> Any:
        return (os.mkdir, (str(self.canary),))


def pickled(canary: Path) -> bytes:
    """Return a pickle that makes the canary when it is loaded."""
    return pickle.dumps(Bomb(canary))


# --- cache rows -------------------------------------------------------------------------------------------------------

CacheAttack = Callable[[sqlite3.Connection, Path, Path], object]
CACHE_ATTACKS: dict[str, CacheAttack] = {
    "values to unpickle": lambda db, canary, _: db.execute("UPDATE Cache SET mode = 4, value = ?", (pickled(canary),)),
    "a key to unpickle": lambda db, canary, _: db.execute(
        "INSERT INTO Cache(key, raw, store_time, mode, value) VALUES (?, 0, 0, 1, ?)", (pickled(canary), b"v")
    ),
    "keys to unpickle": lambda db, _canary, __: db.execute("UPDATE Cache SET raw = 0"),
    "a file to read": lambda db, _, victim: db.execute("UPDATE Cache SET mode = 2, filename = ?", (str(victim),)),
    "a text file to read": lambda db, _, victim: db.execute("UPDATE Cache SET mode = 3, filename = ?", (str(victim),)),
    "a pickled file to read": lambda db, _, victim: db.execute(
        "UPDATE Cache SET mode = 4, filename = ?, value = NULL", (str(victim),)
    ),
    "a file outside by a relative name": lambda db, _, victim: db.execute(
        "UPDATE Cache SET mode = 2, filename = ?", (f"../{victim.name}",)
    ),
    "rows that have expired": lambda db, _, __: db.execute("UPDATE Cache SET expire_time = 1"),
    "values of other types": lambda db, _, __: db.execute("UPDATE Cache SET value = 'text'"),
}
REFUSED_ATTACKS: dict[str, CacheAttack] = {
    "a size limit": lambda db, _, __: db.execute("UPDATE Settings SET value = 1000 WHERE key = 'size_limit'"),
    "eviction": lambda db, _, __: db.execute(
        "UPDATE Settings SET value = 'least-recently-used' WHERE key = 'eviction_policy'"
    ),
    "no syncs": lambda db, _, __: db.execute("UPDATE Settings SET value = 0 WHERE key = 'sqlite_synchronous'"),
    "a pragma of its own": lambda db, _, __: db.execute(
        "INSERT INTO Settings VALUES ('sqlite_writable_schema', '1; DROP TABLE Cache')"
    ),
    "a trigger": lambda db, _, __: db.execute("CREATE TRIGGER evil AFTER INSERT ON Cache BEGIN DELETE FROM Cache; END"),
    "a view": lambda db, _, __: db.execute("CREATE VIEW Extra AS SELECT load_extension('evil.so')"),
}


def tamper(cache: Path, attack: CacheAttack, canary: Path, victim: Path) -> None:
    """Change a cache's database behind its back."""
    with closing(sqlite3.connect(cache / "cache.db")) as connection, connection:
        attack(connection, canary, victim)


# --- banks -----------------------------------------------------------------------------------------------------------


def _header(header: bytes, body: bytes = b"") -> bytes:
    return len(header).to_bytes(8, "little") + header + body


def _tensor(shape: list[int], start: int, stop: int) -> dict[str, Any]:
    return {"dtype": "F32", "shape": shape, "data_offsets": [start, stop]}


def _npz(canary: Path) -> bytes:
    file = io.BytesIO()
    np.savez(file, weights=np.array([Bomb(canary)], dtype=object))
    return file.getvalue()


def _npy(canary: Path) -> bytes:
    file = io.BytesIO()
    np.save(file, np.array([Bomb(canary)], dtype=object), allow_pickle=True)
    return file.getvalue()


TENSORS: dict[str, Callable[[Path], bytes]] = {
    "a pickle": pickled,
    "an npz of objects": _npz,
    "an npy of objects": _npy,
    "a header of 2^63 bytes": lambda _: (2**63).to_bytes(8, "little") + b"{}",
    "a header of a gigabyte": lambda _: (GIB).to_bytes(8, "little") + b"{",
    "a header that nests without end": lambda _: _header(b'{"a":' * 5000),
    "a shape of 2^63": lambda _: _header(orjson.dumps({"w": _tensor([2**62, 2], 0, 8)}), bytes(8)),
    "a shape that wraps around": lambda _: _header(orjson.dumps({"w": _tensor([2**33, 2**31], 0, 0)})),
    "tensors that overlap": lambda _: _header(
        orjson.dumps({"a": _tensor([2], 0, 8), "b": _tensor([2], 4, 12)}), bytes(12)
    ),
    "an offset behind the end": lambda _: _header(orjson.dumps({"a": _tensor([2], 2**40, 2**40 + 8)}), bytes(8)),
    "nothing": lambda _: b"",
}


def whole_bank(folder: Path) -> Path:
    """Write a small bank with a fitted selector that the rules judge can decide."""
    shutil.rmtree(folder, ignore_errors=True)
    weight = np.array([0.9, 0.5], np.float32)
    checks = (Check.of("min_words", n=10), Check.of("bullet_list"))
    rubrics = (BankRubric(rubric=rubric_for(check), weight=float(w)) for check, w in zip(checks, weight, strict=True))
    RubricBank(
        rubrics=tuple(rubrics),
        selector_kind="topics",
        selector={
            "weight": weight,
            "hidden": np.zeros((1, 1), np.float32),
            "hidden_bias": np.zeros(1, np.float32),
            "output": np.ones((2, 1), np.float32),
            "output_bias": np.zeros(2, np.float32),
        },
        vocabulary={"which": 0},
        idf=np.ones(1, np.float32),
        inference=InferenceSettings(top_k=2),
        name="whole",
    ).save(folder)
    return folder


def made_bank(folder: Path, tensors: bytes) -> Path:
    """Write a whole bank with other bytes where its arrays are."""
    whole_bank(folder)
    (folder / "selector.safetensors").write_bytes(tensors)
    return folder


def made_bank_with_strangers(folder: Path, canary: Path) -> Path:
    """Write a whole bank with files beside it that other libraries would load."""
    whole_bank(folder)
    for name in ("selector.pkl", "model.joblib", "bank.pickle", "pytorch_model.bin", "vectorizer.pkl"):
        (folder / name).write_bytes(pickled(canary))
    (folder / "__init__.py").write_text(f"import os; os.mkdir({str(canary)!r})")
    (folder / "bank.py").write_text(f"import os; os.mkdir({str(canary)!r})")
    return folder


# --- data ------------------------------------------------------------------------------------------------------------

ROW = {"id": "1", "prompt": "Which?", "chosen": "this", "rejected": "that"}


def _zipped(path: Path, name: str) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(name, json.dumps(ROW))


def _tarred(path: Path, canary: Path) -> None:
    with tarfile.open(path, "w:gz") as archive:
        info = tarfile.TarInfo(str(canary))
        info.type = tarfile.DIRTYPE
        archive.addfile(info)


def made_data(folder: Path, canary: Path) -> dict[str, Path]:
    """Write files and folders of pairs that are not to be trusted; return them by what is wrong with them."""
    folder.mkdir()
    made = {
        "a gzip bomb": folder / "bomb.jsonl.gz",
        "a pickle": folder / "pairs.pkl",
        "a pickle by another name": folder / "pairs.jsonl",
        "a pickle in parquet's name": folder / "pairs.parquet",
        "an npz": folder / "pairs.npz",
        "a zip with a path upwards": folder / "slip.zip",
        "a zip by another name": folder / "slip.json",
        "a tar with an absolute path": folder / "slip.tar.gz",
        "nesting without end": folder / "deep.json",
    }
    with gzip.open(made["a gzip bomb"], "wb", compresslevel=9) as file:
        file.write(json.dumps(ROW).encode() + b"\n")
        for _ in range(256):
            file.write(b" " * 2**20)
    for name in ("a pickle", "a pickle by another name", "a pickle in parquet's name"):
        made[name].write_bytes(pickled(canary))
    made["an npz"].write_bytes(_npz(canary))
    _zipped(made["a zip with a path upwards"], f"../{canary.name}")
    _zipped(made["a zip by another name"], "pairs.json")
    _tarred(made["a tar with an absolute path"], canary)
    made["nesting without end"].write_bytes(b"[" * 100_000 + b"]" * 100_000)
    return made


def made_script_folder(folder: Path, canary: Path) -> Path:
    """Write a folder of pairs with loading scripts beside them, as data sets on hubs have."""
    folder.mkdir()
    (folder / "train.jsonl").write_text(json.dumps(ROW) + "\n")
    for name in (f"{folder.name}.py", "dataset.py", "__init__.py", "conftest.py", "setup.py"):
        (folder / name).write_text(f"import os; os.mkdir({str(canary)!r})")
    (folder / "dataset_infos.json").write_text('{"builder_name": "dataset", "trust_remote_code": true}')
    return folder
