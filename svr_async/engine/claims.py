"""Claims: a question is asked by one process at a time of those that share a cache; the others wait for its reply.

A claim is a lock of the kernel on a file beside the cache, so it ends with its process, however that ends. A process
that is alone holds all claims at once by one lock on the gate, and a claim costs it a look into a set. When another one
waits (it locks the byte _KNOCK), the first locks what it is asking, question by question, and gives up the rest of the
gate; from then on each call takes a lock.
A process that runs but does not renew its lease (it is stopped, or the disk is full) loses its claims when the lease
ends. A lost claim costs at most a question that is paid for twice.

A reply is in the cache before its question is released, and the lock is kept for LINGER_S after that. So a process that
has just missed a question in the cache, and then gets its lock, need not read the cache again.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import struct
import time
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Protocol
from weakref import WeakValueDictionary

from svr_async.engine.filelocks import LockFile, available

FOLDER = "claims"
SLOTS = 128  # processes that can share a cache, each with a byte of the gate; one that is alone locks all of them
SHARDS = 16  # files for the locks of questions; the kernel searches the locks of a file one by one
LEASE_S = 30.0
RENEW_S = 1.0
LISTEN_S = 0.02
LINGER_S = 0.1  # a lock is kept so long after its release; after an older miss the cache is read again
FIRST_PAUSE_S = 0.005
LONGEST_PAUSE_S = 0.25
LOOKS_PER_S = 2000.0  # most tries to lock a second, of all waiting questions together
_KNOCK = SLOTS  # the byte of the gate that is locked while somebody waits for a process that is alone
_BEAT = struct.Struct("<q")  # the steady clock's nanoseconds, one for each slot and one for a process that is alone


class Claims(Protocol):
    """What an engine asks before it calls."""

    def hold(self, key: bytes) -> bool:
        """Claim a question that the cache has just missed; False means: `obtain` it, then look again."""

    async def obtain(self, key: bytes, stopped: Callable[[], bool]) -> bool:
        """Wait for a claim; False where there is none to be had and to be released: a stop, or a lease that ended."""

    def release(self, key: bytes) -> None:
        """Let the next one claim a question; its reply is in the cache, or it has none."""

    def alone(self) -> int:
        """Return a number that stays the same while nobody else can have asked anything; 0 where somebody may."""

    async def close(self) -> None:
        """Let go of everything."""


class NoClaims:
    """Claims of a cache that nobody else can be asked to respect: each process for itself."""

    def hold(self, key: bytes) -> bool:  # noqa: ARG002  (the protocol's signature)
        """Claim nothing."""
        return True

    async def obtain(self, key: bytes, stopped: Callable[[], bool]) -> bool:  # noqa: ARG002
        """Never needed."""
        return False

    def release(self, key: bytes) -> None:
        """Release nothing."""

    def alone(self) -> int:
        """Tell nothing: who else asks is not known."""
        return 0

    async def close(self) -> None:
        """Close nothing."""


def open_claims(cache: Path) -> Claims:
    """Open the claims of a cache on the running event loop; its engines share them.

    Where there are no such locks (another system than Linux, a file system without them), each process asks by itself.
    """
    place = (str(cache.resolve()), id(asyncio.get_running_loop()))
    opened = _opened.get(place)
    if opened is not None and opened.users:
        opened.join()
        return opened
    if not available():
        return NoClaims()
    try:
        opened = _opened[place] = FileClaims(cache / FOLDER)
    except OSError:
        return NoClaims()
    return opened


class _Mode(Enum):
    IDLE = "nothing is claimed"
    ALONE = "all is claimed"
    AMONG = "questions are claimed one by one"


class FileClaims:
    """Claims by locks in a folder. Use it on one event loop."""

    def __init__(self, folder: Path) -> None:
        self.users = 1
        self._loop = asyncio.get_running_loop()  # kept, so that its id stays its own
        folder.mkdir(mode=0o700, exist_ok=True)
        with contextlib.ExitStack() as opening:
            files = []
            for name in ("gate", "beats", *(f"{number:02x}" for number in range(SHARDS))):
                files.append(LockFile(folder / name))
                opening.callback(files[-1].close)
            self._gate, self._beats, *self._shards = files
            self._gate.holder(0, SLOTS)  # raises where the file system has no locks
            self._files = opening.pop_all()
        self._mode = _Mode.IDLE
        self._slot = SLOTS
        self._times_alone = 0
        self._held: set[bytes] = set()
        self._leaving: dict[bytes, float] = {}  # released, and until when it stays locked
        self._waiting = 0
        self._looked_up = self._among_since = 0.0
        self._renewed = (SLOTS, -RENEW_S)
        self._timer: asyncio.TimerHandle | None = None

    def join(self) -> None:
        """Have one more engine use these claims."""
        self.users += 1
        self._times_alone += 1

    def hold(self, key: bytes) -> bool:
        """Claim a question that the cache has just missed, if that takes no wait."""
        if key in self._held or self._mode is _Mode.IDLE:
            return False
        if self._mode is _Mode.AMONG:
            if time.monotonic() - self._looked_up > LINGER_S or not self._shard(key).take(_place(key)):
                return False
            self._leaving.pop(key, None)
        self._held.add(key)
        return True

    async def obtain(self, key: bytes, stopped: Callable[[], bool]) -> bool:
        """Wait until nobody else asks the question; whoever did has then kept its reply, or failed."""
        if self._try(key):
            return True
        began, pause_s, silent = time.monotonic(), FIRST_PAUSE_S, 0
        self._waiting += 1
        try:
            while self.users and not stopped():
                await asyncio.sleep(max(pause_s, self._waiting / LOOKS_PER_S))
                if self._try(key):
                    return True
                silent = silent + 1 if self._lapsed(time.monotonic() - began) else 0
                if silent > 1:  # who has just come in gives its first sign a moment later
                    return False
                pause_s = min(1.5 * pause_s, LONGEST_PAUSE_S)
        finally:
            self._waiting -= 1
            if self.users and not self._waiting:
                self._gate.free(_KNOCK)
        return False

    def release(self, key: bytes) -> None:
        """Let the next one claim a question."""
        self._held.discard(key)
        if not self.users:
            return
        if self._mode is _Mode.AMONG:
            self._leaving[key] = time.monotonic() + LINGER_S
        elif not self._held:
            self._leave()

    def alone(self) -> int:
        """Return which time this is that one engine has all claims, counted from 1; 0 while it has not."""
        sure = self._mode is _Mode.ALONE and self.users == 1 and time.monotonic() - self._renewed[1] < LEASE_S
        return self._times_alone if sure else 0

    async def close(self) -> None:
        """Let go of everything, once the last of its engines does."""
        self.users -= 1
        if self.users:
            return
        if self._leaving:
            await asyncio.sleep(LINGER_S)
        self._leave()
        self._files.close()

    def _try(self, key: bytes) -> bool:
        if not self.users or key in self._held or (self._mode is _Mode.IDLE and not self._enter()):
            return False
        if self._mode is _Mode.AMONG and not self._shard(key).take(_place(key)):
            return False
        self._leaving.pop(key, None)
        self._held.add(key)
        return True

    def _enter(self) -> bool:
        """Pass the gate: alone where nobody is inside or knocks, else among others; False while another is alone."""
        if self._gate.holder(_KNOCK) is None and self._gate.take(0, SLOTS):
            self._be_alone()
        elif (slot := self._free_slot()) is not None:
            self._mode, self._slot, self._among_since = _Mode.AMONG, slot, time.monotonic()
        else:
            self._gate.take(_KNOCK, shared=True)
            return False
        self._renew()
        self._listen()
        return True

    def _be_alone(self) -> None:
        self._mode, self._slot = _Mode.ALONE, SLOTS
        self._times_alone += 1

    def _free_slot(self) -> int | None:
        if self._gate.holder(0, SLOTS) == (0, SLOTS):
            return None
        first = os.getpid() % SLOTS
        return next((slot for slot in (*range(first, SLOTS), *range(first)) if self._gate.take(slot)), None)

    def _leave(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._gate.free(0, SLOTS)
        self._mode = _Mode.IDLE

    def _listen(self) -> None:
        self._looked_up = time.monotonic()
        pause_s = LISTEN_S if self._mode is _Mode.ALONE else LINGER_S / 2
        self._timer = self._loop.call_later(pause_s, self._tend)

    def _tend(self) -> None:
        """Let in who knocks; be alone again when all others have left; let go of what is over; renew the lease."""
        self._timer = None
        if self._mode is _Mode.ALONE:
            if self._gate.holder(_KNOCK) is not None:
                self._share()
        else:
            self._let_go()
            if not self._held and not self._leaving:
                self._leave()
                return
            if self._held and time.monotonic() - self._among_since > RENEW_S:
                self._stand_alone()
        self._renew()
        self._listen()

    def _let_go(self) -> None:
        now = time.monotonic()
        while self._leaving and (first := next(iter(self._leaving.items())))[1] <= now:
            del self._leaving[first[0]]
            self._shard(first[0]).free(_place(first[0]))

    def _share(self) -> None:
        """Claim what is being asked one by one, and of the gate only a slot."""
        for key in self._held:
            self._shard(key).take(_place(key))
        self._mode, self._slot, self._among_since = _Mode.AMONG, os.getpid() % SLOTS, time.monotonic()
        self._renew()
        if self._slot:
            self._gate.free(0, self._slot)
        if self._slot + 1 < SLOTS:
            self._gate.free(self._slot + 1, SLOTS - self._slot - 1)

    def _stand_alone(self) -> None:
        """Claim everything at once again, if nobody else is inside or knocks."""
        self._among_since = time.monotonic()
        if self._gate.holder(_KNOCK) is not None or not self._gate.take(0, SLOTS):
            return
        self._be_alone()
        self._leaving.clear()
        for shard in self._shards:
            shard.free(0, 0)

    def _renew(self) -> None:
        """Give a sign of life; where the disk is full there is none, and the lease ends."""
        slot, at = self._renewed
        now = time.monotonic()
        if slot == self._slot and now - at < RENEW_S / 2:
            return
        if now - at >= LEASE_S:  # the lease had ended, and somebody else may have asked
            self._times_alone += 1
        self._renewed = (self._slot, now)
        with contextlib.suppress(OSError):
            os.pwrite(self._beats.handle, _BEAT.pack(time.monotonic_ns()), _BEAT.size * self._slot)

    def _lapsed(self, waited_s: float) -> bool:
        """Whether the lease of who stands in the way has ended: of who is alone, or, after a lease, of anybody."""
        if self._mode is _Mode.IDLE:
            return self._silent(SLOTS)
        if waited_s < LEASE_S:
            return False
        return any(self._gate.holder(slot) is not None and self._silent(slot) for slot in range(SLOTS))

    def _silent(self, slot: int) -> bool:
        data = os.pread(self._beats.handle, _BEAT.size, _BEAT.size * slot)
        beat = _BEAT.unpack(data)[0] if len(data) == _BEAT.size else 0
        return time.monotonic_ns() - int(beat) > LEASE_S * 1e9

    def _shard(self, key: bytes) -> LockFile:
        return self._shards[key[-1] % SHARDS]


def _place(key: bytes) -> int:
    """Return where in a file a question is locked: 62 bits of its key."""
    return int.from_bytes(key[:8], "big") >> 2


_opened: WeakValueDictionary[tuple[str, int], FileClaims] = WeakValueDictionary()  # by folder and event loop
