"""A worker process of a run: it judges a share of the pairs, so that their replies are in the cache, and reports.

It reads its job from standard input, a line of JSON, then waits there for a word to stop. When its input ends, the
process that started it is gone, and so it ends too, after what is under way. Reports are lines of JSON on its output.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import orjson

from svr_async.engine.concurrency import ShutdownController, run_whole
from svr_async.engine.events import Notice
from svr_async.errors import SvrError
from svr_async.evaluation.run import judge_pairs
from svr_async.evaluation.running.bench import Bench, evaluation_of, open_bench
from svr_async.evaluation.running.prepared import prepare
from svr_async.evaluation.running.processes import QUICKLY, report_of
from svr_async.evaluation.running.settings import EvalSettings, from_plain
from svr_async.observability.session import watching_as_told

REPORT_S = 0.2
INPUT = 0


def main() -> None:
    """Do the job on standard input; what a library prints goes to standard error, for reports have the output."""
    output = os.dup(1)
    os.dup2(2, 1)
    job = orjson.loads(_first_line())
    with watching_as_told(_silent):
        run_whole(_do(replace(from_plain(job["settings"]), out=Path(job["folder"])), output))


def _silent(_: str) -> None:
    """Say nothing: what a log or an exporter has to say, the parent says."""


def _first_line() -> bytes:
    """Read a line byte by byte, so that nothing of what follows is taken."""
    line = bytearray()
    while not line.endswith(b"\n") and (byte := os.read(INPUT, 1)):
        line += byte
    return bytes(line)


@dataclass(slots=True)
class _Voice:
    """What is to be reported. Its output never blocks: a parent that is held up holds up nothing here."""

    output: int
    done: list[int] = field(default_factory=list)
    bench: Bench | None = None
    unsaid: bytearray = field(default_factory=bytearray)

    def say(self, message: Mapping[str, Any]) -> None:
        self.unsaid += orjson.dumps(message) + b"\n"
        with contextlib.suppress(BlockingIOError, BrokenPipeError):
            del self.unsaid[: os.write(self.output, self.unsaid)]

    def hear(self, word: Notice) -> None:
        self.say({"word": [word.about, word.text]})

    def report(self, error: SvrError | None = None, *, ended: bool = False) -> None:
        done, self.done = self.done, []
        self.say(report_of(self.bench, done, error, ended=ended))

    def finish(self) -> None:
        """Say what is still unsaid, waiting for the parent to take it."""
        os.set_blocking(self.output, True)
        with contextlib.suppress(BrokenPipeError):
            while self.unsaid:
                del self.unsaid[: os.write(self.output, self.unsaid)]


async def _do(settings: EvalSettings, output: int) -> None:
    os.set_blocking(output, False)
    voice, shutdown = _Voice(output), ShutdownController()
    error: SvrError | None = None
    try:
        await _judge_share(settings, voice, shutdown)
    except SvrError as problem:
        error = problem
    voice.report(error or shutdown.error, ended=shutdown.signal == 0)
    voice.finish()


async def _judge_share(settings: EvalSettings, voice: _Voice, shutdown: ShutdownController) -> None:
    run = prepare(settings)
    bench = voice.bench = await open_bench(run)
    try:
        evaluation = evaluation_of(run, bench)
        for engine in evaluation.engines:
            engine.tell(voice.hear)
        with _listening(shutdown):
            reporting = asyncio.create_task(_report_now_and_then(voice))
            try:
                await judge_pairs(evaluation, shutdown, lambda place, _: voice.done.append(place))
            finally:
                reporting.cancel()
    finally:
        await bench.close()


async def _report_now_and_then(voice: _Voice) -> None:
    while True:
        await asyncio.sleep(REPORT_S)
        voice.report()


@contextlib.contextmanager
def _listening(shutdown: ShutdownController) -> Iterator[None]:
    """Drain when the parent says so, when it is gone, or at a signal; at the second time end at once."""
    loop = asyncio.get_running_loop()

    def stop(number: int) -> None:
        if shutdown.stopped:
            os._exit(128 + number)
        shutdown.interrupt(number)

    def hear() -> None:
        word = os.read(INPUT, 4096)
        if not word:
            loop.remove_reader(INPUT)
            stop(signal.SIGHUP)
        elif word.startswith(QUICKLY):
            shutdown.fail(SvrError("another process of this run has stopped it"))
        else:
            shutdown.interrupt(signal.SIGTERM)

    loop.add_reader(INPUT, hear)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, stop, number)
    try:
        yield
    finally:
        loop.remove_reader(INPUT)
