"""Provenance: command line and versions."""

from __future__ import annotations

import platform
import re
import sys
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PASSWORD = re.compile(r"(://[^/@\s:]*:)[^/@\s]+@")  # in an address
MASK = "[key]"  # as in the engine, which this module may not import


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
