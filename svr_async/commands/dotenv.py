"""The file `.env` of the working folder: variables for this process that are not set yet."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, MutableMapping
from pathlib import Path

from svr_async.core.files import LOOPBACK, host_of, read_plain
from svr_async.errors import ConfigError

FILE = Path(".env")
MOST_BYTES = 2**20
LINE = re.compile(r"\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*)")
QUOTED = re.compile(r"""(["'])(.*?)\1\s*(?:#.*)?""")
NOT_OURS = (
    "PATH", "PYTHON", "LD_", "DYLD_", "HOME", "XDG_CONFIG", "SSL_", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY",
    "SVR_JUDGES",
)  # fmt: skip
"""Ignored prefixes: they would change which programs run here, the user's settings, or who listens."""
ADDRESS, KEY = "OPENAI_BASE_URL", "OPENAI_API_KEY"


def load_dotenv(path: Path = FILE, environment: MutableMapping[str, str] = os.environ) -> None:
    """Set the variables of a readable file that are not set yet; no value is shown.

    ConfigError if a key of the environment would go to an address from the file.
    """
    try:
        text = read_plain(path, MOST_BYTES).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError):
        return
    found = dict(read_dotenv(text))
    if (
        ADDRESS in found
        and ADDRESS not in environment
        and KEY in environment
        and host_of(found[ADDRESS]) not in LOOPBACK
    ):
        raise ConfigError(
            f"{path} sends ${KEY} of the environment to {host_of(found[ADDRESS]) or found[ADDRESS][:80]}",
            hint=f"set {ADDRESS} yourself, put the key into {path} too, or take the address out of it",
        )
    for name, value in found.items():
        if not name.upper().startswith(NOT_OURS) and "\0" not in value:
            environment.setdefault(name, value)


def read_dotenv(text: str) -> Iterator[tuple[str, str]]:
    """Yield the variables of `NAME=VALUE` lines: with or without `export`, quotes, and a comment after a blank.

    Other lines are ignored: the file may serve other programs too.
    """
    for line in text.splitlines():
        found = LINE.fullmatch(line)
        if found is None:
            continue
        name, value = found[1], found[2].strip()
        quoted = QUOTED.fullmatch(value)
        yield name, quoted[2] if quoted else re.split(r"\s+#", value, maxsplit=1)[0].strip()
