"""A way to a Redis server that may come and go: commands gather while others are under way, and a loss is told once."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from svr_async.errors import UsageError

if TYPE_CHECKING:
    from redis.asyncio import Redis

PATIENCE_S = 2.0  # for an answer of the server
AT_ONCE = 256  # commands that go together
FIRST_REST_S, LONGEST_REST_S = 0.25, 15.0  # between two tries to reach a server that is gone
SCHEMES = ("redis://", "rediss://", "unix://")
HINT = "pip install 'svr-async[redis]'"


class LostError(Exception):
    """The server cannot be reached now."""


class RefusedError(Exception):
    """The server answers a command with an error, as where a key holds something else."""


@dataclass(slots=True)
class _Waiting:
    command: tuple[Any, ...]
    answer: asyncio.Future[Any]


class Link:
    """Commands to one server, for one event loop. `losses` counts how often it was lost.

    Whatever the server does (is silent, closes, speaks another protocol), a command ends with its answer, a
    `RefusedError`, or a `LostError` within PATIENCE_S.
    """

    def __init__(self, url: str, tell: Callable[[str], None]) -> None:
        self.losses = 0
        self._up = False
        self._lost_at = float("-inf")
        self._client = open_client(url)
        self._tell = tell
        self._line: deque[_Waiting] = deque()
        self._sender: asyncio.Task[None] | None = None
        self._rest_s, self._try_again_at = FIRST_REST_S, 0.0

    def send(self, *command: Any) -> asyncio.Future[Any]:
        """Send a command as soon as those before it are answered; return its answer to come."""
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        answer.add_done_callback(_look_at)
        if time.monotonic() < self._try_again_at:
            answer.set_exception(LostError())
            return answer
        self._line.append(_Waiting(command, answer))
        if self._sender is None or self._sender.done():
            self._sender = asyncio.create_task(self._send_all())
        return answer

    def may_return(self, patience_s: float) -> bool:
        """Whether the server has answered before, and not been gone for longer than this."""
        return self._up or time.monotonic() - self._lost_at < patience_s

    async def close(self) -> None:
        """Wait for what is on its way, then close the connection."""
        if self._sender is not None:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._sender, PATIENCE_S)
        with contextlib.suppress(Exception):
            await self._client.aclose()

    async def _send_all(self) -> None:
        while self._line:
            some = [self._line.popleft() for _ in range(min(AT_ONCE, len(self._line)))]
            try:
                async with asyncio.timeout(PATIENCE_S):
                    answers = await self._exchange(some)
            except Exception as error:  # noqa: BLE001  (a server that lies makes the client raise anything)
                await self._lose(some, error)
                return
            self._up, self._rest_s = True, FIRST_REST_S
            for one, answer in zip(some, answers, strict=True):
                _settle(one.answer, answer)

    async def _exchange(self, some: list[_Waiting]) -> list[Any]:
        async with self._client.pipeline(transaction=False) as pipe:
            for one in some:
                pipe.execute_command(*one.command)
            answers: list[Any] = await pipe.execute(raise_on_error=False)
        return answers

    async def _lose(self, some: list[_Waiting], error: Exception) -> None:
        """Turn away all who wait, rest for a while, and say so the first time."""
        now = time.monotonic()
        if self._up:
            self._up, self._lost_at = False, now
        if not self.losses:
            told = f"--shared: no answer from the server ({_in_short(error)})"
            self._tell(f"{told}; each machine goes on by itself meanwhile")
        self.losses += 1
        self._try_again_at = now + self._rest_s
        self._rest_s = min(2 * self._rest_s, LONGEST_REST_S)
        for one in (*some, *self._line):
            _settle(one.answer, LostError())
        self._line.clear()
        with contextlib.suppress(Exception):
            await self._client.connection_pool.disconnect()


def open_client(url: str) -> Redis:
    """Return a client that has not connected yet; UsageError for no URL of a server, or where redis-py is missing."""
    hint = "write redis://HOST:PORT/DB; SVR_EVAL_SHARED keeps a password out of the command"
    if not url.startswith(SCHEMES):
        raise UsageError("--shared is no redis:// address", hint=hint)
    try:
        from redis.asyncio import Redis
        from redis.asyncio.retry import Retry
        from redis.backoff import NoBackoff
    except ImportError as error:
        raise UsageError("--shared needs redis-py, which is not installed", hint=HINT) from error
    try:
        client: Redis = Redis.from_url(
            url,
            protocol=2,
            max_connections=1,
            socket_timeout=PATIENCE_S,
            socket_connect_timeout=PATIENCE_S,
            retry=Retry(NoBackoff(), 0),
        )
    except (ValueError, TypeError) as error:
        raise UsageError("--shared is no redis:// address that can be read", hint=hint) from error
    return client


def _settle(future: asyncio.Future[Any], answer: Any) -> None:
    if future.done():
        return
    if isinstance(answer, LostError):
        future.set_exception(answer)
    elif isinstance(answer, Exception):
        future.set_exception(RefusedError(_in_short(answer)))
    else:
        future.set_result(answer)


def _look_at(answer: asyncio.Future[Any]) -> None:
    """Take note of an error that nobody waits for."""
    if not answer.cancelled():
        answer.exception()


def _in_short(error: BaseException) -> str:
    text = " ".join(str(error).split()).partition("://")[0]
    return f"{type(error).__name__}: {text}"[:100] if text else type(error).__name__
