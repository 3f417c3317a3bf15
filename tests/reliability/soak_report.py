"""The figures of a soak run: each long test notes its own as a JSON line; as a script, prints them as a table."""

from __future__ import annotations

import json
import os
import platform
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

REPORT = os.environ.get("SOAK_REPORT", "")  # read when loaded: tests run in an environment without the user's settings


def note(promise: str, what: str, **figures: Any) -> None:
    """Note what a long test measured; printed always, kept where SOAK_REPORT names a file."""
    line = {
        "promise": promise,
        "what": what,
        "figures": figures,
        "day": datetime.now(UTC).strftime("%Y-%m-%d"),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}",
    }
    sys.stdout.write(described(line) + "\n")
    if REPORT:
        Path(REPORT).parent.mkdir(parents=True, exist_ok=True)
        with Path(REPORT).open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def described(line: dict[str, Any]) -> str:
    """Return one noted line in words."""
    figures = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in line["figures"].items())
    return f"{line['promise']:<4} {line['what']:<58} {figures}"


if __name__ == "__main__":
    for text in Path(sys.argv[1]).read_text(encoding="utf-8").splitlines():
        sys.stdout.write(described(json.loads(text)) + "\n")
