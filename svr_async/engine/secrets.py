"""API keys: kept out of every repr, log line, error message and file."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit

import orjson

from svr_async.errors import ConfigError

MASK = "[key]"
SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL|AUTH", re.IGNORECASE)
MIN_CHARS = 8  # shorter keys, such as vLLM's usual EMPTY, are words that judges write too
MAX_CHARS = 4096  # servers accept 8 kB of headers


class Secret:
    """A text that prints as a mask; `reveal()` is called where the header is built, nowhere else."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """Return the text itself."""
        return self._text

    def __bool__(self) -> bool:
        return bool(self._text)

    def __repr__(self) -> str:
        return f"Secret({MASK})" if self._text else "Secret()"

    __str__ = __repr__

    def __reduce__(self) -> str:
        raise TypeError("a secret is never serialised")


class Secrets:
    """Masks secrets: servers echo headers in their errors."""

    __slots__ = ("_texts",)

    def __init__(self, secrets: Iterable[Secret]) -> None:
        texts = (secret.reveal() for secret in secrets)
        self._texts = [(text, text.encode()) for text in texts if len(text) >= MIN_CHARS]

    def mask(self, text: str) -> str:
        """Return `text` with every occurrence of any secret masked."""
        for secret, _ in self._texts:
            text = text.replace(secret, MASK)
        return text

    def mask_bytes(self, data: bytes) -> bytes:
        """Return `data` with every occurrence of any secret masked."""
        for _, secret in self._texts:
            data = data.replace(secret, MASK.encode())
        if b"\\/" in data or b"\\u00" in data:  # escapes that JSON may write a key's characters with
            for text, _ in self._texts:
                data = _escaped(text).sub(MASK.encode(), data)
        return data


@functools.cache
def _escaped(text: str) -> re.Pattern[bytes]:
    """Return a pattern of a text in which JSON may write each character as an escape."""
    forms = (rf"(?:\\{{0,4}}{re.escape(char)}|\\{{1,4}}u{ord(char):04x})" for char in text)
    return re.compile("".join(forms).encode(), re.IGNORECASE)


def environment_secrets(more: Iterable[str] = (), environment: Mapping[str, str] = os.environ) -> Secrets:
    """Return the values of all variables named like secrets, and `more`: to mask in all files of a run."""
    found = {value.strip() for name, value in environment.items() if SECRET_NAME.search(name)} | set(more)
    in_json = {orjson.dumps(text.encode("utf-8", "replace").decode())[1:-1].decode() for text in found}
    longest_first = sorted(found | in_json, key=len, reverse=True)  # one may be the start of another
    return Secrets(Secret(text.encode("utf-8", "replace").decode()) for text in longest_first)


def key_from_environment(variable: str) -> Secret:
    """Return the key in an environment variable, empty if not set; ConfigError if the value cannot be a key."""
    text = os.environ.get(variable, "").strip() if variable else ""
    if len(text) > MAX_CHARS or not (text.isascii() and text.isprintable()):
        what = f"{len(text):,} characters" if len(text) > MAX_CHARS else "a character that no header can carry"
        raise ConfigError(f"${variable} holds {what}, so it is not a key", hint="set it to the key alone")
    return Secret(text)


def refuse_key_in_url(url: str) -> str:
    """Return `url` if it is plain http(s) without user info or query; ConfigError otherwise (it would be logged)."""
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise ConfigError(f"the base URL cannot be read: {error}", hint="write it as http://host:port/v1") from None
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ConfigError(
            f"{url.rsplit('@', maxsplit=1)[-1]!r} is not a base URL", hint="write it as http://host:port/v1"
        )
    if parts.username or parts.password:
        raise ConfigError("the base URL holds a user name or password", hint="put the key in an environment variable")
    if parts.query or parts.fragment:
        raise ConfigError(f"the base URL of {parts.hostname} has a query or fragment", hint="keep keys out of URLs")
    return url.rstrip("/")
