"""API keys: kept out of every repr, log line, error message and file."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterable
from urllib.parse import urlsplit

from svr_async.errors import ConfigError

MASK = "[key]"
MIN_CHARS = 8  # a shorter key, such as vLLM's usual EMPTY, is a word that judges write too, and no provider's
MOST_CHARS = 4096  # of a key: servers take 8 kB of a header
MOST_BACKSLASHES = 7  # before one character: JSON three times over


class Secret:
    """A text that prints as a mask; `reveal()` is called in one place, where the header is built."""

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

    @property
    def is_told_apart(self) -> bool:
        """Whether it is long enough to be known as a key wherever it stands; shorter ones are not masked."""
        return len(self._text) >= MIN_CHARS

    def mask(self, text: str) -> str:
        """Return `text` with every occurrence of the secret masked (servers echo headers in their errors)."""
        return text.replace(self._text, MASK) if self.is_told_apart else text

    def mask_bytes(self, data: bytes) -> bytes:
        """Return `data` with the secret masked, also where JSON writes some of its characters as escapes."""
        if not self.is_told_apart:
            return data
        data = data.replace(self._text.encode(), MASK.encode())
        if data.rfind(b"\\u00") < 0 and (b"/" not in data or b"\\/" not in data):  # rfind is quicker
            return data
        bare, escaped = _patterns(self._text)  # the first one is fast
        return escaped.sub(MASK.encode(), data) if bare.search(data.translate(None, b"\\")) else data

    @property
    def longest_bytes(self) -> int:
        """How many bytes the secret may take in what `mask_bytes` looks at."""
        return len(self._text.encode()) * (MOST_BACKSLASHES + len("u0000"))

    def __reduce__(self) -> str:
        raise TypeError("a secret is never serialised")


class Secrets:
    """Several secrets, masked together."""

    __slots__ = ("_all",)

    def __init__(self, secrets: Iterable[Secret]) -> None:
        self._all = tuple(secrets)

    def mask(self, text: str) -> str:
        """Return `text` with every occurrence of any of them masked."""
        return functools.reduce(lambda left, secret: secret.mask(left), self._all, text)

    def mask_bytes(self, data: bytes) -> bytes:
        """Return `data` with all of them masked, as `Secret` does."""
        return functools.reduce(lambda left, secret: secret.mask_bytes(left), self._all, data)

    @property
    def longest_bytes(self) -> int:
        """Return how many bytes the longest of them can take, as `Secret` does."""
        return max((secret.longest_bytes for secret in self._all), default=0)


@functools.cache
def _patterns(text: str) -> tuple[re.Pattern[bytes], re.Pattern[bytes]]:
    """Match a text however JSON may write it: each character as it is, after backslashes, or by its number.

    The first of both patterns is for bytes from which all backslashes were taken.
    """
    most = b"%d" % MOST_BACKSLASHES
    signs = [(re.escape(char.encode()), ord(char)) for char in text]
    bare = [b"(?:u(?i:005c))?" if sign == rb"\\" else b"(?:%b|u(?i:%04x))" % (sign, number) for sign, number in signs]
    escaped = [rb"(?:%b|\\{1,%b}(?:%b|u(?i:%04x)))" % (sign, most, sign, number) for sign, number in signs]
    return re.compile(b"".join(bare)), re.compile(b"".join(escaped))


def key_from_environment(variable: str) -> Secret:
    """Return the key in an environment variable; empty where it is not set, ConfigError for what no key can be."""
    text = os.environ.get(variable, "").strip() if variable else ""
    if len(text) > MOST_CHARS or not (text.isascii() and text.isprintable()):
        what = f"{len(text):,} characters" if len(text) > MOST_CHARS else "a character that no header can carry"
        raise ConfigError(f"${variable} holds {what}, so that it is no key", hint="set it to the key alone")
    return Secret(text)


def refuse_key_in_url(url: str) -> str:
    """Return `url` when it is plain http(s) without user info or query; ConfigError otherwise (it would be logged)."""
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


def is_base_url(url: str) -> bool:
    """Whether an address is one that `refuse_key_in_url` returns as it is."""
    try:
        return refuse_key_in_url(url) == url
    except ConfigError:
        return False
