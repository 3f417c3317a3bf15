"""Masks API keys in everything that is written about a run."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping

import orjson

from svr_async.engine.secrets import MASK, MIN_CHARS

_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL|AUTH", re.IGNORECASE)


class Redactor:
    """Masks secrets in texts and JSON lines: given values, and values of environment variables named like secrets."""

    def __init__(self, secrets: Iterable[str] = (), environment: Mapping[str, str] | None = None) -> None:
        variables = os.environ if environment is None else environment
        named = (value.strip() for name, value in variables.items() if _SECRET_NAME.search(name))
        found = {value for value in (*secrets, *named) if len(value) >= MIN_CHARS}
        self._texts = sorted(found, key=len, reverse=True)  # longest first: one may be the start of another
        escaped = {form for value in found for form in (value.encode("utf-8", "replace"), _in_json(value))}
        self._bytes = sorted(escaped, key=len, reverse=True)

    def text(self, text: str) -> str:
        """Return a text with every secret masked."""
        for secret in self._texts:
            text = text.replace(secret, MASK)
        return text

    def line(self, line: bytes) -> bytes:
        """Return a line of JSON with every secret masked, also in JSON's escaped form."""
        for secret in self._bytes:
            if secret in line:
                line = line.replace(secret, MASK.encode())
        return line


def _in_json(text: str) -> bytes:
    return orjson.dumps(text.encode("utf-8", "replace").decode())[1:-1]
