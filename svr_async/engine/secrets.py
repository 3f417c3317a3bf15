"""API keys: kept out of every repr, log line, error message and file."""

from __future__ import annotations

import logging
import os
from urllib.parse import urlsplit

from svr_async.errors import ConfigError

MASK = "[key]"


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

    def mask(self, text: str) -> str:
        """Return `text` with every occurrence of the secret masked (servers echo headers in their errors)."""
        return text.replace(self._text, MASK) if self._text else text

    def __reduce__(self) -> str:
        raise TypeError("a secret is never serialised")


def key_from_environment(variable: str) -> Secret:
    """Return the key in an environment variable; empty where it is not set."""
    return Secret(os.environ.get(variable, "").strip() if variable else "")


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


class RedactionFilter(logging.Filter):
    """A logging filter that masks secrets in messages, arguments and tracebacks."""

    def __init__(self, *secrets: Secret) -> None:
        super().__init__()
        self._secrets = secrets

    def filter(self, record: logging.LogRecord) -> bool:
        """Mask the record in place and let it pass."""
        text = record.getMessage()
        if record.exc_info:
            text += "\n" + logging.Formatter().formatException(record.exc_info)
        record.exc_info = record.exc_text = None
        for secret in self._secrets:
            text = secret.mask(text)
        record.msg, record.args = text, ()
        return True
