"""A run on a Ray cluster: this process starts the workers, keeps what they learn, and writes the run.

The cache of this process is the truth of the run: what a worker reports is committed here before its pairs count, and
what is lent again is what this cache lacks. So a worker that dies costs what it had under way, a coordinator that dies
nothing; and where this process dies, the same command goes on.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson

from svr_async.engine.cache import Cache
from svr_async.engine.cache_place import user_cache
from svr_async.engine.concurrency import DRAIN_AFTER_SIGNAL_S
from svr_async.engine.failures import FailureLog
from svr_async.engine.fallbacks import FILE as CURES
from svr_async.engine.fallbacks import add_cures
from svr_async.errors import SvrError, UsageError
from svr_async.evaluation.running.calls import variables_of
from svr_async.evaluation.running.cluster.lacking import Lacking, looking_for_gaps
from svr_async.evaluation.running.cluster.ledger import LEASE_S
from svr_async.evaluation.running.cluster.outbox import AT_ONCE, lacking, take_rows
from svr_async.evaluation.running.cluster.start import (
    HINT,
    Post,
    actor,
    connect,
    is_alive,
    kill,
    lacks_us,
    leave,
    lost_error,
    posts,
)
from svr_async.evaluation.running.cluster.supply import LOOK_S, Supply
from svr_async.evaluation.running.cluster.worker import FAILURES, Worker
from svr_async.evaluation.running.prepared import Prepared
from svr_async.evaluation.running.processes import GRACE_S, LIVES, SharedRun, error_from, hear_report, report_of
from svr_async.evaluation.running.settings import to_plain
from svr_async.evaluation.running.shards import digests_of
from svr_async.vocabulary.verdict import Outcome

START_S = 300.0  # until a worker has begun: it reads the data first


async def ask_on_ray(shared: SharedRun) -> None:
    """Have the pairs of a run judged on the cluster that its settings name; UsageError where none can be used."""
    settings = shared.run.settings
    alone = await asyncio.to_thread(connect, settings.ray or "", settings.processes)
    try:
        async with looking_for_gaps(shared.run) as gaps:
            where = await asyncio.to_thread(posts, settings.processes)
            await _Crew(shared, gaps, where).work()
    finally:
        if alone:
            await asyncio.to_thread(leave)


class _Crew:
    """The workers of a run, each through all its lives."""

    def __init__(self, shared: SharedRun, gaps: Lacking, where: Sequence[Post]) -> None:
        self._shared, self._posts = shared, where
        self._supply = Supply(shared, gaps, len(where))
        self._books = _Books(shared.run, _cache_of(shared))
        self._at_work = set(range(len(where)))
        self._yet_to_come = set(self._at_work)  # workers that have not handed over what earlier ones have left
        self._all_came = asyncio.Event()

    async def work(self) -> None:
        """Have everything judged, as far as the workers live, nothing stops the run, and the caps allow."""
        ear = asyncio.create_task(self._stop_all())
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._lend())
                for number in range(len(self._posts)):
                    group.create_task(self._keep(number))
        finally:
            ear.cancel()

    async def _lend(self) -> None:
        await self._all_came.wait()
        try:
            await self._supply.keep_on(self._at_work, blank=self._books.blank)
        except SvrError as error:
            self._shared.shutdown.fail(error)

    async def _stop_all(self) -> None:
        """Tell all workers when the run stops, and kill those that do not end."""
        while not self._shared.shutdown.stopped:  # noqa: ASYNC110  (signal handlers and errors set it)
            await asyncio.sleep(LOOK_S)
        for worker in list(self._supply.workers.values()):
            worker.stop.remote(self._shared.shutdown.error is not None)
        await asyncio.sleep(DRAIN_AFTER_SIGNAL_S + GRACE_S)
        for worker in list(self._supply.workers.values()):
            kill(worker)

    async def _keep(self, number: int) -> None:
        """Have a worker at work; in the place of one that was killed there comes another, on the same machine."""
        for life in range(LIVES):
            if self._shared.shutdown.stopped or await self._live(number, life):
                break
        self._at_work.discard(number)

    async def _live(self, number: int, life: int) -> bool:
        """Have a worker work to its end; return whether it came to one, or None is to come after it."""
        worker, lost = None, None
        try:
            name = f"{self._supply.name}-worker-{number + 1}-{life + 1}"
            worker = actor(Worker, self._posts[number].node, self._job(number, life), name=name)
            folders = await asyncio.wait_for(self._books.collect(worker), START_S)
            await self._take_place(number, life)
            if not self._shared.shutdown.stopped:
                begun = worker.begin.remote(self._supply.coordinator)
                refuse(await asyncio.wait_for(begun, START_S))
                self._supply.workers[number] = worker
                await self._listen(number, life, worker)
            await worker.close.remote(folders)
        except SvrError as error:
            self._shared.shutdown.fail(error)
        except (lost_error(), TimeoutError) as error:
            lost = error
            if lacks_us(error):
                told = f"--ray: svr-async cannot be loaded on {self._posts[number].machine}"
                self._shared.shutdown.fail(UsageError(told, hint=f"{HINT} on every machine, the same version"))
        self._came(number)
        self._supply.workers.pop(number, None)
        self._shared.bench.told.end((number, life))
        kill(worker)
        return await self._bury(number, life, lost)

    async def _take_place(self, number: int, life: int) -> None:
        """Wait until all have handed over what was left, and a coordinator is there; take over from an earlier life."""
        self._came(number)
        await self._supply.opened.wait()
        if life:
            self._count_drawn(number, life - 1, await self._supply.forget(number))

    async def _bury(self, number: int, life: int, lost: Exception | None) -> bool:
        """Give up a worker that has ended, or that nobody comes after; return whether that is so."""
        post = self._posts[number]
        if lost is not None:
            why = f" ({type(lost).__name__}: {lost})" if os.environ.get("SVR_TRACE") else ""
            told = f"worker {number + 1} of {len(self._posts)}, on {post.machine}, was lost{why}; what it held goes on"
            self._shared.listener.note(told)
        gone = lost is not None and not await asyncio.to_thread(is_alive, post.node)
        if lost is not None and not gone and life < LIVES - 1:
            return False
        if gone:
            await asyncio.sleep(LEASE_S)  # cut off from us it may live on, until its lease ends
        if self._supply.opened.is_set():
            drawn = await self._supply.forget(number)
            if lost is not None:
                self._count_drawn(number, life, drawn)
        return lost is None or gone

    def _came(self, number: int) -> None:
        self._yet_to_come.discard(number)
        if not self._yet_to_come:
            self._all_came.set()

    async def _listen(self, number: int, life: int, worker: Any) -> None:
        """Take the reports of a worker until its last."""
        places, ended = range(len(self._shared.run.record.pairs)), False
        while not ended:
            data, rows = await worker.report.remote()
            message = orjson.loads(data)
            await self._books.enter(rows, message)
            self._supply.drawn[number] = (message["drawn"][0], message["drawn"][1])
            for word in message["words"]:
                hear_report(self._shared, (number, life), {"word": word}, places)
            ended = hear_report(self._shared, (number, life), message, places)

    def _count_drawn(self, number: int, life: int, drawn: tuple[int, float]) -> None:
        """Count as spent all that a worker had drawn that was killed: what it sent last, nobody was told."""
        reports = self._shared.bench.told.reports
        report = reports.setdefault((number, life), report_of(None, [], None, ended=False))
        report["calls"] = max(report["calls"], drawn[0])
        report["untold_usd"] = max(report["untold_usd"], drawn[1] - report["usd"])

    def _job(self, number: int, life: int) -> bytes:
        run, post = self._shared.run, self._posts[number]
        cache = run.settings.limits.cache
        return orjson.dumps({
            "settings": to_plain(run.settings),
            "identity": digests_of(run),
            "cwd": str(Path.cwd()),
            "cache": None if cache == user_cache() / "replies" else str(cache.absolute()),
            "machine": post.machine,
            "number": post.number,
            "count": post.count,
            "worker": number,
            "workers": len(self._posts),
            "life": life,
            "variables": {name: os.environ[name] for name in variables_of(run) if name in os.environ},
            **self._books.told(),
        })  # fmt: skip


class _Books:
    """What this process keeps of what workers learn: replies, final failures, and what endpoints refuse."""

    def __init__(self, run: Prepared, cache: Cache) -> None:
        self._cache, self._path = cache, run.folder / FAILURES
        self._log = FailureLog(self._path, forget=True)
        self._cures = cache.folder / CURES
        forgotten = run.settings.limits.retry_errors and self._path.exists()
        self._begins = self._path.stat().st_size if forgotten else 0

    @property
    def blank(self) -> bool:
        """Whether nothing is known yet."""
        return next(iter(self._cache.keys()), None) is None and not self.told()["failures"]

    def told(self) -> dict[str, str]:
        """Return what a worker has to know, as its files have it."""
        failures = self._path.read_bytes()[self._begins :] if self._path.exists() else b""
        cures = self._cures.read_bytes() if self._cures.exists() else b"[]"
        return {"failures": failures.decode("utf-8", "replace"), "cures": cures.decode("utf-8", "replace")}

    async def enter(self, rows: Sequence[tuple[bytes, bytes]], message: dict[str, Any]) -> None:
        """Commit what a report brings."""
        await take_rows(self._cache, rows)
        for line in message["failures"].splitlines():
            with contextlib.suppress(ValueError, KeyError):
                value = orjson.loads(line)
                self._log.add(value["key"], Outcome(value["outcome"]), value["detail"])
        add_cures(self._cures, message["cures"].encode())

    async def collect(self, worker: Any) -> list[str]:
        """Take what earlier workers have left on a worker's machine; return the folders that hold nothing new then."""
        problem, left = await worker.left.remote()
        refuse(problem)
        for folder, keys in left.items():
            missing = lacking(self._cache, keys)
            for first in range(0, len(missing), AT_ONCE):
                await take_rows(self._cache, await worker.rows.remote(folder, missing[first : first + AT_ONCE]))
        return list(left)


def refuse(problem: bytes) -> None:
    """Raise the error that a worker has sent, if it has sent one."""
    error = error_from(orjson.loads(problem)) if problem else None
    if error is not None:
        raise error


def _cache_of(shared: SharedRun) -> Cache:
    engine = shared.bench.sending[0].engine
    assert engine is not None
    return engine.cache
