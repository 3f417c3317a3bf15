"""What a request carries beside what its wire writes: headers, query parameters, another path, what is kept secret."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import quote

from svr_async.engine.secrets import Secret, Secrets
from svr_async.engine.wires.contract import Wire


@dataclass(frozen=True, slots=True, kw_only=True)
class Extras:
    """What an endpoint wants beside its wire's own: `path` in place of the wire's, and `key_header` of the header.

    `secrets` are those values of `headers` and `query` that are masked like keys; no value is ever shown.
    """

    path: str = ""
    key_header: str = ""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    query: Mapping[str, str] = field(default_factory=dict, repr=False)
    secrets: tuple[Secret, ...] = ()

    def url(self, base_url: str, path: str) -> str:
        """Return the address of a path, or of the one that stands in its place, with the query."""
        return self.listed(f"{base_url}{self.path or path}")

    def listed(self, url: str) -> str:
        """Return an address with the query parameters."""
        pairs = "&".join(f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in self.query.items())
        return f"{url}?{pairs}" if pairs else url

    def head(self, wire: Wire, key: Secret) -> dict[str, str]:
        """Return the headers of a request: the wire's, or the key in its own, and the further ones over them."""
        own = {**wire.headers(""), self.key_header: key.reveal()} if self.key_header and key else None
        return {**(wire.headers(key.reveal()) if own is None else own), **self.headers}

    def hidden(self, key: Secret) -> Secret | Secrets:
        """Return what masks the key, and the other secrets, wherever they are echoed."""
        return Secrets((key, *self.secrets)) if self.secrets else key


NO_EXTRAS = Extras()
