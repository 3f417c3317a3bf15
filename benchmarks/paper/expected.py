"""A judge's verdicts against the same judge's probabilities: two banks a drawn world, on the same unseen pairs.

    expected.py --draws 4-9 --pairs 800 --out RUNS    development draws only: the report's are kept for the report

Both judges observe the same, with the same errors; one says pass or fail, the other how sure it may be of that, and
what is expected of its answers is trained and decided on. In process, without a call. All of it is SIMULATED.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from ablations_local import FULL, Local
from family import draws_of

from svr_async.core.files import write_atomic
from svr_async.simulation.family import drawn
from svr_async.simulation.family_world import FamilyWorld

JUDGE = "gpt-oss-120b"
KINDS = ("verdicts", "probabilities")


def run_draw(draw: int, pairs: int, test: int, out: Path) -> Mapping[str, Any]:
    """Train with either judge on a draw's world, or read what was found: which unseen pairs each decides rightly."""
    path = out / f"{pairs}" / f"{draw}.json"
    if path.exists():
        return dict(orjson.loads(path.read_bytes()))
    config = drawn(draw)
    world = FamilyWorld(config)
    items = list(world.pairs(test, "test"))
    row: dict[str, Any] = {"draw": draw, "noise": config.noise}
    for kind in KINDS:
        folder = path.with_suffix("") / kind
        local = Local.of(world, folder, pairs, items, JUDGE)
        local.asker, local.expected = f"{kind} {config!r}", kind == KINDS[1]
        local.bank(FULL, "")
        lines = (folder / "runs" / FULL / "items.jsonl").read_bytes().splitlines()
        row[kind] = [bool(orjson.loads(line)["correct"]) for line in lines]
    shutil.rmtree(path.with_suffix(""))
    write_atomic(path, orjson.dumps(row))
    return row


def table(rows: Sequence[Mapping[str, Any]], pairs: int) -> str:
    """Return accuracies a draw, and the paired difference with its standard error, in Markdown."""
    lines = [
        f"SIMULATED: {len(rows)} drawn worlds, {pairs:,} training and {len(rows[0][KINDS[0]]):,} unseen pairs each, %",
        "",
        "| draw | judge noise | verdicts | probabilities | difference | standard error |",
        "|---" * 6 + "|",
    ]
    gains = []
    for row in rows:
        marks = [np.array(row[kind], dtype=float) for kind in KINDS]
        gain = marks[1] - marks[0]
        gains.append(gain.mean())
        cells = [f"{100 * value:.1f}" for value in (*(one.mean() for one in marks), gain.mean())]
        lines.append(f"| {row['draw']} | {row['noise']:.0%} | {' | '.join(cells)} | {100 * _error(gain):.1f} |")
    means = [100 * np.mean([np.mean(row[kind]) for row in rows]) for kind in KINDS]
    error = f"{100 * _error(np.array(gains)):.1f}" if len(gains) > 1 else "–"
    lines.append(f"| mean | | {means[0]:.1f} | {means[1]:.1f} | {100 * np.mean(gains):.1f} | {error} over draws |")
    return "\n".join(lines)


def _error(values: np.ndarray[Any, np.dtype[np.float64]]) -> float:
    return float(values.std(ddof=1) / np.sqrt(len(values)))


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=draws_of, default=draws_of("4-9"))
    parser.add_argument("--pairs", type=int, default=800, help="training pairs")
    parser.add_argument("--test", type=int, default=1000, help="unseen pairs")
    parser.add_argument("--out", type=Path, required=True)
    flags = parser.parse_args()
    rows = []
    for draw in flags.draws:
        rows.append(run_draw(draw, flags.pairs, flags.test, flags.out))
        print(table(rows, flags.pairs), flush=True)


if __name__ == "__main__":
    main()
