"""Addresses of servers as texts from elsewhere: which host one names, and whether it is one at all."""

from __future__ import annotations

import contextlib
from urllib.parse import urlsplit

LOOPBACK = ("127.0.0.1", "::1", "localhost")


def host_of(address: str) -> str:
    """Return the host of an address; empty where it has none, or is none."""
    with contextlib.suppress(ValueError):
        return urlsplit(address).hostname or ""
    return ""


def is_server(address: str) -> bool:
    """Whether an address is that of an http or https server."""
    try:
        parts = urlsplit(address)
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
