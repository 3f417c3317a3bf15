"""A real Redis server on a loopback port, for tests; without the program they are skipped, or fail where CI=true."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import redis
from programs import need


class RedisServer:
    """A server that keeps nothing on disk; it may be killed and started again on its port."""

    def __init__(self, folder: Path) -> None:
        self._program, self._folder = need("a Redis server"), folder
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it answers."""
        flags = ("--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no")
        self._process = subprocess.Popen(
            [self._program, *flags], cwd=self._folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        deadline = time.monotonic() + 20
        while True:
            with contextlib.suppress(redis.ConnectionError), self.client() as client:
                client.ping()
                return
            assert time.monotonic() < deadline, "the Redis server does not answer"
            time.sleep(0.02)

    def kill(self) -> None:
        """End it at once, with all that it held."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(20)
            self._process = None

    @contextlib.contextmanager
    def client(self) -> Iterator[redis.Redis]:
        """Open a separate client."""
        client = redis.Redis(host="127.0.0.1", port=self.port)
        try:
            yield client
        finally:
            client.close()


@contextlib.contextmanager
def redis_server(folder: Path) -> Iterator[RedisServer]:
    """Run a server as long as a test lasts."""
    server = RedisServer(folder)
    server.start()
    try:
        yield server
    finally:
        server.kill()
