"""What the engine takes from diskcache and tenacity beyond their documentation: an update that moves it fails here."""

from __future__ import annotations

import ast
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import diskcache
import pytest
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type

import svr_async
from svr_async.engine.cache_disk import SETTINGS, BytesDisk
from svr_async.engine.cache_files import connection_of, open_cache

COUNTERS = {"count", "size", "hits", "misses"}  # read from the file when they are asked for
PACKAGE = Path(svr_async.__file__).parent
ITS_OWN = {"_con", "_sql", "_local", "_txn_id", "_page_size", "_directory", "_disk", "_timeout"}


def test_a_cache_that_writes_nothing_on_opening_has_all_that_diskcache_gives_one(tmp_path: Path) -> None:
    """Opened in our way, a whole file makes a cache with the attributes and values of one opened in its own way."""
    open_cache(tmp_path, 1.0).close()
    with closing(open_cache(tmp_path, 1.0)) as ours:
        theirs = diskcache.Cache(str(tmp_path), timeout=1.0, disk=BytesDisk, **SETTINGS)
        with closing(theirs):
            assert type(ours) is not type(theirs)
            plain, same = vars(theirs), vars(ours)
            assert set(plain) - set(same) == COUNTERS
            assert {name for name in same if same[name] != plain[name]} == {"_local", "_disk"}
            assert ours._page_size == theirs._page_size


def test_rows_are_read_on_the_connection_of_a_transaction(tmp_path: Path) -> None:
    """Within `transact` a thread's connection is in that transaction, and what it writes is gone if it fails."""
    with closing(open_cache(tmp_path, 1.0)) as cache:
        assert isinstance(connection_of(cache), sqlite3.Connection)
        assert not connection_of(cache).in_transaction

        def write_and_fail() -> None:
            with cache.transact(retry=False):
                assert connection_of(cache).in_transaction
                connection_of(cache).execute("UPDATE Settings SET value = 7 WHERE key = 'hits'")
                raise LookupError

        with pytest.raises(LookupError):
            write_and_fail()
        row = connection_of(cache).execute("SELECT value FROM Settings WHERE key = 'hits'").fetchone()
        assert row == (0,)


def test_no_other_file_uses_what_diskcache_keeps_to_itself() -> None:
    """`cache_files.py` alone names its private attributes."""
    users = set()
    for path in (PACKAGE / "engine").rglob("cache*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            is_own = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"
            if isinstance(node, ast.Attribute) and node.attr in ITS_OWN - {"_local"} and not is_own:
                users.add(path.name)
    assert users == {"cache_files.py"}


async def test_tenacity_asks_in_the_order_that_patience_needs() -> None:
    """After each failure: how long to wait, whether to stop, then what to tell, then to sleep; all with its number."""
    asked: list[tuple[str, int]] = []

    def note(name: str, answer: float) -> Callable[[RetryCallState], Any]:
        def told(state: RetryCallState) -> float:
            asked.append((name, state.attempt_number))
            return answer

        return told

    async def sleep(seconds: float) -> None:
        asked.append(("sleep", int(seconds)))

    tries = AsyncRetrying(
        retry=retry_if_exception_type(KeyError),
        wait=note("wait", 3.0),
        stop=note("stop", 0),
        before_sleep=note("tell", 0),
        sleep=sleep,
        reraise=True,
    )
    async for attempt in tries:
        with attempt:
            if attempt.retry_state.attempt_number < 3:
                raise KeyError
    assert asked == [
        *[("wait", 1), ("stop", 1), ("tell", 1), ("sleep", 3)],
        *[("wait", 2), ("stop", 2), ("tell", 2), ("sleep", 3)],
    ]
