"""Provenance: command line and versions, for manifests and banks.

Stored next to a bank's folder, not in it: two trainings of the same pairs give the same bank.
"""

from __future__ import annotations

import hashlib
import platform
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import msgspec
import orjson

from svr_async.core.files import read_plain, write_atomic
from svr_async.engine.secrets import MASK

PROVENANCE = "made.json"
PACKAGES = ("svr-async", "jax", "jaxlib", "numpy", "optax", "scikit-learn", "scipy")
FOLDERS = re.compile(r"^(-[\w-]*=)?(?!hf:|.*://).*[/\\]")  # in front of a file's name, also behind a flag
PASSWORD = re.compile(r"(://[^/@\s:]*:)[^/@\s]+@")  # in an address


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """The command that made the bank of this digest, and the versions that it ran with."""

    bank: str
    command: tuple[str, ...]
    versions: Mapping[str, str]

    @property
    def for_others(self) -> str:
        """The command without folders: files by name only, URLs and hub names whole."""
        return " ".join(FOLDERS.sub(r"\1", word.rstrip("/")) for word in self.command)


def write_provenance(out: Path, digest: str) -> None:
    """Write command and versions to `out`/made.json, for the bank in `out`/bank; StorageError on failure."""
    made = Provenance(bank=digest, command=tuple(command_line()), versions=versions(PACKAGES))
    write_atomic(out / PROVENANCE, orjson.dumps(asdict(made), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))


def read_provenance(folder: Path, digest: str) -> Provenance | None:
    """Return the provenance of the bank in `folder`; None if it is missing, unreadable or of another bank."""
    try:
        data = read_plain(folder.resolve().parent / PROVENANCE)
        made = msgspec.json.decode(data, type=Provenance)
    except (OSError, ValueError):
        return None
    return made if made.bank == digest else None


def command_line() -> list[str]:
    """Return the command as typed, with passwords in addresses masked and the program without its folder."""
    return [Path(sys.argv[0]).name, *(PASSWORD.sub(rf"\1{MASK}@", word) for word in sys.argv[1:])]


def versions(packages: Iterable[str]) -> dict[str, str]:
    """Return the versions of Python and of those of the packages that are installed."""
    found = {"python": platform.python_version()}
    for name in packages:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def training_fingerprint(data: str, ids: Iterable[str]) -> str:
    """Return the name of a bank's training data: a digest of the data set's digest and the ids of its pairs."""
    parts = [orjson.dumps(data), orjson.dumps([*ids])]
    return hashlib.sha256(b"".join(len(part).to_bytes(8, "big") + part for part in parts)).hexdigest()[:32]
