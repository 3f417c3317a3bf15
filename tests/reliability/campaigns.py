"""What is done to whole runs of `svr eval`, in any size: faults, outages, restarts, signals, refusals, several at once.

Each campaign starts real processes, waits for them and returns the figures; the invariants are asserted on the way.
"""

from __future__ import annotations

import asyncio
import signal
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import orjson
from checker import Account, check, read_history
from rig import background, name_judge, sim_process, svr, wait_until, write_bench

from svr_async.engine.caller import EngineConfig
from svr_async.simulation.history import CallRecord

HOUR = 3600.0


def flags(out: str, *, method: str = "vanilla", concurrency: int = 64, cache: str = "cache") -> tuple[str, ...]:
    """Return the command of a run."""
    return ("eval", "rubricbench", "--data", "bench.jsonl", "--judge", "sim", "--method", method, "--audit", "0",
            "-q", "--out", out, "--cache", cache, "--concurrency", str(concurrency))  # fmt: skip


def stats(url: str) -> dict[str, Any]:
    """Ask the simulated endpoint for its counts."""
    with urllib.request.urlopen(f"{url.removesuffix('/v1')}/sim/stats", timeout=60) as reply:
        found: dict[str, Any] = orjson.loads(reply.read())
    return found


@contextmanager
def endpoint(folder: Path, name: str, *args: str, wire: str = "openai") -> Iterator[tuple[str, Path]]:
    """Serve an endpoint in a process of its own and name it as the judge; yields its URL and its call log."""
    log = folder / f"{name}.jsonl"
    with sim_process(folder, *args, "--log", str(log)) as url:
        name_judge(folder, url, wire=wire)
        yield url, log


def smooth(folder: Path, pairs: int, method: str, wire: str = "openai") -> Path:
    """Run once without any fault; return the run folder."""
    write_bench(folder / "bench.jsonl", pairs)
    with endpoint(folder, "smooth", wire=wire):
        done = svr(*flags("smooth", method=method, concurrency=256, cache="cache-smooth"), cwd=folder, timeout=HOUR)
        assert done.returncode == 0, done.stderr
    return folder / "smooth"


def faults(
    folder: Path,
    reference: Path,
    *,
    method: str,
    rate: float,
    kinds: str,
    concurrency: int,
    wire: str = "openai",
    **env: str,
) -> Account:
    """Run with so many faulty calls: the items are the same, and each call is accounted for exactly (P4, P18)."""
    drawn = ("--fault-rate", str(rate), "--faults", kinds)
    with endpoint(folder, "faulty", *drawn, wire=wire) as (_, log):
        done = svr(*flags("faulty", method=method, concurrency=concurrency), cwd=folder, timeout=HOUR, **env)
        assert done.returncode == 0, done.stderr
        history = read_history(log)
    metrics = orjson.loads((folder / "faulty" / "metrics.json").read_bytes())
    assert metrics["n_scored"] == metrics["n_total"]
    calls = metrics["calls"]
    run = folder / "faulty"
    return check(history, folder / "cache", run, reference=reference, sent=calls["sent"], lost=calls["lost"])


def outages(
    folder: Path, reference: Path, *, method: str, concurrency: int, at: Sequence[str], latency_ms: int
) -> float:
    """Run while the endpoint goes away and comes back by itself; return the seconds that the run took."""
    away = [part for outage in at for part in ("--outage", outage)]
    with endpoint(folder, "outages", "--latency-ms", str(latency_ms), *away) as (_, log):
        begun = time.monotonic()
        command = flags("outages", method=method, concurrency=concurrency, cache="cache-outages")
        done = svr(*command, cwd=folder, timeout=HOUR)
        took_s = time.monotonic() - begun
        assert done.returncode == 0, done.stderr
        history = read_history(log)
    cut = sum(record.fault == "client-left" for record in history)
    check(history, folder / "cache-outages", folder / "outages", reference=reference,
          in_flight_at_kills=len(at) * EngineConfig(concurrency=concurrency).workers + cut)  # fmt: skip
    return took_s


def stopped(folder: Path, *, in_flight: int, latency_ms: int, share: float = 1.0) -> dict[str, float]:
    """Stop a run by SIGTERM with a share of so many calls in flight; return the seconds to its end, what was kept."""
    with endpoint(folder, "stopped", "--latency-ms", str(latency_ms)) as (url, _):
        with background(*flags("stopped", concurrency=in_flight, cache="cache-stopped"), cwd=folder) as process:
            wait_until(lambda: stats(url)["in_flight"] >= share * in_flight, limit_s=120)
            begun = time.monotonic()
            process.send_signal(signal.SIGTERM)
            _, errors = process.communicate(timeout=120)
            took_s = time.monotonic() - begun
        completed = stats(url)["completed"]
    assert process.returncode == 143, errors
    assert "run the same command to go on" in errors
    metrics = orjson.loads((folder / "stopped" / "metrics.json").read_bytes())
    assert metrics["complete"] is False
    return {"seconds": round(took_s, 2), "judged": metrics["n_total"], "completed": completed}


def refused(
    folder: Path, kind: str, *, concurrency: int, paid: int, latency_ms: int, rate: float = 0.1
) -> dict[str, float]:
    """Run until the endpoint refuses for good; return the calls after the first refusal, and the seconds to the end."""
    args = ["--latency-ms", str(latency_ms)]
    drawn = ["--faults", kind, "--fault-rate", str(rate), "--max-faulty", "99"]
    args += ["--quota", str(paid)] if kind == "quota" else drawn
    with endpoint(folder, f"refused-{kind}", *args) as (_, log):
        with background(
            *flags(f"refused-{kind}", concurrency=concurrency, cache=f"cache-{kind}"), cwd=folder
        ) as process:
            wait_until(lambda: _first_fatal(log) is not None or process.poll() is not None, limit_s=120)
            begun = time.monotonic()
            _, errors = process.communicate(timeout=120)
            took_s = time.monotonic() - begun
        history = read_history(log)
    assert process.returncode == 4, errors
    first = _first_fatal(log)
    assert first is not None
    further = sum(record.t > first.t for record in history)
    return {"further_calls": further, "seconds": round(took_s, 2), "concurrency": concurrency}


def _first_fatal(log: Path) -> CallRecord | None:
    """Return the first call that was refused for good, once there is one."""
    history = read_history(log) if log.exists() else []
    return next((record for record in history if record.status == 401 or "quota" in record.fault), None)


def together(folder: Path, reference: Path, *, processes: int, concurrency: int) -> Account:
    """Start several runs at once on one cache: each ends with the same items; return the account of all their calls."""
    with endpoint(folder, "together", "--latency-ms", "20") as (_, log):
        with ExitStack() as stack:
            running = [
                stack.enter_context(
                    background(*flags(f"together-{n}", concurrency=concurrency, cache="cache-together"), cwd=folder)
                )
                for n in range(processes)
            ]
            for process in running:
                _, errors = process.communicate(timeout=HOUR)
                assert process.returncode == 0, errors
        history = read_history(log)
    for number in range(processes):
        items = (folder / f"together-{number}" / "items.jsonl").read_bytes()
        assert items == (reference / "items.jsonl").read_bytes()
    run = folder / "together-0"
    return check(history, folder / "cache-together", run, reference=reference)


async def lag_while(work: Any, *, every_s: float = 0.005) -> list[float]:
    """Await some work and return how late the event loop woke a sleeper, again and again, in milliseconds."""
    late: list[float] = []

    async def probe() -> None:
        while True:
            begun = time.perf_counter()
            await asyncio.sleep(every_s)
            late.append(1000 * (time.perf_counter() - begun - every_s))

    task = asyncio.create_task(probe())
    try:
        await work
    finally:
        task.cancel()
    return sorted(late)
