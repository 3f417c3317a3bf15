"""`svr serve` killed at random moments while clients ask: what it had answered is kept, and answered again unpaid."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from subprocess import Popen

from checker import Moment, check, moment
from forks import Forked
from rig import background, name_judge, pairs
from trials import KILLED, quiet

from svr_async.engine.caller import EngineConfig
from svr_async.simulation.server import SimServer
from svr_async.vocabulary.pair import prompt_text

CONCURRENCY = 8
FLAGS = ("serve", "--judge", "sim", "--listen", "0", "--cache", "cache", "--concurrency", str(CONCURRENCY))


@dataclass(slots=True)
class ServeTally:
    """What the kills of a server came to: `answered` replies had reached a client when it was killed."""

    killed: int = 0
    answered: int = 0
    cut_off: int = 0
    paid_again: int = 0
    codes: list[int] = field(default_factory=list)


@contextmanager
def served(place: Path) -> Iterator[tuple[Forked | Popen[str], int]]:
    """Start the server in a folder; yields the process and its port."""
    with background(*FLAGS, cwd=place) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert " at http" in line, line
        yield process, int(line.split(" at ")[1].split()[0].rpartition(":")[2])


def asked(port: int, bodies: Sequence[bytes], answers: dict[int, bytes]) -> None:
    """Ask everything that has no answer yet, so many at a time; what the server's end cut off has none after it."""

    def one(number: int) -> None:
        line = HTTPConnection("127.0.0.1", port, timeout=30)
        try:
            line.request("POST", "/v1/svr/compare", bodies[number], {"Content-Type": "application/json"})
            reply = line.getresponse()
            if reply.status == 200:
                answers[number] = reply.read()
        except (OSError, HTTPException):
            pass
        finally:
            line.close()

    with ThreadPoolExecutor(CONCURRENCY) as pool:
        list(pool.map(one, [number for number in range(len(bodies)) if number not in answers]))


def questions(count: int) -> list[bytes]:
    """Return bodies that ask for planted pairs."""
    return [
        json.dumps({"prompt": prompt_text(pair.prompt), "a": pair.response_a, "b": pair.response_b}).encode()
        for pair in pairs(count)
    ]


def serve_killed(server: SimServer, folder: Path, seeds: Sequence[int], *, longest_s: float, count: int) -> ServeTally:
    """Kill a server once for each seed, start another on the same cache, and compare with one that was never killed."""
    tally, bodies, whole = ServeTally(), questions(count), dict[int, bytes]()
    with served(_place(server, folder / "whole")) as (_, port):
        asked(port, bodies, whole)
    assert len(whole) == count
    for seed in seeds:
        place, answers = _place(server, folder / f"kill-{seed}"), dict[int, bytes]()
        with served(place) as (process, port):
            killer = threading.Thread(target=_kill, args=(process, random.Random(seed).uniform(0.0, longest_s)))
            killer.start()
            asked(port, bodies, answers)
            killer.join()
            tally.codes.append(process.wait(30))
        quiet(server)
        before = moment(server.log(), place / "cache")
        _finish(server, place, bodies, answers, whole, before, tally)
    return tally


def _finish(
    server: SimServer, place: Path, bodies: Sequence[bytes], answers: dict[int, bytes], whole: dict[int, bytes],
    before: Moment, tally: ServeTally,
) -> None:  # fmt: skip
    """Ask again what was answered, for which nothing may be paid, then the rest; every answer is that of no kill."""
    again, paid = dict[int, bytes](), server.stats()["paid"]
    with served(place) as (_, port):
        asked(port, [bodies[number] for number in sorted(answers)], again)
        assert server.stats()["paid"] == paid, "what had been answered was paid for again"
        assert [again[place] for place in sorted(again)] == [answers[number] for number in sorted(answers)]
        tally.answered += len(answers)
        asked(port, bodies, answers)
    assert answers == whole
    workers = EngineConfig(concurrency=CONCURRENCY).workers
    found = check(server.log(), place / "cache", moments=[before], in_flight_at_kills=workers)
    tally.killed += tally.codes[-1] == KILLED
    tally.cut_off += found.cut_off
    tally.paid_again += found.paid_again


def _kill(process: Forked | Popen[str], after_s: float) -> None:
    time.sleep(after_s)
    process.kill()


def _place(server: SimServer, folder: Path) -> Path:
    folder.mkdir(parents=True)
    name_judge(folder, server.base_url)
    server.reset()
    return folder
