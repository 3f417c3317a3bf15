"""Provenance: command line and versions."""

from __future__ import annotations

import platform
import re
import sys
from collections.abc import Iterable
from contextlib import suppress
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


def descriptors_for(wanted: int) -> int | None:
    """Ask for `wanted` file descriptors and return how many this process may have; None if there is no limit."""
    try:
        import resource
    except ImportError:
        return None
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if resource.RLIM_INFINITY not in (soft, hard) and soft < wanted:
        soft = min(wanted, hard)
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return None if soft == resource.RLIM_INFINITY else soft
