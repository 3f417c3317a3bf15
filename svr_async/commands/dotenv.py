"""The file `.env` of the working folder: variables for this process, where they are not set already."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, MutableMapping
from pathlib import Path

FILE = Path(".env")
MOST_BYTES = 2**20
LINE = re.compile(r"\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*)")
QUOTED = re.compile(r"""(["'])(.*?)\1\s*(?:#.*)?""")
NOT_OURS = ("PATH", "PYTHON", "LD_", "DYLD_")
"""What begins so is left alone: it would change which programs run here."""


def load_dotenv(path: Path = FILE, environment: MutableMapping[str, str] = os.environ) -> None:
    """Set the variables of a file, where there is one that can be read, which are not set; nothing of it is shown."""
    try:
        with path.open("rb") as file:
            text = file.read(MOST_BYTES).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError):
        return
    for name, value in read_dotenv(text):
        if not name.startswith(NOT_OURS) and "\0" not in value:
            environment.setdefault(name, value)


def read_dotenv(text: str) -> Iterator[tuple[str, str]]:
    """Yield the variables of `NAME=VALUE` lines: with or without `export`, quotes, and a comment after a blank.

    Lines of another form are left out, as a file may be meant for another program too.
    """
    for line in text.splitlines():
        found = LINE.fullmatch(line)
        if found is None:
            continue
        name, value = found[1], found[2].strip()
        quoted = QUOTED.fullmatch(value)
        yield name, quoted[2] if quoted else re.split(r"\s+#", value, maxsplit=1)[0].strip()
