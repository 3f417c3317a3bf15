"""Run the speed benchmarks one after the other and print every figure with its target.

make bench                                          about ten minutes
python benchmarks/speed/run_all.py --quick          about two minutes; coarse figures
python benchmarks/speed/run_all.py --only engine cache --peers-env DIR
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from targets import handed_over, table

HERE = Path(__file__).resolve().parent
FIT = ["--rounds", "1", "--epochs", "2", "--calibration", "1", "--contenders", "ours-default", "ours-paper"]
WITH_TARGETS = ("startup", "engine", "whole_eval", "cache", "drain", "serve")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=(*WITH_TARGETS, "fit"), default=[*WITH_TARGETS, "fit"])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--peers-env", help="a virtual environment with openai[aiohttp] and orjson")
    args = parser.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        figures = Path(folder) / "figures.jsonl"
        for name in args.only:
            flags = [f"--figures={figures}"] if name in WITH_TARGETS else [] if args.quick else FIT
            flags += ["--quick"] if args.quick else []
            flags += [f"--peers-env={args.peers_env}"] if args.peers_env and name == "engine" else []
            print(f"\n== {name}.py {' '.join(flag for flag in flags if 'figures' not in flag)}", flush=True)
            failed |= subprocess.run([sys.executable, str(HERE / f"{name}.py"), *flags], check=False).returncode
        print(f"\n== all figures with their targets\n\n{table(handed_over(figures))}")
    return failed


if __name__ == "__main__":
    sys.exit(main())
