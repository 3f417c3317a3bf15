"""Fetch a benchmark's official file from the Hugging Face hub, where there is a network and huggingface-hub."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from svr_async.adapters.contract import Adapter
from svr_async.errors import DataError

PUBLIC_HUB = "https://huggingface.co"
PROBE_TIMEOUT_S = 5.0


def fetch(
    adapter: Adapter, cache_dir: Path | None = None, *, file: str = "", endpoint: str = "", revision: str | None = None
) -> Path:
    """Download one file (the first of the adapter's unless named) and return where it lies; a second call finds it.

    `endpoint` (default: the variable HF_ENDPOINT, else the public hub) names another server. Only data files are
    fetched, and nothing that comes with them is run. DataError, in one line, where the file cannot be had.
    """
    wanted = file or (adapter.hub_files[0] if adapter.hub_files else "")
    if not adapter.hub_id or not wanted:
        raise DataError(f"{adapter.title} cannot be fetched", hint=_by_hand(adapter, "its files"))
    try:
        from huggingface_hub import hf_hub_download
    except ImportError as error:
        raise DataError(
            f"{adapter.title}: fetching {wanted} of {adapter.hub_id} needs huggingface-hub",
            hint=f"pip install 'svr-async[hub]', or {_by_hand(adapter, wanted)}",
        ) from error
    server = endpoint or os.environ.get("HF_ENDPOINT") or PUBLIC_HUB
    online = reachable(server)
    try:
        path = hf_hub_download(
            adapter.hub_id,
            wanted,
            repo_type="dataset",
            revision=revision,
            cache_dir=cache_dir,
            endpoint=server,
            local_files_only=not online,
        )
    except Exception as error:  # the library's errors differ by version: httpx, requests, its own
        why = _first_line(error) if online else f"no connection to {server}"
        message = f"{adapter.title}: could not fetch {wanted} of {adapter.hub_id} ({why})"
        raise DataError(message, hint=_by_hand(adapter, wanted)) from error
    return Path(path)


def reachable(server: str) -> bool:
    """Whether a connection can be opened: the library itself retries a dead address for half a minute.

    True without a look where a proxy stands between, as only the library knows how to use that.
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


def _by_hand(adapter: Adapter, wanted: str) -> str:
    where = f" from {adapter.homepage}" if adapter.homepage else ""
    return f"get {wanted}{where} and pass it with --data PATH"


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
