"""What a bank was made with: the command and the versions, in a file beside the bank's folder, for its card on a hub.

It is no part of the bank: two trainings of the same pairs give the same bank, whatever their commands looked like.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import orjson

from svr_async.core.files import write_atomic
from svr_async.engine.secrets import MASK

FILE = "made.json"
PACKAGES = ("svr-async", "jax", "jaxlib", "numpy", "optax", "scikit-learn", "scipy")
MAX_BYTES = 1 << 20
PASSWORD = re.compile(r"(://[^/@\s:]*:)[^/@\s]+@")  # in an address


@dataclass(frozen=True, slots=True, kw_only=True)
class MadeWith:
    """The command that made the bank of this digest, and the versions that it ran with."""

    bank: str
    command: tuple[str, ...]
    versions: Mapping[str, str]


def keep_made(out: Path, digest: str) -> None:
    """Write what the bank in `out`/bank was made with to `out`/made.json; StorageError where it cannot be written."""
    made = MadeWith(bank=digest, command=tuple(command_line()), versions=versions(PACKAGES))
    write_atomic(out / FILE, orjson.dumps(asdict(made), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))


def made_with(folder: Path, digest: str) -> MadeWith | None:
    """Return what is known of the bank in `folder`; None where nothing is, or where it is of another bank."""
    try:
        with (folder.resolve().parent / FILE).open("rb") as file:
            held = orjson.loads(file.read(MAX_BYTES))
        command, found = tuple(map(str, held["command"])), dict(held["versions"])
        return MadeWith(bank=digest, command=command, versions=found) if held["bank"] == digest else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def without_places(command: Sequence[str]) -> str:
    """Return a command for others to read: of files and folders the name alone, addresses and names of a hub whole."""
    return " ".join(_named(word) for word in command)


def _named(word: str) -> str:
    flag, equals, value = word.partition("=") if word.startswith("-") else ("", "", word)
    is_place = "://" not in value and not value.startswith("hf:") and (os.sep in value or "/" in value)
    kept = value.replace("\\", "/").rstrip("/").rpartition("/")[2] if is_place else value
    return f"{flag}{equals}{kept}" if flag or equals else kept


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
    sha = hashlib.sha256()
    for part in map(orjson.dumps, (data, [*ids])):
        sha.update(len(part).to_bytes(8, "big") + part)
    return sha.hexdigest()[:32]
