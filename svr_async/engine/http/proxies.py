"""The proxy through which an endpoint is asked, as the environment names it: HTTP_PROXY, HTTPS_PROXY, NO_PROXY."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit
from urllib.request import getproxies_environment, proxy_bypass

from svr_async.errors import UsageError
from svr_async.vocabulary.address import is_server


def proxy_for(url: str) -> str | None:
    """Return the proxy for an endpoint; None where there is none, NO_PROXY names its host, or it is on this machine.

    Lower-case names go over upper-case ones; a proxy without a scheme is an http one. UsageError where the variable
    holds no address of an http or https proxy; what it holds is not shown, as it may have a password.
    """
    parts = urlsplit(url)
    host = parts.hostname or ""
    named = getproxies_environment().get(parts.scheme, "")
    if not named or _is_here(host) or proxy_bypass(host):
        return None
    proxy = named if "://" in named else f"http://{named}"
    if not is_server(proxy):
        raise UsageError(
            f"{parts.scheme.upper()}_PROXY holds no address of an http proxy",
            hint="write http://HOST:PORT, or name the endpoint in NO_PROXY",
        )
    return proxy


def _is_here(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
