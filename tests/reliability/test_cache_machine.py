"""The cache as a state machine: any sequence of puts, kills, damage and clock jumps, against a dictionary."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
import tempfile
import time
from contextlib import closing
from pathlib import Path
from unittest import mock

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from svr_async.engine.cache import Cache
from svr_async.engine.reply import Reply

KEYS = st.integers(0, 11).map(lambda number: number.to_bytes(32, "big"))
TEXTS = st.sampled_from(["", "short", "ä\u2028\x00" * 40, "long " * 500])


class CacheMachine(RuleBasedStateMachine):
    """Compares a cache with a dictionary of what it acknowledged; damaged rows may be misses, never other answers."""

    @initialize()
    def begin(self) -> None:
        """Open a new cache."""
        self.base = Path(tempfile.mkdtemp(prefix="svr-machine-"))
        self.folder = self.base / "cache-0"
        self.runner = asyncio.Runner()
        self.cache = Cache.open(self.folder)
        self.model: dict[bytes, Reply] = {}
        self.damaged: set[bytes] = set()
        self.generation = 0
        self.abandoned: list[Cache] = []
        self.shift = 0.0
        real = time.time
        self.clock = mock.patch("time.time", side_effect=lambda: real() + self.shift)
        self.clock.start()

    @rule(key=KEYS, text=TEXTS)
    def put(self, key: bytes, text: str) -> None:
        """Keep a reply: acknowledged from here on."""
        self._put(self.cache, key, text)

    @rule(keys=st.lists(KEYS, min_size=2, max_size=6, unique=True), text=TEXTS)
    def put_many(self, keys: list[bytes], text: str) -> None:
        """Keep replies that share a commit."""

        async def all_of_them() -> None:
            await asyncio.gather(*(self.cache.put(key, Reply(text=text)) for key in keys))

        self.runner.run(all_of_them())
        self.model |= dict.fromkeys(keys, Reply(text=text))
        self.damaged -= set(keys)

    def _put(self, cache: Cache, key: bytes, text: str) -> None:
        self.runner.run(cache.put(key, Reply(text=text)))
        self.model[key] = Reply(text=text)
        self.damaged.discard(key)

    @rule(key=KEYS, text=TEXTS)
    def second_writer(self, key: bytes, text: str) -> None:
        """Keep a reply through another cache on the same folder, open at the same time."""
        other = Cache.open(self.folder)
        self._put(other, key, text)
        other.close()

    @rule()
    def reopen(self) -> None:
        """Close the cache in good order and open it again."""
        self.cache.close()
        self.cache = Cache.open(self.folder)

    @rule()
    def kill(self) -> None:
        """Go on from the files as they are at this moment, as after kill -9; nothing is closed."""
        self.generation += 1
        left = self.base / f"cache-{self.generation}"
        left.mkdir(mode=0o700)
        for path in self.folder.iterdir():
            if path.is_file() and not path.name.endswith("-shm"):  # shared memory dies with its processes
                shutil.copyfile(path, left / path.name)
        self.abandoned.append(self.cache)
        self.folder, self.cache = left, Cache.open(left)

    @precondition(lambda self: set(self.model) - self.damaged)
    @rule(data=st.data())
    def corrupt(self, data: st.DataObject) -> None:
        """Flip one bit of a whole row, behind the cache's back."""
        key = data.draw(st.sampled_from(sorted(set(self.model) - self.damaged)))
        with closing(sqlite3.connect(self.folder / "cache.db")) as connection, connection:
            (row,) = connection.execute("SELECT value FROM Cache WHERE key = ?", (key,)).fetchone()
            at = data.draw(st.integers(0, len(row) - 1))
            flipped = row[:at] + bytes([row[at] ^ 1 << data.draw(st.integers(0, 7))]) + row[at + 1 :]
            connection.execute("UPDATE Cache SET value = ? WHERE key = ?", (flipped, key))
        self.damaged.add(key)

    @rule(days=st.integers(-400, 400))
    def clock_jump(self, days: int) -> None:
        """Set the wall clock: nothing expires and nothing is forgotten."""
        self.shift = 86_400.0 * days

    @invariant()
    def same_as_the_dictionary(self) -> None:
        """Every acknowledged reply is there; a damaged row is a miss; what was never put is not there."""
        if not hasattr(self, "cache"):
            return
        for number in range(12):
            key = number.to_bytes(32, "big")
            found = self.cache.get(key)
            if key in self.damaged:
                assert found is None
            else:
                assert found == self.model.get(key)

    def teardown(self) -> None:
        """Close and remove everything."""
        if hasattr(self, "cache"):
            self.clock.stop()
            for cache in (self.cache, *self.abandoned):
                cache.close()
            self.runner.close()
            shutil.rmtree(self.base)


CacheMachine.TestCase.settings = settings(
    max_examples=12, stateful_step_count=20, deadline=None, suppress_health_check=list(HealthCheck)
)
TestCacheMachine = CacheMachine.TestCase
