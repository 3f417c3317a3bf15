"""Run the speed benchmarks one after the other: start-up, the engine beside raw aiohttp, the fit (without PyTorch)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
RUNS = (
    ["startup.py"],
    ["engine.py"],
    ["fit.py", "--rounds", "1", "--epochs", "2", "--calibration", "1", "--contenders", "ours-default", "ours-paper"],
)


def main() -> int:
    failed = 0
    for name, *flags in RUNS:
        print(f"\n== {name} {' '.join(flags)}", flush=True)
        failed |= subprocess.run([sys.executable, str(HERE / name), *flags], check=False).returncode
    return failed


if __name__ == "__main__":
    sys.exit(main())
