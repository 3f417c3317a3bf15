"""Our whole engine and raw aiohttp in one session: client CPU a call, their ratio, connections, cache hits.

    python benchmarks/speed/engine.py                     every setting, about four minutes
    python benchmarks/speed/engine.py --quick             under 40 seconds on two cores
    python benchmarks/speed/engine.py --quick --check     the same; ends with 1 if a bound of CI is exceeded
    python benchmarks/speed/engine.py --peers-env DIR     also the OpenAI SDK: DIR has openai[aiohttp] and orjson

A fast server runs on the last core. Each client is a process on the first core; they take turns, and a ratio is the
median of those of neighbouring runs. CPU time is measured because other work on the machine disturbs it least. "Ours"
looks in the cache, calls, reads the verdict, writes the reply to disk with fsync before it returns it, and counts.
"Raw" makes a task for each call, reads the same verdict, and keeps nothing. Judges: short replies, replies of rubric
verdicts as JSON, and short replies over TLS. No reply repeats anything of its request.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from targets import Figure, hand_over

HERE = Path(__file__).resolve().parent
CORES = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [0, 1]
CLIENTS = {"raw": "client_aiohttp.py", "ours": "client_ours.py", "sdk": "client_openai.py"}
KINDS = {"short": "short", "json": "json", "tls": "short"}  # a kind of judge: its replies
RATIOS = {64: (1.7, 1.4), 512: (1.35, 1.1), 4096: (0.95, 0.8)}  # in flight: target and aim of ours / raw
CONNECTIONS = (80, 64)  # for the first 1,000 calls at 64 in flight: target and aim
HIT_US = (60.0, 40.0)
SDK_SHARE = (1 / 3, 1 / 4)
CHECK_RATIO, CHECK_CONNECTIONS = 2.3, 100  # the bounds of --check, at 64 in flight


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One setting: the kind of judge, calls in flight, calls in all, how often each client runs, and the latency."""

    kind: str
    in_flight: int
    calls: int
    repeats: int
    latency_ms: int = 0


def cells(*, quick: bool) -> list[Cell]:
    """Return the settings to measure."""
    if quick:
        sizes = ((64, 1500, 3), (512, 2048, 3))
        return [Cell(kind=kind, in_flight=n, calls=calls, repeats=times) for n, calls, times in sizes for kind in KINDS]
    sizes = ((64, 4000, 7), (512, 8192, 5))
    found = [Cell(kind=kind, in_flight=n, calls=calls, repeats=times) for n, calls, times in sizes for kind in KINDS]
    return [*found, Cell(kind="short", in_flight=4096, calls=32768, repeats=3, latency_ms=1000)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What was measured in one setting: medians, and the ratio of neighbouring runs."""

    cell: Cell
    raw_us: float
    ours_us: float
    ratio: float
    raw_connections: int
    connections: int
    hit_us: float
    sdk_us: float | None = None


@contextmanager
def server(*flags: str) -> Iterator[str]:
    """Run the fast server on the last core; yields its base URL."""
    command = [sys.executable, str(HERE / "fast_server.py"), f"--core={CORES[-1]}", *flags]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


@contextmanager
def certificate() -> Iterator[Path | None]:
    """Make a key and a self-signed certificate in one file; None without the program `openssl`."""
    if shutil.which("openssl") is None:
        yield None
        return
    with tempfile.TemporaryDirectory() as folder:
        key, path = Path(folder) / "key.pem", Path(folder) / "both.pem"
        made = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=bench"
        named = [*made.split(), "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(path)]
        subprocess.run(["openssl", *named], check=True, capture_output=True)
        path.write_text(key.read_text() + path.read_text())
        yield path


def run_client(client: str, url: str, cell: Cell, run: str, trusted: Path | None, python: str) -> list[dict[str, Any]]:
    """Run a client once; return its results."""
    flags = {"url": url, "calls": cell.calls, "in-flight": cell.in_flight, "core": CORES[0], "run": run}
    flags["reply"] = KINDS.get(cell.kind, cell.kind)
    command = [python, str(HERE / CLIENTS[client]), *(f"--{name}={value}" for name, value in flags.items())]
    environment = dict(os.environ) | ({"SSL_CERT_FILE": str(trusted)} if trusted else {})
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False, env=environment)
    rows = [json.loads(line[7:]) for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    if not rows or not all(row["whole"] for row in rows):
        raise SystemExit(f"{CLIENTS[client]} did not answer all calls: {done.stderr.strip()[-500:]}")
    return rows


def measure(cell: Cell, pem: Path | None, peers: Path | None) -> Row:
    """Run the clients in turn against a new server."""
    spent: dict[str, list[float]] = defaultdict(list)
    connections: dict[str, list[int]] = defaultdict(list)
    trusted = pem if cell.kind == "tls" else None
    flags = [
        f"--latency-ms={cell.latency_ms}",
        f"--reply={KINDS[cell.kind]}",
        *([f"--tls={trusted}"] if trusted else []),
    ]
    pythons = {"raw": sys.executable, "ours": sys.executable}
    if peers is not None and cell.kind == "short" and cell.in_flight == 64:
        pythons["sdk"] = str(peers / "bin" / "python")
    with server(*flags) as url:
        for repeat in range(cell.repeats):
            for client, python in pythons.items():
                for row in run_client(client, url, cell, f"r{repeat}", trusted, python):
                    spent[row["client"]].append(row["cpu_us"])
                    connections[row["client"]].append(row["connections"])
    return Row(
        cell=cell,
        raw_us=statistics.median(spent["raw"]),
        ours_us=statistics.median(spent["ours"]),
        ratio=median_ratio(spent["ours"], spent["raw"]),
        raw_connections=max(connections["raw"]),
        connections=max(connections["ours"]),
        hit_us=statistics.median(spent["hit"]),
        sdk_us=statistics.median(spent["sdk"]) if spent["sdk"] else None,
    )


def median_ratio(ours: list[float], theirs: list[float]) -> float:
    """Return the median of the ratios of neighbouring runs: a slow moment of the machine is in both of a pair."""
    return statistics.median(one / other for one, other in zip(ours, theirs, strict=True))


def table(rows: list[Row]) -> str:
    """Return all results as one Markdown table, with the targets."""
    named = ("judge", "in flight", "raw aiohttp, µs a call", "ours, µs", "ours / raw (target)")
    also = ("connections for 1,000 calls (raw)", f"cache hit, µs (≤ {HIT_US[0]:.0f})", "OpenAI SDK, µs")
    out = [f"| {' | '.join(named + also)} |", "|---" * len(named + also) + "|"]
    for row in rows:
        cell = row.cell
        judge = cell.kind + (f", {cell.latency_ms:,} ms" if cell.latency_ms else "")
        ratio = f"{row.ratio:.2f} (≤ {RATIOS[cell.in_flight][0]})"
        bound = f", ≤ {CONNECTIONS[0]}" if cell.in_flight == 64 else ""
        opened = f"{row.connections:,} ({row.raw_connections:,}{bound})"
        sdk = f"{row.sdk_us:,.0f}" if row.sdk_us else "–"
        shown = (judge, f"{cell.in_flight:,}", f"{row.raw_us:.0f}", f"{row.ours_us:.0f}", ratio, opened)
        out.append(f"| {' | '.join(shown)} | {row.hit_us:.0f} | {sdk} |")
    return "\n".join(out)


def figures(rows: list[Row]) -> list[Figure]:
    """Return the figures that have targets."""
    out = []
    for row in rows:
        place = f"{row.cell.kind}, {row.cell.in_flight:,} in flight"
        target, aim = RATIOS[row.cell.in_flight]
        out.append(
            Figure(name=f"engine / raw aiohttp, CPU, {place}", value=row.ratio, unit="×", target=target, aim=aim)
        )
        if row.cell.in_flight == 64:
            named = f"connections for 1,000 calls, {place}"
            opened = Figure(name=named, value=row.connections, unit="", target=CONNECTIONS[0], aim=CONNECTIONS[1])
            out.append(opened)
    hit = statistics.median(row.hit_us for row in rows)
    out.append(Figure(name="cache hit through the engine", value=hit, unit="µs", target=HIT_US[0], aim=HIT_US[1]))
    shares = [row.ours_us / row.sdk_us for row in rows if row.sdk_us]
    share = max(shares) if shares else None
    out.append(Figure(name="engine / OpenAI SDK, CPU", value=share, unit="×", target=SDK_SHARE[0], aim=SDK_SHARE[1]))
    return out


def exceeded(rows: list[Row]) -> list[str]:
    """Return a line for each bound of CI that is exceeded at 64 in flight."""
    out = []
    for row in (row for row in rows if row.cell.in_flight == 64):
        if row.ratio > CHECK_RATIO:
            out.append(f"{row.cell.kind}: a call costs {row.ratio:.2f} × raw aiohttp (at most {CHECK_RATIO})")
        if row.connections > CHECK_CONNECTIONS:
            out.append(
                f"{row.cell.kind}: {row.connections:,} connections for 1,000 calls (at most {CHECK_CONNECTIONS})"
            )
    return out


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few repeats; 64 and 512 in flight")
    parser.add_argument("--check", action="store_true", help="end with 1 if a bound of CI is exceeded")
    parser.add_argument("--peers-env", type=Path, help="a virtual environment with openai[aiohttp] and orjson")
    parser.add_argument("--figures", type=Path, help="add the figures that have targets to this file")
    args = parser.parse_args()
    rows = []
    with certificate() as pem:
        if pem is None:
            print("no `openssl` program: TLS is not measured", file=sys.stderr)
        for cell in cells(quick=args.quick):
            if cell.kind == "tls" and pem is None:
                continue
            began = time.monotonic()
            rows.append(measure(cell, pem, args.peers_env))
            took = time.monotonic() - began
            print(f"  {cell.kind}, {cell.in_flight:,} in flight: {took:.0f} s", file=sys.stderr, flush=True)
    print(table(rows), flush=True)
    if args.figures:
        hand_over(figures(rows), args.figures)
    problems = exceeded(rows) if args.check else []
    for problem in problems:
        print(f"exceeded: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
