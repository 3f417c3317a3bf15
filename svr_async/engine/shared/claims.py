"""Claims that machines share: a question is asked by one of them, the others take its reply from a look-aside.

The local cache stays the truth: a reply is handed over after its commit there, whatever the server says, and one that
comes from the server is committed there first. Claims end with a lease, replies with an expiry. The server may be lost,
lose its keys or lie: a row counts only with its digest over the request's key, a claim only with a lease that runs out,
and without an answer each machine asks by itself. After a loss of its keys all machines wait a moment, in which each
says again what it asks and what it has answered.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from svr_async.engine.cache import Cache
from svr_async.engine.cache_disk import unpack
from svr_async.engine.claims import Claims
from svr_async.engine.reply import Reply
from svr_async.engine.shared.link import Link, LostError, RefusedError
from svr_async.engine.shared.scripts import ASK, BEAT, CLAIM, EPOCH, LEAVE, REPLY, SETTLE_MS, SETTLING

LEASE_MS = 30_000
BEAT_S = 0.3
REPLY_MS = 24 * 3_600_000
MOST_ROW_BYTES = 256 * 1024  # a larger one is in the local cache only
MOST_KNOWN = 1_000_000  # answers of this process that are said again after a loss
AT_ONCE = 128
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.02, 0.25
RETURN_S = 10.0  # how long calls wait for a server that was there and is gone
LEASE_S = LEASE_MS / 1000
LONGEST_WAIT_S = 630.0  # for a claim that is renewed for ever: a call's usual --timeout and a lease; then a lease
SLOW = "--shared: a question is claimed elsewhere for longer than a lease: waiting for its reply"
ENDLESS = "--shared: claims on the server do not end: what is claimed elsewhere for a lease is asked here too"
LIE = "--shared: the server holds what no machine of ours has put there; it is not believed"


class SharedClaims:
    """Claims on a server, behind those of the machine's own processes."""

    def __init__(self, local: Claims, cache: Cache, url: str, tell: Callable[[str], None]) -> None:
        self._local, self._cache, self._tell = local, cache, tell
        self._link = Link(url, tell)
        self._token = secrets.token_hex(12)
        self._epoch = b""
        self._held: set[bytes] = set()
        self._answered: deque[bytes] = deque(maxlen=MOST_KNOWN)
        self._losses = 0
        self._trusted = True  # whether claims have ended so far
        self._wake = asyncio.Event()
        self._beating: asyncio.Task[None] | None = None

    def hold(self, key: bytes) -> bool:  # noqa: ARG002  (the protocol's signature)
        """Never at once: another machine may know."""
        return False

    def alone(self) -> int:
        """Return 0: another machine may have asked anything."""
        return 0

    async def obtain(self, key: bytes, stopped: Callable[[], bool]) -> bool:
        """Wait until neither a process of this machine nor another machine asks; take over the reply of either."""
        if not await self._local.obtain(key, stopped):
            return False
        try:
            if not self._cache.rows([key]):
                await self._obtain_there(key, stopped)
        except BaseException:
            self.release(key)
            raise
        return True

    def release(self, key: bytes) -> None:
        """Let the next one claim a question, here and there; its reply goes to the look-aside, if it has one."""
        row = (self._cache.rows([key]) or {}).get(key, b"")
        self._local.release(key)
        if row:
            self._answered.append(key)
        if row or key in self._held:
            self._held.discard(key)
            small = row if len(row) <= MOST_ROW_BYTES else b""
            self._link.send("EVAL", LEAVE, 2, CLAIM + key, REPLY + key, self._token, small, REPLY_MS)

    async def close(self) -> None:
        """Say what is left to say, and let go of everything."""
        if self._beating is not None:
            self._beating.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._beating
        await self._link.close()
        await self._local.close()

    async def _obtain_there(self, key: bytes, stopped: Callable[[], bool]) -> None:
        """Claim a question on the server, or bring its reply into the cache; give up where the server is no help."""
        if self._beating is None:
            self._beating = asyncio.create_task(self._beat_on())
        began, pause_s, lies = time.monotonic(), FIRST_PAUSE_S, 0
        while not stopped() and self._is_worth_waiting(time.monotonic() - began):
            try:
                if await self._try(key):
                    return
            except LostError:
                if not self._link.may_return(RETURN_S):
                    return
            except (RefusedError, ValueError, TypeError, KeyError):
                lies += 1
                self._tell(LIE)
                if lies > 1:
                    return
                self._link.send("DEL", REPLY + key, CLAIM + key)
            await asyncio.sleep(pause_s)
            pause_s = min(1.5 * pause_s, LONGEST_PAUSE_S)

    def _is_worth_waiting(self, waited_s: float) -> bool:
        """Whether a claim of another machine may still end; a person is told of a long wait, and of its end."""
        if waited_s >= LONGEST_WAIT_S:
            self._trusted = False
            self._tell(ENDLESS)
        elif waited_s >= LEASE_S and self._trusted:
            self._tell(SLOW)
        return waited_s < (LONGEST_WAIT_S if self._trusted else LEASE_S)

    async def _try(self, key: bytes) -> bool:
        """Ask the server once: whether this question may be asked here, or needs no asking any more."""
        keys = (EPOCH, SETTLING, CLAIM + key, REPLY + key)
        answer = await self._link.send("EVAL", ASK, 4, *keys, *_new_epoch(), self._epoch, self._token, LEASE_MS)
        epoch, claimed, row, left_ms = answer
        if not isinstance(epoch, bytes) or type(left_ms) is not int or not 0 <= left_ms <= LEASE_MS:
            raise ValueError("no answer of ours")
        if epoch != self._epoch:
            self._wake.set()
        if row is not None:
            await self._cache.put(key, _reply_in(key, row))
        elif claimed == 1:
            self._held.add(key)
        return row is not None or claimed == 1

    async def _beat_on(self) -> None:
        """Renew what is claimed, and say all again where the server was lost or has lost its keys."""
        while True:
            with contextlib.suppress(LostError, RefusedError):
                await self._beat()
            self._wake.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), BEAT_S)

    async def _beat(self) -> None:
        losses, claims = self._link.losses, [CLAIM + key for key in self._held]
        keys = (EPOCH, SETTLING, *claims)
        epoch = await self._link.send("EVAL", BEAT, len(keys), *keys, *_new_epoch(), self._token, LEASE_MS)
        if not isinstance(epoch, bytes):
            raise RefusedError
        if epoch != self._epoch or losses != self._losses:
            await self._say_again()
        self._epoch, self._losses = epoch, losses

    async def _say_again(self) -> None:
        """Put claims and replies back; while they are many, nobody begins to ask."""
        sent: list[asyncio.Future[Any]] = []
        sent += [self._link.send("SET", CLAIM + key, self._token, "PX", LEASE_MS) for key in self._held]
        known = list(self._answered)
        for first in range(0, len(known), AT_ONCE):
            sent.append(self._link.send("SET", SETTLING, "1", "PX", SETTLE_MS))
            rows = self._cache.rows(known[first : first + AT_ONCE]) or {}
            for key, row in rows.items():
                if len(row) <= MOST_ROW_BYTES:
                    sent.append(self._link.send("SET", REPLY + key, row, "PX", REPLY_MS))
            await asyncio.gather(*sent)
            sent = []
        await asyncio.gather(*sent)


def _new_epoch() -> tuple[str, int]:
    return secrets.token_hex(12), SETTLE_MS


def _reply_in(key: bytes, row: object) -> Reply:
    """Return the reply in a row; ValueError where it is not the reply to this request."""
    payload = unpack(key, row) if isinstance(row, bytes) else None
    if payload is None:
        raise ValueError("not the reply to this request")
    return Reply.from_bytes(payload)
