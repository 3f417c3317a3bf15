"""A cache on a Redis server (`--cache redis://HOST:PORT/DB`), for teams and CI.

A row is a string under `svr:` and its key in hex. How long the server keeps it is the server's configuration.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from svr_async.errors import StorageError, UsageError

if TYPE_CHECKING:
    import redis

PASSWORD = "SVR_REDIS_PASSWORD"  # noqa: S105  (the variable: addresses end up in manifests)
PREFIX = b"svr:"
TIMEOUT_S = 10.0
AT_ONCE = 1024


class RedisStore:
    """Rows on a Redis server; its methods block, and may be called from any thread."""

    slow = True

    def __init__(self, url: str) -> None:
        self.name = url
        try:
            import redis
        except ImportError as error:
            hint = "pip install 'svr-async[redis]'"
            raise UsageError(f"--cache {self.name} needs redis-py, which is not installed", hint=hint) from error
        self._error = redis.RedisError
        try:
            self._client: redis.Redis = redis.Redis.from_url(
                url,
                password=os.environ.get(PASSWORD) or None,
                socket_timeout=TIMEOUT_S,
                socket_connect_timeout=TIMEOUT_S,
            )
        except (ValueError, TypeError) as error:
            hint = "write redis://HOST:PORT/DB"
            raise UsageError(f"--cache {self.name} is not a valid Redis URL", hint=hint) from error
        self._ask(self._client.ping)

    def read(self, key: bytes) -> bytes | None:
        """Return a row, or None; StorageError if the server does not answer."""
        row: bytes | None = self._ask(self._client.get, _name(key))
        return row

    def write(self, rows: list[tuple[bytes, bytes]]) -> None:
        """Send rows in one pipeline; redis.RedisError if the server does not take them."""
        pipeline = self._client.pipeline(transaction=False)
        for key, row in rows:
            pipeline.set(_name(key), row)
        pipeline.execute()

    def sync(self) -> None:
        """Do nothing: the server decides when it writes to its disk."""

    def rows(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield all rows in the order of their keys."""
        pattern = PREFIX + b"[0-9a-f]" * 64
        names = iter(self._ask(lambda: sorted({*self._client.scan_iter(match=pattern, count=AT_ONCE)})))
        while some := list(islice(names, AT_ONCE)):
            for name, row in zip(some, self._ask(self._client.mget, some), strict=True):
                yield bytes.fromhex(name[len(PREFIX) :].decode()), row or b""

    def close(self) -> None:
        """Close the connections that are not in use."""
        self._client.close()

    def _ask(self, ask: Callable[..., Any], *values: Any) -> Any:
        try:
            return ask(*values)
        except self._error as error:
            text = " ".join(str(error).split())[:200]
            hint = "check that the server runs and takes this user, or choose another cache with --cache"
            raise StorageError(f"the cache {self.name} does not answer: {text}", hint=hint) from error


def _name(key: bytes) -> bytes:
    return PREFIX + key.hex().encode()
