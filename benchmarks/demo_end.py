"""The end of `make demo`: accuracy of the trained bank and of two baselines on held-out pairs.

python benchmarks/demo_end.py runs/demo        # reads the three runs there
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

RUNS = (("longest", "the longer answer"), ("general", "general checks alone"), ("bank", "the bank you trained"))
NO_MODEL = "OFFLINE RULES on made pairs, no model: this shows how the tool works, not how good a judge is."
CELLS = 40  # of a bar of 100 %


def metrics_of(folder: Path, run: str) -> Mapping[str, Any]:
    metrics: dict[str, Any] = json.loads((folder / run / "metrics.json").read_text("utf-8"))
    return metrics


def bars(folder: Path) -> Iterator[str]:
    """Yield a line for each run: its name, accuracy as a bar and in percent, and its interval."""
    for run, name in RUNS:
        found = metrics_of(folder, run)
        bar = "█" * round(CELLS * found["accuracy"])
        low, high = (100 * end for end in found["accuracy_ci95"])
        yield f"{name:<21} {bar:<{CELLS}} {100 * found['accuracy']:5.1f} %  [{low:.0f}, {high:.0f}]"


def summary(folder: Path) -> list[str]:
    """Return the last lines of the demo."""
    pairs = metrics_of(folder, "bank")["n_total"]
    head = f"Decided right, of {pairs} pairs that the training never saw, with the 95 % interval:"
    return [head, *bars(folder), NO_MODEL]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, help="where make_demo_pairs.py and the runs of `make demo` are")
    print("\n".join(summary(parser.parse_args(arguments).folder)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
