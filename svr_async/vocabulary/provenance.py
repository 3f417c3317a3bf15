"""What something was made with: the command as typed, and the versions of what ran."""

from __future__ import annotations

import platform
import re
import sys
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from svr_async.engine.secrets import MASK

PASSWORD = re.compile(r"(://[^/@\s:]*:)[^/@\s]+@")  # in an address


def command_line() -> list[str]:
    """Return the command as typed, with the program's name only, and without passwords in addresses."""
    return [Path(sys.argv[0]).name, *(PASSWORD.sub(rf"\1{MASK}@", word) for word in sys.argv[1:])]


def versions(packages: Iterable[str]) -> dict[str, str]:
    """Return the version of Python and of each of these packages that is installed."""
    found = {"python": platform.python_version()}
    for name in packages:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
