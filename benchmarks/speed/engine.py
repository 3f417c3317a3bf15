"""Our whole engine beside raw aiohttp and other clients, in one run: client CPU a call, answers a second, ratios.

    python benchmarks/speed/engine.py                                   about six minutes
    python benchmarks/speed/engine.py --quick                           half a minute
    python benchmarks/speed/engine.py --peers-env DIR --plot FILE.svg   with peers (see peers/make_envs.py), and a plot

A server that costs next to nothing runs on the last core, each client as a process of its own on the first, in turn and
repeatedly; medians, and of ratios the median of those of neighbouring runs. The main figure is the CPU time of the
client process, which other work on the machine disturbs least. "Ours" is the whole engine: a look in the cache, the
call, the verdict parsed and checked, the reply on disk with fsync before it is handed over, counts. "aiohttp task"
sends the same bodies with a task a call and keeps nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chart import Line, svg
from targets import Figure, hand_over

HERE = Path(__file__).resolve().parent
RAW, POOL, OURS, HIT = "aiohttp task", "aiohttp pool", "ours", "ours, cache hit"
SDK = "OpenAI SDK, aiohttp"
CORES = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [0, 1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One setting: latency of the server, calls in flight, calls in all, how often it is repeated."""

    latency_ms: int
    in_flight: int
    calls: int
    repeats: int


CELLS = (
    Cell(latency_ms=0, in_flight=64, calls=6000, repeats=7),
    Cell(latency_ms=0, in_flight=512, calls=6000, repeats=5),
    Cell(latency_ms=0, in_flight=4096, calls=24576, repeats=3),
    Cell(latency_ms=50, in_flight=64, calls=1920, repeats=1),
    Cell(latency_ms=50, in_flight=512, calls=6144, repeats=1),
    Cell(latency_ms=50, in_flight=4096, calls=16384, repeats=1),
    Cell(latency_ms=1000, in_flight=64, calls=192, repeats=1),
    Cell(latency_ms=1000, in_flight=512, calls=1536, repeats=1),
    Cell(latency_ms=1000, in_flight=4096, calls=32768, repeats=3),
)
QUICK = (
    Cell(latency_ms=0, in_flight=64, calls=2000, repeats=1),
    Cell(latency_ms=50, in_flight=512, calls=2048, repeats=1),
)
PEER_CELLS = {(0, 64): 1000, (0, 512): 1000, (50, 512): 1000}
PEER_REPEATS = {SDK: 3}  # it has a target


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """A program to run: its name in the tables, file, Python and flags."""

    name: str
    file: str
    python: str = sys.executable
    way: str = ""

    def command(self, url: str, cell: Cell, run: str, cap: float) -> list[str]:
        flags = {"url": url, "calls": cell.calls, "in-flight": cell.in_flight, "cap": cap, "core": CORES[0]}
        named = [f"--{name}={value}" for name, value in (flags | {"run": run, "way": self.way}).items()]
        return [self.python, str(HERE / self.file), *named]


OWN = (
    Client(name=RAW, file="client_aiohttp.py", way="task"),
    Client(name=POOL, file="client_aiohttp.py", way="pool"),
    Client(name=OURS, file="client_ours.py"),
)
EXTRA = (
    Client(name="ours on aiohttp", file="client_ours.py", way="aiohttp"),
    Client(name="ours on uvloop", file="client_ours.py", way="uvloop"),
    Client(name="aiohttp task on uvloop", file="client_aiohttp.py", way="task+uvloop"),
)
PEERS = (
    ("openai", SDK, "peers/openai_sdk.py", "aiohttp"),
    ("openai", "OpenAI SDK, httpx", "peers/openai_sdk.py", "httpx"),
    ("curator", "curator", "peers/curator_sdk.py", ""),
    ("litellm", "litellm", "peers/litellm_sdk.py", ""),
    ("inspect_ai", "inspect_ai", "peers/inspect_sdk.py", ""),
)


@contextmanager
def server(*flags: str) -> Iterator[str]:
    """Run the fast server on the last core; yields its base URL."""
    command = [sys.executable, str(HERE / "fast_server.py"), f"--core={CORES[-1]}", *flags]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        process.wait()


def results(client: Client, url: str, cell: Cell, run: str, cap: float) -> list[dict[str, Any]]:
    """Run a client once; its rows, none where it failed."""
    try:
        done = subprocess.run(
            client.command(url, cell, run, cap), capture_output=True, text=True, timeout=cap + 40, check=False
        )
    except subprocess.TimeoutExpired:
        print(f"  {client.name}: not done in time", flush=True)
        return []
    rows = [json.loads(line[7:]) for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    if not rows:
        print(f"  {client.name}: failed: {done.stderr.strip()[-300:]}", flush=True)
    for row in rows:
        row["client"] = HIT if row["client"] == HIT else client.name
    return rows


def peers(folder: Path | None) -> list[Client]:
    """Return the peers whose environments are there; say which are not."""
    found = []
    for name, title, file, way in PEERS:
        python = folder / name / "bin" / "python" if folder else None
        if python is None or not python.exists():
            print(f"{title}: skipped, no environment (--peers-env; see peers/make_envs.py)")
        else:
            found.append(Client(name=title, file=file, python=str(python), way=way))
    return found


def measure(cells: tuple[Cell, ...], others: list[Client], cap: float) -> dict[tuple[int, int], dict[str, dict]]:
    """Run everything in turn; return the medians by (latency, in flight) and client."""
    found: dict[tuple[int, int], dict[str, list[dict]]] = defaultdict(lambda: defaultdict(list))
    for cell in cells:
        place = (cell.latency_ms, cell.in_flight)
        began = time.monotonic()
        with server(f"--latency-ms={cell.latency_ms}") as url:
            for repeat in range(cell.repeats):
                extra = EXTRA if cell.in_flight < 4096 and (cell.repeats > 1 or len(cells) == len(QUICK)) else ()
                for client in (*OWN, *extra):
                    for row in results(client, url, cell, f"r{repeat}", cap):
                        found[place][row["client"]].append(row)
            for client in others if place in PEER_CELLS else ():
                small = Cell(latency_ms=place[0], in_flight=place[1], calls=PEER_CELLS[place], repeats=1)
                for repeat in range(min(cell.repeats, PEER_REPEATS.get(client.name, 1))):
                    for row in results(client, url, small, f"peer{repeat}", min(cap, 8.0)):
                        found[place][row["client"]].append(row)
        print(f"  {place[0]} ms, {place[1]} in flight: {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    return {place: {name: middle(rows) for name, rows in named.items()} for place, named in found.items()}


def middle(rows: list[dict]) -> dict:
    """Return the medians of several runs of one client."""
    spent = [row["cpu_us"] for row in rows if row["cpu_us"]]
    return {
        "cpu_us": statistics.median(spent) if spent else None,
        "cpu_us_runs": spent,
        "per_s": statistics.median(row["per_s"] for row in rows),
        "rss_mb": statistics.median(row["rss_mb"] for row in rows),
        "whole": all(row["whole"] for row in rows),
    }


def print_tables(found: dict[tuple[int, int], dict[str, dict]]) -> None:
    names = list(dict.fromkeys(name for rows in found.values() for name in rows))
    for title, show in (("CPU a call, µs (× raw aiohttp, a task a call)", _cpu), ("answers a second", _rate)):
        print(f"\n| {title} | {' | '.join(f'{ms} ms, {n:,}' for ms, n in found)} |\n|---|{'---|' * len(found)}")
        for name in names:
            print(f"| {name} | {' | '.join(show(rows.get(name), rows.get(RAW)) for rows in found.values())} |")
    print("\n† not all calls were answered before the cap of time", flush=True)


def _cpu(row: dict | None, raw: dict | None) -> str:
    if row is None or row["cpu_us"] is None:
        return "" if row is None else "none answered"
    times = f" ({row['cpu_us'] / raw['cpu_us']:.2f}×)" if raw and raw["cpu_us"] else ""
    return f"{row['cpu_us']:,.0f}{'' if row['whole'] else '†'}{times}"


def _rate(row: dict | None, _: dict | None) -> str:
    return "" if row is None else f"{row['per_s']:,.0f}{'' if row['whole'] else '†'}"


def figures(found: dict[tuple[int, int], dict[str, dict]]) -> list[Figure]:
    """Return the figures that have targets."""
    bounds = {64: (1.1, 0.8), 512: (1.1, 0.8), 4096: (0.5, 0.35)}
    out = [
        Figure(name=f"whole engine / raw aiohttp, CPU a call, {n:,} in flight", value=_ratio(found, (0, n), OURS, RAW),
               unit="×", target=target, beyond=beyond)
        for n, (target, beyond) in bounds.items()
    ]  # fmt: skip
    sdk = _ratio(found, (0, 64), OURS, SDK)
    out.append(
        Figure(
            name="whole engine / OpenAI SDK on aiohttp, CPU a call", value=sdk, unit="×", target=1 / 8, beyond=1 / 12
        )
    )
    full = found.get((1000, 4096), {}).get(OURS)
    share = 100 * full["per_s"] / 4096 if full else None
    out.append(Figure(name="share of the ceiling, 1 s latency, 4,096 in flight, one core", value=share, unit="%",
                      target=85, beyond=95, at_least=True))  # fmt: skip
    hits = [rows[HIT]["cpu_us"] for place, rows in found.items() if HIT in rows and place[0] == 0]
    hit = statistics.median(hits) if hits else None
    out.append(Figure(name="cache hit through the whole engine", value=hit, unit="µs", target=40, beyond=20))
    return out


def _ratio(found: dict, place: tuple[int, int], one: str, other: str) -> float | None:
    """Return the median of the ratios of runs beside each other; of medians where they do not come in pairs."""
    rows = [found.get(place, {}).get(name, {}) for name in (one, other)]
    runs = [row.get("cpu_us_runs", []) for row in rows]
    if runs[0] and len(runs[0]) == len(runs[1]):
        return statistics.median(ours / theirs for ours, theirs in zip(*runs, strict=True))
    values = [row.get("cpu_us") for row in rows]
    return values[0] / values[1] if all(values) else None


def draw(found: dict[tuple[int, int], dict[str, dict]], path: Path) -> None:
    """Draw CPU a call at 0 ms by calls in flight, both axes logarithmic."""
    places = sorted(n for ms, n in found if ms == 0)
    names = dict.fromkeys(name for n in places for name in found[0, n])
    lines = []
    for name in [OURS, *(name for name in names if name != OURS)]:
        points = [(n, found[0, n][name]["cpu_us"]) for n in places if found[0, n].get(name, {}).get("cpu_us")]
        if points:
            lines.append(Line(name=name, points=points, bold=name == OURS))
    path.write_text(svg(lines, x_label="calls in flight", y_label="client CPU a call, µs"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="two small settings")
    parser.add_argument("--peers-env", type=Path, help="folder with an environment for each peer")
    parser.add_argument("--cap", type=float, default=25.0, help="seconds after which a client stops")
    parser.add_argument("--plot", type=Path, help="draw the figures at 0 ms here (.svg)")
    parser.add_argument("--rows", type=Path, help="keep all medians here as JSON")
    parser.add_argument("--figures", type=Path, help="add the figures that have targets to this file")
    args = parser.parse_args()
    if len(CORES) == 1:
        print("one core: the server takes its share of it, and answers a second are too low")
    found = measure(QUICK if args.quick else CELLS, peers(args.peers_env), args.cap)
    print_tables(found)
    if args.rows:
        args.rows.write_text(json.dumps({f"{ms},{n}": rows for (ms, n), rows in found.items()}, indent=1))
    if args.plot:
        draw(found, args.plot)
    hand_over(figures(found), args.figures)


if __name__ == "__main__":
    main()
