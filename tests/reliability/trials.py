"""One run of `svr eval` that something happens to, and the run after it: what each must come to, whatever happened."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import orjson
from checker import Account, Moment, check, moment
from nursery import Ended, Nursery, Strike
from rig import name_judge, serving, write_bench

from svr_async.engine.caller import EngineConfig
from svr_async.simulation.config import SimConfig
from svr_async.simulation.server import SimServer

CONCURRENCY = 8
STORAGE = 5
KILLED = -9


@dataclass(slots=True)
class Tally:
    """What a campaign of trials came to."""

    trials: int = 0
    killed: int = 0
    failed: int = 0
    untouched: int = 0
    cut_off: int = 0
    dropped: int = 0
    codes: Counter[int] = field(default_factory=Counter)

    def add(self, first: Ended, found: Account) -> None:
        """Count one trial: how its first process ended, and what it cost."""
        self.trials += 1
        self.killed += first.code == KILLED
        self.failed += first.code not in {0, KILLED}
        self.untouched += first.code == 0
        self.cut_off += found.cut_off
        self.codes[first.code] += 1

    def __iadd__(self, other: Tally) -> Self:
        """Add the counts of another campaign."""
        for name in ("trials", "killed", "failed", "untouched", "cut_off"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.codes += other.codes
        return self


@dataclass(frozen=True, slots=True)
class Site:
    """An endpoint, a nursery, and a folder with pairs in which each trial gets a place of its own."""

    folder: Path
    server: SimServer
    nursery: Nursery
    method: str = "self-rubric"
    wire: str = "openai"
    concurrency: int = CONCURRENCY

    @property
    def reference(self) -> Path:
        """The run folder of the run without a fault."""
        return self.folder / "smooth" / "run"

    @property
    def under_way(self) -> int:
        """Questions that may be under way at once, whose replies are in flight or being committed."""
        return EngineConfig(concurrency=self.concurrency).workers

    def flags(self) -> tuple[str, ...]:
        """The command of every trial."""
        return ("eval", "rubricbench", "--data", "../bench.jsonl", "--judge", "sim", "--method", self.method,
                "--out", "run", "--cache", "cache", "-q", "--concurrency", str(self.concurrency))  # fmt: skip

    def place(self, name: str) -> Path:
        """Return an empty folder for a trial, with the endpoint's history forgotten."""
        folder = self.folder / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        name_judge(folder, self.server.base_url, wire=self.wire)
        self.server.reset()
        return folder

    def run(self, place: Path, *, kill_after_s: float = 0.0, strike: Strike | None = None) -> Ended:
        """Run the command there."""
        return self.nursery.run(*self.flags(), cwd=place, kill_after_s=kill_after_s, strike=strike)

    def finish(self, place: Path, moments: list[Moment], cost: int) -> Account:
        """Run to the end: exit 0 without help, the items of the run without a fault, and every call accounted for."""
        done = self.run(place)
        assert done.code == 0, f"{place}: exit {done.code} after {done.seconds:.0f} s, CPU {done.cpu_s:.1f}: {done.err}"
        calls = orjson.loads((place / "run" / "metrics.json").read_bytes())["calls"]
        found = check(
            self.server.log(), place / "cache", place / "run",
            reference=self.reference, moments=moments, in_flight_at_kills=cost,
            sent=None if moments else calls["sent"], lost=calls["lost"],
        )  # fmt: skip
        shutil.rmtree(place)
        return found

    def moment(self, place: Path) -> Moment:
        """Note what is certain after a process has ended, once the endpoint has noticed that it did."""
        quiet(self.server)
        return moment(self.server.log(), place / "cache")


def quiet(server: SimServer) -> None:
    """Wait until no call is under way at the endpoint."""
    from rig import wait_until

    wait_until(lambda: server.service.history.in_flight == 0)


@contextmanager
def open_site(
    folder: Path,
    nursery: Nursery,
    *,
    pairs: int = 20,
    config: SimConfig | None = None,
    method: str = "self-rubric",
    wire: str = "openai",
) -> Iterator[Site]:
    """Serve an endpoint and run once without a fault; further runs are compared with that one."""
    folder.mkdir(parents=True, exist_ok=True)
    write_bench(folder / "bench.jsonl", pairs)
    with serving(config) as server:
        site = Site(folder, server, nursery, method, wire)
        smooth = site.place("smooth")
        done = site.run(smooth)
        assert done.code == 0, done.err
        yield site


def killed_at_random(site: Site, seeds: Iterable[int], *, longest_s: float, kills: int = 1) -> Tally:
    """Kill a run at random moments (`kills` times in a row), then let it finish; return what it came to."""
    tally = Tally()
    for seed in seeds:
        rng = random.Random(seed)
        place, moments, first = site.place(f"kill-{seed}"), [], None
        for _ in range(kills):
            ended = site.run(place, kill_after_s=rng.uniform(0.01, longest_s))
            assert ended.code in {0, KILLED}, f"seed {seed}: exit {ended.code}: {ended.err}"
            first = first or ended
            moments.append(site.moment(place))
        assert first is not None
        tally.add(first, site.finish(place, moments, kills * site.under_way))
    return tally


def struck(site: Site, strikes: Iterable[Strike], *, codes: Iterable[int]) -> Tally:
    """Run with each fault of the disk or kill in turn; the exit code is one of `codes`, and the next run completes.

    The places of the strikes are filled in here. Where the run came to its end untouched, its code is 0.
    """
    tally, allowed = Tally(), {0, *codes}
    for number, strike in enumerate(strikes):
        place = site.place(f"struck-{number}")
        ended = site.run(place, strike=Strike(**{**_fields(strike), "under": place}))
        assert ended.code in allowed, f"{strike}: exit {ended.code}: {ended.err}"
        assert ended.err.count("\n") == (ended.code > 0), f"{strike}: {ended.err}"
        moments = [site.moment(place)]
        tally.add(ended, site.finish(place, moments, site.under_way))
    return tally


def _fields(strike: Strike) -> dict[str, Any]:
    return {name: getattr(strike, name) for name in ("operation", "nth", "times", "error", "mode")}


def power_cuts(site: Site, seeds: Iterable[int], *, longest_s: float) -> Tally:
    """Kill at random moments and throw away what was appended to any file since its last sync, as a power cut may."""
    tally = Tally()
    for seed in seeds:
        place = site.place(f"cut-{seed}")
        trace = site.folder / f"trace-{seed}"
        strike = Strike(under=place, trace=str(trace))
        after_s = random.Random(seed).uniform(0.02, longest_s)
        ended = site.run(place, kill_after_s=after_s, strike=strike)
        assert ended.code in {0, KILLED}, f"seed {seed}: exit {ended.code}: {ended.err}"
        lost = _drop_unsynced(place, trace)
        moments = [site.moment(place)]
        tally.add(ended, site.finish(place, moments, site.under_way))
        tally.dropped += lost
    return tally


def _drop_unsynced(place: Path, trace: Path) -> int:
    """Cut every file back to the size of its last sync; return the bytes that went."""
    if not trace.exists():  # no sync yet
        return 0
    lines = trace.read_text().splitlines()
    safe = {path: int(size) for size, path in (line.split(" ", 1) for line in lines)}
    dropped = 0
    for path in place.rglob("cache.db-wal"):
        size = path.stat().st_size
        keep = min(size, safe.get(str(path.resolve()), 0))
        with path.open("r+b") as file:
            file.truncate(keep)
        dropped += size - keep
    return dropped
