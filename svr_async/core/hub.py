"""The Hugging Face hub: its address, whether it answers, and its errors in one line."""

from __future__ import annotations

import os
import socket
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from svr_async.core.files import is_server
from svr_async.errors import ConfigError

PUBLIC_HUB = "https://huggingface.co"
SCHEME = "hf:"
PROBE_TIMEOUT_S = 5.0


def hub_server(endpoint: str | None = None) -> str:
    """Return the address of the hub: `endpoint`, else the variable HF_ENDPOINT, else the public one.

    ConfigError if it is not the address of a server.
    """
    server = endpoint or os.environ.get("HF_ENDPOINT") or PUBLIC_HUB
    if not is_server(server):
        raise ConfigError(f"{server[:80]!r} is not the address of a hub", hint="write HF_ENDPOINT as https://HOST")
    return server


def reachable(server: str) -> bool:
    """Whether a connection can be opened: the hub library would retry a dead address for half a minute.

    True without a check if a proxy is set, which only the library can use.
    """
    parts = urlsplit(server)
    host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
    if parts.scheme in getproxies() and not proxy_bypass(host):
        return True
    try:
        socket.create_connection((host, port), timeout=PROBE_TIMEOUT_S).close()
    except OSError:
        return False
    return True


def first_line(error: Exception) -> str:
    """Return an error's class and the first line of its message."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
