"""What makes the engine quick keeps its promises: the calm collector, the set of seen keys, packed rows."""

from __future__ import annotations

import asyncio
import gc
import hashlib
import os
import random
import sqlite3
import threading
import zlib
from contextlib import aclosing, closing
from pathlib import Path

import orjson
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from svr_async.engine import cache as cache_module
from svr_async.engine import cache_disk, collector
from svr_async.engine import flow as flow_module
from svr_async.engine.cache import Cache
from svr_async.engine.cache_disk import pack, unpack
from svr_async.engine.collector import THRESHOLDS, calm_collector
from svr_async.engine.flow import bounded_map
from svr_async.engine.reply import Reply, Usage
from svr_async.engine.request import Request, once
from svr_async.engine.seen import SeenKeys

KEY = b"k" * 32


def test_the_collector_is_as_before_when_the_last_has_left() -> None:
    """Thresholds rise while anyone is inside and nothing stays frozen behind the last one."""
    usual = gc.get_threshold()
    with calm_collector():
        assert gc.get_threshold() == tuple(map(max, THRESHOLDS, usual))
        with calm_collector():
            assert gc.get_freeze_count() > 0
        assert gc.get_threshold() != usual
    assert (gc.get_threshold(), gc.get_freeze_count()) == (usual, 0)


def test_a_collector_that_is_off_stays_off() -> None:
    """Who has switched the collector off, or frozen objects, finds it so afterwards."""
    usual = gc.get_threshold()
    gc.set_threshold(0)
    try:
        with calm_collector():
            assert gc.get_threshold()[0] == 0
        assert gc.get_threshold()[0] == 0
        gc.set_threshold(*usual)
        gc.freeze()
        with calm_collector():
            pass
        assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()
        gc.set_threshold(*usual)
    assert collector._inside == 0


async def test_a_flow_that_fails_or_is_left_gives_the_collector_back() -> None:
    """An error in the work, and a consumer that leaves early, both restore the thresholds."""
    usual = gc.get_threshold()

    async def work(number: int) -> int:
        if number == 5:
            raise ValueError("five")
        return number

    async def drain() -> None:
        async with aclosing(bounded_map(work, range(10), workers=2)) as flow:
            async for _ in flow:
                pass

    with pytest.raises(ValueError, match="five"):
        await drain()
    async with aclosing(bounded_map(work, range(5), workers=2)) as flow:
        async for _ in flow:
            break
    assert gc.get_threshold() == usual


async def test_results_that_nobody_takes_hold_the_workers_up() -> None:
    """A slow consumer bounds how many items are begun: as many as there are workers and places for results."""
    begun = 0

    async def work(number: int) -> int:
        nonlocal begun
        begun += 1
        return number

    async with aclosing(bounded_map(work, range(100_000), workers=4)) as flow:
        taken = 0
        async for _ in flow:
            taken += 1
            for _ in range(20):
                await asyncio.sleep(0)
            assert begun <= taken + 3 * 4 + 1
            if taken == 50:
                break


async def test_workers_that_find_the_queue_full_are_woken_two_by_two() -> None:
    """Where work ends at once, a full queue that is half taken wakes few workers; where it waits, all are at work."""
    waits, most, at_work = 0, 0, 0

    async def work(number: int) -> int:
        nonlocal most, at_work
        if number >= 2000:
            at_work += 1
            most = max(most, at_work)
            await asyncio.sleep(0.001)
            at_work -= 1
        return number

    class Counted(flow_module._Outcomes[int]):
        async def space(self) -> None:
            nonlocal waits
            waits += taken < 1500
            await super().space()

    taken = 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(flow_module, "_Outcomes", Counted)
        async with aclosing(bounded_map(work, range(4000), workers=40)) as flow:
            async for _ in flow:
                taken += 1
    assert (taken, most) == (4000, 40)
    assert waits < 1500 / 40 * 4 + 40


async def test_more_workers_are_started_only_where_no_result_is_ready() -> None:
    """Results that are there at once need the first workers only; work that waits for all of them gets all."""
    most, waiting = 0, 0
    all_wait = asyncio.Event()

    async def work(wait: bool) -> int:
        nonlocal most, waiting
        most = max(most, len(asyncio.all_tasks()))
        if wait:
            waiting += 1
            if waiting == 1000:
                all_wait.set()
            await all_wait.wait()
        return 0

    async with aclosing(bounded_map(work, [False] * 5000, workers=1000)) as flow:
        assert [result async for _, result in flow] == [0] * 5000
    assert most <= 64 + 1
    async with aclosing(bounded_map(work, [False] * 1000 + [True] * 1000, workers=1000)) as flow:
        assert len([result async for result in flow]) == 2000


@pytest.mark.parametrize("items", [0, 1, 63, 64, 65, 1000])
async def test_many_workers_start_in_parts_and_no_more_than_there_is_work_for(items: int) -> None:
    """Ten thousand workers for a few items: all items are done once, and most workers were never started."""
    before = len(asyncio.all_tasks())
    most = 0

    async def work(number: int) -> int:
        nonlocal most
        most = max(most, len(asyncio.all_tasks()) - before)
        return number

    async with aclosing(bounded_map(work, range(items), workers=10_000)) as flow:
        assert sorted([result async for _, result in flow]) == list(range(items))
    assert most <= items + 2 * 64
    assert len(asyncio.all_tasks()) == before


@settings(deadline=None, max_examples=30)
@given(st.lists(st.integers(0, 400), max_size=1500))
def test_seen_keys_are_a_set(numbers: list[int]) -> None:
    """Each key is new exactly once, in any order and while tables grow."""
    seen, model = SeenKeys(), set()
    for number in numbers:
        key = hashlib.blake2b(number.to_bytes(4, "big"), digest_size=32).digest()
        assert seen.add(key) == (key not in model)
        model.add(key)
    assert len(seen) == len(model)


def test_many_seen_keys_and_the_key_of_zeros() -> None:
    """Twenty thousand keys that crowd two tables, and one of zero bytes, are all told apart."""
    draw = random.Random(0)
    keys = [bytes([number % 2]) + draw.randbytes(31) for number in range(20_000)] + [bytes(32)]
    seen = SeenKeys()
    assert all(seen.add(key) for key in keys)
    assert not any(seen.add(key) for key in keys)


@settings(deadline=None, max_examples=60)
@given(payload=st.binary(max_size=5000), repeat=st.integers(1, 5))
def test_what_is_packed_is_unpacked_and_any_damage_is_a_miss(payload: bytes, repeat: int) -> None:
    """A row gives back its payload for its own key; another key, a flipped bit or a cut gives None."""
    payload *= repeat
    row = pack(KEY, payload)
    assert unpack(KEY, row) == payload
    assert unpack(b"x" * 32, row) is None
    place = len(row) * repeat // 6
    assert unpack(KEY, row[:place] + bytes([row[place] ^ 4]) + row[place + 1 :]) is None
    assert unpack(KEY, row[:-1]) is None


def test_a_row_that_claims_or_unpacks_to_too_much_is_a_miss() -> None:
    """A frame of zstandard that is larger than any row is refused before memory is taken for it."""
    big = zstandard.ZstdCompressor().compress(bytes(cache_disk.MAX_ROW_BYTES + 1))
    unsized = zstandard.ZstdCompressor(write_content_size=False).compress(b"x" * 100)
    for packed in (big, unsized, b"", b"nonsense"):
        row = cache_disk.ROW_VERSION + cache_disk._digest(KEY, b"s" + packed) + b"s" + packed
        assert unpack(KEY, row) is None
        assert unpack(KEY, first_version(b"x" * 100, b"s" + packed)) is None


@settings(deadline=None, max_examples=40)
@given(payload=st.binary(max_size=2000), bit=st.integers(0, 10**6))
def test_rows_of_the_first_version_are_read_and_their_damage_noticed(payload: bytes, bit: int) -> None:
    """Their digest is that of the payload: plain, packed by zlib, or by zstandard."""
    for kept in (b"r" + payload, b"z" + zlib.compress(payload), b"s" + zstandard.ZstdCompressor().compress(payload)):
        row = bytearray(first_version(payload, kept))
        assert unpack(KEY, bytes(row)) == payload
        assert unpack(b"x" * 32, bytes(row)) is None
        row[bit % (8 * 34) // 8] ^= 1 << bit % 8
        assert unpack(KEY, bytes(row)) is None


def first_version(payload: bytes, kept: bytes) -> bytes:
    """Return a row as the first version wrote it."""
    return b"\x01" + hashlib.blake2b(KEY + payload, digest_size=32).digest() + kept


def test_rows_are_packed_in_many_threads_at_once() -> None:
    """Each thread has its own working space: no row is damaged by another's."""
    wrong: list[bytes] = []

    def work(number: int) -> None:
        payload = os.urandom(40) * 60 + bytes([number])
        wrong.extend(payload for _ in range(300) if unpack(KEY, pack(KEY, payload)) != payload)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


async def test_a_large_batch_wakes_all_who_wait_a_part_in_each_round(
    cache_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand commits at once hold the event loop up for a few calls at a time, and each of them is told."""
    monkeypatch.setattr(cache_module, "WAKE_AT_ONCE", 7)
    cache = Cache.open(cache_folder)
    rounds, woken = 0, []

    async def put(number: int) -> None:
        await cache.put(number.to_bytes(32, "big"), Reply(text=str(number)))
        woken.append(rounds)

    tasks = [asyncio.create_task(put(number)) for number in range(300)]
    while not all(task.done() for task in tasks):
        rounds += 1
        await asyncio.sleep(0)
    assert len(woken) == 300
    assert max(woken.count(one) for one in set(woken)) <= 2 * 7
    cache.close()


def test_the_key_is_that_of_the_whole_canonical_json() -> None:
    """The cache key is BLAKE2b-256 over one JSON object with sorted keys, however it is put together."""
    request = Request(
        endpoint='a "b"', model="m", messages=(("user", "ä"),), params=(("z", 1), ("a", {"d": [1], "c": None}))
    )
    whole = {"schema": 1, "endpoint": request.endpoint, "body": request.body()}
    canonical = orjson.dumps(whole, option=orjson.OPT_SORT_KEYS)
    assert request.key == hashlib.blake2b(canonical, digest_size=32).digest()


def test_the_key_of_a_request_never_changes() -> None:
    """A key written down on 2026-11-20: replies that were paid for then are found for ever."""
    request = Request(
        endpoint="https://api.example.com/v1",
        model="judge-1",
        messages=(("system", "Compare."), ("user", "A: één\nB: \U0001f600")),
        max_tokens=512,
        params=(("temperature", 0.0), ("response_format", {"type": "json_object"})),
    )
    assert request.key.hex() == "8fc468916af38497d6a6a07e780f4c1632101f12b5b2cca641a3f0b9ccfbc9d2"


async def test_rows_are_read_together_as_they_are_one_by_one(cache_folder: Path) -> None:
    """Many keys in one statement: the rows that there are, none of another form, whatever their number."""
    keys = [bytes([number]) * 32 for number in range(200)]
    cache = Cache.open(cache_folder)
    await asyncio.gather(*(cache.put(key, Reply(text=f"reply {key[0]}")) for key in keys[:150]))
    with closing(sqlite3.connect(cache_folder / "cache.db")) as connection, connection:
        connection.execute("UPDATE Cache SET mode = 4 WHERE key = ?", (keys[3],))
        connection.execute("UPDATE Cache SET value = 'text' WHERE key = ?", (keys[4],))
    for count in (0, 1, 64, 200):
        rows = cache.rows(keys[:count])
        assert rows is not None
        assert {key: cache.read(key, row) for key, row in rows.items()} == {
            key: reply for key in keys[:count] if (reply := cache.get(key)) is not None
        }
        assert not rows.keys() & {keys[3], keys[4]}
    cache.close()


def test_once_works_a_value_out_once() -> None:
    """The value is kept on its object, and the class shows the descriptor."""

    class Thing:
        calls = 0

        @once
        def value(self) -> int:
            Thing.calls += 1
            return 7

    thing = Thing()
    assert (thing.value, thing.value, Thing.calls) == (7, 7, 1)
    assert isinstance(Thing.value, once)


async def test_what_is_cancelled_within_the_work_ends_the_map() -> None:
    """A cancelled task that the work waited for reaches the consumer instead of leaving it waiting for good."""

    async def work(number: int) -> int:
        if number == 3:
            inner = asyncio.create_task(asyncio.sleep(60))
            await asyncio.sleep(0)
            inner.cancel()
            await inner
        return number

    async def all_of_it() -> list[int]:
        async with aclosing(bounded_map(work, range(6), workers=2)) as flow:
            return [result async for _, result in flow]

    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(all_of_it(), 20)


def test_a_reply_is_kept_with_all_its_fields() -> None:
    """The row is what orjson makes of the object itself, so that no field can be left out."""
    usage = Usage(prompt_tokens=3, cached_tokens=2, completion_tokens=1, batch=True)
    reply = Reply(
        text="é\n", finish_reason="length", usage=usage, model="m", fingerprint="f", id="i", tries=2, reasoning="so"
    )
    assert reply.to_bytes() == orjson.dumps(reply)
    assert Reply.from_bytes(reply.to_bytes()) == reply
