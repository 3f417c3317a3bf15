"""How long commands take to start and to answer from the cache, as a ratio to a bare interpreter: whole processes.

    python benchmarks/speed/startup.py --repeats 7

The cached run judges 1,147 planted pairs (RubricBench's number) once against the simulated endpoint, which is then
ended; what is timed is the same command again, which finds everything in the cache. Medians and the quickest.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from targets import Figure, hand_over

SVR = [sys.executable, str(Path(__file__).resolve().parents[2] / "cli.py")]
SAMPLE = ["eval", "rubricbench", "--sample", "--judge", "rules", "-q", "--out", "sample-run"]
PAIRS = 1147


def times(command: list[str], folder: str, repeats: int) -> list[float]:
    """Return the seconds of each run of a command."""
    found = []
    for _ in range(repeats):
        shutil.rmtree(Path(folder) / "again", ignore_errors=True)
        began = time.perf_counter()
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
        found.append(time.perf_counter() - began)
    return found


@contextmanager
def sim(folder: str) -> Iterator[str]:
    """Run the simulated endpoint; yields its base URL."""
    process = subprocess.Popen([*SVR, "sim", "--port", "0"], cwd=folder, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield next(word for word in process.stdout.readline().split() if word.startswith("http"))
    finally:
        process.terminate()
        process.wait()


def cached(folder: str, pairs: int) -> list[str]:
    """Judge planted pairs once; return the command that does it again, from the cache."""
    world = [*SVR, "sim", "--test", str(pairs), "--train", "1", "--write", "world"]
    subprocess.run(world, cwd=folder, check=True, capture_output=True)
    with sim(folder) as url:
        judge = ["--judge", "gpt-oss-120b", "--base-url", url, "--method", "direct", "--cache", "cache", "-q"]
        command = [*SVR, "eval", "rubricbench", "--data", "world/rubricbench.jsonl", *judge]
        subprocess.run([*command, "--out", "first"], cwd=folder, check=True, capture_output=True)
    return [*command, "--out", "again"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--quick", action="store_true", help="two repeats, 200 pairs")
    parser.add_argument("--figures", type=Path)
    args = parser.parse_args()
    repeats, pairs = (2, 200) if args.quick else (args.repeats, PAIRS)
    eval_name = f"svr-eval, {pairs:,} pairs, all in the cache"
    with tempfile.TemporaryDirectory() as folder:
        commands = {
            "python -c pass": [sys.executable, "-c", "pass"],
            "svr --help": [*SVR, "--help"],
            "svr eval --help": [*SVR, "eval", "--help"],
            "svr-eval, sample, rules": [*SVR, *SAMPLE],
            eval_name: cached(folder, pairs),
        }
        found = {name: times(command, folder, repeats) for name, command in commands.items()}
    bare = statistics.median(found["python -c pass"])
    print("| whole process | median, s | quickest, s | × bare interpreter |\n|---|---|---|---|")
    for name, took in found.items():
        middle = statistics.median(took)
        print(f"| {name} | {middle:.3f} | {min(took):.3f} | {middle / bare:.1f} |")
    middle = {name: statistics.median(took) for name, took in found.items()}
    figures = [
        Figure(name="svr --help", value=middle["svr --help"], unit="s", target=0.2, aim=0.12),
        Figure(name=eval_name, value=middle[eval_name], unit="s", target=1.5, aim=0.8),
    ]
    hand_over(figures, args.figures)


if __name__ == "__main__":
    main()
