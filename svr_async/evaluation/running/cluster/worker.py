"""A worker of a run on a cluster, an actor with an engine for each judge, as the driver talks with it.

Replies are committed in its own cache first, and handed over with its reports, in which a pair counts as judged no
earlier than the replies for it. A piece of work is held until the driver has taken the report of its last pair.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson

from svr_async.engine.cache_place import cache_place
from svr_async.engine.fallbacks import FILE as CURES
from svr_async.engine.fallbacks import add_cures
from svr_async.errors import SvrError, UsageError
from svr_async.evaluation.running.bench import Bench, evaluation_of, open_bench
from svr_async.evaluation.running.cluster.judging import Judging
from svr_async.evaluation.running.cluster.outbox import Rows, clear, keys_in, left_behind, outbox_place, rows_in
from svr_async.evaluation.running.prepared import Prepared, prepare
from svr_async.evaluation.running.processes import error_to_json, report_of
from svr_async.evaluation.running.settings import from_plain
from svr_async.evaluation.running.shards import differing, digests_of

REPORT_S = 0.2
MOST_ROWS = 4096  # in one report
FAILURES = "failures.jsonl"
ALIKE = "data, bank, prompts, judges.toml and version have to be the same on all machines"


class Worker:
    """The driver calls `left` and `rows`, then `begin`, then `report` until one says `ended`, then `close`."""

    def __init__(self, job: bytes) -> None:
        self._job = orjson.loads(job)
        self._folder = Path()
        self._bench: Bench | None = None
        self._judging: Judging | None = None
        self._told: list[int] = []  # in the last report, which is taken when the next is asked for
        self._failures_read = 0
        self._task: asyncio.Task[None] | None = None

    async def left(self) -> tuple[bytes, dict[str, list[bytes]]]:
        """Make ready; return an error as JSON or nothing, and the keys of all replies on this machine, by folder."""
        job = self._job
        with contextlib.suppress(OSError):
            os.chdir(job["cwd"])  # where the command was given, if there is such a folder here
        os.environ.update(job["variables"])
        cache = Path(job["cache"] or cache_place().absolute())
        self._folder = outbox_place(cache, job["machine"], job["number"])
        try:
            folders = left_behind(cache, job["machine"], job["number"], job["count"])
            return b"", {str(folder): keys_in(folder) for folder in folders}
        except SvrError as error:
            return orjson.dumps(error_to_json(error)), {}

    async def rows(self, folder: str, keys: list[bytes]) -> Rows:
        """Return rows of a folder that `left` has named."""
        return rows_in(Path(folder), keys)

    async def begin(self, coordinator: Any) -> bytes:
        """Open the judges and begin to judge; return an error as JSON, or nothing."""
        try:
            run = self._prepare()
            bench = self._bench = await open_bench(run)
        except SvrError as error:
            return orjson.dumps(error_to_json(error))
        who = {"number": self._job["worker"], "count": self._job["workers"], "life": self._job["life"]}
        self._judging = Judging(bench, evaluation_of(run, bench), coordinator, **who)
        self._task = asyncio.create_task(self._judging.run())
        return b""

    def _prepare(self) -> Prepared:
        """Read what the driver has read; UsageError where it is something else here."""
        settings, folder = from_plain(self._job["settings"]), self._folder / "run"
        calls, usd = settings.limits.max_calls, settings.limits.budget  # they are drawn of the run's, bit by bit
        limits = replace(
            settings.limits,
            cache=self._folder,
            max_calls=None if calls is None else 0,
            budget=None if usd is None else 0.0,
            retry_errors=False,  # the driver tells which are known
        )
        run = prepare(replace(settings, limits=limits, out=folder, processes=1, ray=None))
        if other := differing(digests_of(run), self._job["identity"]):
            raise UsageError(f"on {self._job['machine']} the run differs in {', '.join(other)}", hint=ALIKE)
        folder.mkdir(parents=True, exist_ok=True)
        add_cures(self._folder / CURES, self._job["cures"].encode())
        (folder / FAILURES).write_bytes(known := self._job["failures"].encode())
        self._failures_read = len(known)
        return run

    async def report(self) -> tuple[bytes, Rows]:
        """Return, after a moment, a report as JSON and the replies since the last one, which the driver has taken."""
        judging = self._judging
        assert judging is not None
        judging.let_go(self._told)
        if not judging.ended:
            await asyncio.sleep(REPORT_S)
        ended, rows = judging.ended, judging.some_kept(MOST_ROWS)
        ended = ended and not judging.kept
        self._told, judging.done = ([], judging.done) if judging.kept else (judging.done, [])
        words, judging.words[:] = [(word.about, word.text) for word in judging.words], []
        report = report_of(self._bench, self._told, judging.shutdown.error if ended else None, ended=ended)
        files = {"failures": self._new_failures(), "cures": self._cures()}
        return orjson.dumps(report | files | {"words": words, "drawn": judging.drawn}), rows

    def _new_failures(self) -> str:
        with (self._folder / "run" / FAILURES).open("rb") as file:
            file.seek(self._failures_read)
            data = file.read()
        data = data[: data.rfind(b"\n") + 1]
        self._failures_read += len(data)
        return data.decode()

    def _cures(self) -> str:
        with contextlib.suppress(OSError):
            return (self._folder / CURES).read_text("utf-8")
        return "[]"

    async def follow(self, coordinator: Any) -> None:
        """Take up with another coordinator."""
        if self._judging is not None:
            self._judging.coordinator = coordinator

    async def stop(self, quickly: bool) -> None:
        """Begin nothing more, and end soon."""
        if self._judging is not None:
            self._judging.stop(quickly=quickly)

    async def close(self, folders: list[str]) -> None:
        """Close the judges; these folders hold nothing that is not in the driver's cache, and go."""
        if self._bench is not None:
            await self._bench.close()
        for folder in folders:
            clear(Path(folder))
