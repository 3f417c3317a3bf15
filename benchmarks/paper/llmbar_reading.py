"""Whether LLMBar's published replies of judges are read as their authors read them.

    python benchmarks/paper/llmbar_reading.py --llmbar DATA/llmbar

Prints a row per judge: replies with a recorded winner, the share that is read, and the share of those read as recorded.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter, defaultdict
from pathlib import Path

from llmbar_recorded import ORDERS, shown_winner

from svr_async.adapters.tables import data_files, read_rows
from svr_async.engine.request import ReplyRejectedError
from svr_async.errors import SvrError
from svr_async.judges.reader import read_direct


def read(text: str, quoted: tuple[str, str]) -> str:
    """Return the side that a reply is read as, "tie", or "" if it is not read."""
    try:
        return {1.0: "A", -1.0: "B"}.get(read_direct(text, quoted).margin, "tie")
    except ReplyRejectedError:
        return ""


def count(folder: Path) -> dict[str, Counter[str]]:
    """Return by judge how many decisive replies there are, how many are read, and how many as recorded."""
    tally: dict[str, Counter[str]] = defaultdict(Counter)
    for path in data_files(folder):
        if not path.name.startswith("result."):
            continue
        for row in read_rows(path):
            for order, key in ORDERS.items():
                said = row.values["results"][-1].get(key, {})
                text, side = (said.get("completion") or [""])[0], shown_winner(said.get("winner"), order)
                if text and side:
                    found = read(text, (row.values["output_1"], row.values["output_2"]))
                    tally[path.parents[1].name].update(replies=1, read=bool(found), agreeing=found == side)
    return tally


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--llmbar", type=Path, required=True, help="LLMBar's Dataset folder, or a part of it")
    try:
        tally = count(parser.parse_args(arguments).llmbar)
    except SvrError as error:
        print(error.one_line(), file=sys.stderr)
        return error.exit_code
    print("| judge | replies | read | as recorded |\n|---|---|---|---|")
    for judge, found in tally.items():
        share, agreeing = found["read"] / found["replies"], found["agreeing"] / max(1, found["read"])
        print(f"| {judge} | {found['replies']:,} | {share:.1%} | {agreeing:.2%} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
