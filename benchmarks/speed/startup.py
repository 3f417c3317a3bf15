"""How long commands take to start, beside a bare interpreter, in one run: medians of whole processes.

python benchmarks/speed/startup.py --repeats 7
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SVR = [sys.executable, str(Path(__file__).resolve().parents[2] / "cli.py")]
COMMANDS = {
    "python -c pass": [sys.executable, "-c", "pass"],
    "svr --help": [*SVR, "--help"],
    "svr eval --help": [*SVR, "eval", "--help"],
    "svr eval, sample, rules": [*SVR, "eval", "rubricbench", "--sample", "--judge", "rules", "-q", "--out", "run"],
}


def median_s(command: list[str], folder: str, repeats: int) -> float:
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=7)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        medians = {name: median_s(command, folder, args.repeats) for name, command in COMMANDS.items()}
    bare = medians["python -c pass"]
    print("| command | median, s | × bare interpreter |\n|---|---|---|")
    for name, seconds in medians.items():
        print(f"| {name} | {seconds:.3f} | {seconds / bare:.1f} |")


if __name__ == "__main__":
    main()
