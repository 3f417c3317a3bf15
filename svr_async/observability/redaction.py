"""Keys kept out of what is written about a run, whatever text they came in."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping

import orjson

from svr_async.engine.secrets import MASK, MIN_CHARS

_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL|AUTH", re.IGNORECASE)


class Redactor:
    """Masks secrets in texts and JSON lines: the values given, and those of variables whose name says what they are."""

    def __init__(self, secrets: Iterable[str] = (), environment: Mapping[str, str] | None = None) -> None:
        variables = os.environ if environment is None else environment
        named = (value.strip() for name, value in variables.items() if _SECRET_NAME.search(name))
        found = {value for value in (*secrets, *named) if len(value) >= MIN_CHARS}
        self._texts = sorted(found, key=len, reverse=True)  # the longest first: one may be the beginning of another
        escaped = {form for value in found for form in (value.encode("utf-8", "replace"), _in_json(value))}
        self._bytes = sorted(escaped, key=len, reverse=True)

    def text(self, text: str) -> str:
        """Return a text with every secret masked."""
        for secret in self._texts:
            text = text.replace(secret, MASK)
        return text

    def line(self, line: bytes) -> bytes:
        """Return a line of JSON with every secret masked, in the way that JSON writes it too."""
        for secret in self._bytes:
            if secret in line:
                line = line.replace(secret, MASK.encode())
        return line


def _in_json(text: str) -> bytes:
    return orjson.dumps(text.encode("utf-8", "replace").decode())[1:-1]
