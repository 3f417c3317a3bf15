"""Print the tables of docs/spending.md: how many pairs, how many calls, what it costs with which judge.

    python benchmarks/spending/price_table.py                    # a minute or two; sends nothing

By the code of `--dry-run`, with an empty cache, so by its assumptions. The pairs are made: a prompt of 600 characters
and two responses of 1,500 each, no two alike.
"""

from __future__ import annotations

import datetime as dt
import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from svr_async.engine.money import Price
from svr_async.engine.reply import Usage
from svr_async.evaluation.run import count_calls
from svr_async.evaluation.settings import EvalSettings
from svr_async.evaluation.setup import prepare
from svr_async.evaluation.wording import dollars
from svr_async.judges.limits import JudgeLimits
from svr_async.judges.profiles import SHIPPED, Profile, load_profiles
from svr_async.judges.questions import TOKENS_OF_REASONING
from svr_async.training.rounds.dry_run import count_rounds
from svr_async.training.settings import TrainSettings
from svr_async.training.train import count_training

SIZES = (100, 1_000, 5_000)
PRICED_AT = 1_000
JUDGE = "http://127.0.0.1:9/v1#any"
Count = Mapping[str, Any]


def main() -> None:
    """Print both tables in Markdown."""
    with tempfile.TemporaryDirectory() as place:
        counts = {size: count_for(Path(place), size) for size in SIZES}
    print(f"<!-- {dt.datetime.now(tz=dt.UTC).date()}: python benchmarks/spending/price_table.py -->\n")
    print("| pairs | what | calls | tokens in | from a prefix cache | tokens out | a call at a time |")
    print("|---|---|---|---|---|---|---|")
    for size, told in counts.items():
        for what, count in told.items():
            print(f"| {size:,} | {what} | {count['calls']:,} | {_tokens(count)} | {_hours(count)} |")
    named = counts[PRICED_AT]
    print(f"\n| judge | {' | '.join(f'{what} {PRICED_AT:,} pairs' for what in named)} |")
    print(f"|---|{'---|' * len(named)}")
    for name, profile in load_profiles().items():
        if profile.price is not None and profile.source == SHIPPED and not profile.spoken.questions:
            costs = (_cost(count, profile, profile.price) for count in named.values())
            print(f"| {name} | {' | '.join(costs)} |")


def count_for(folder: Path, size: int) -> dict[str, Count]:
    """Return what evaluating and training with a number of pairs would ask."""
    file = write_pairs(folder / f"{size}.jsonl", size)
    limits = JudgeLimits(cache=folder / "cache", concurrency="1")
    told: dict[str, Count] = {}
    for method in ("direct", "self-rubric"):
        dry = EvalSettings(benchmark="pairs", data=file, judge=JUDGE, method=method, limits=limits, out=folder / "run")
        told[f"eval, {method}"] = count_calls(prepare(dry)) or {}
    told["train"] = (
        count_training(TrainSettings(pairs=file, out=folder / "out", judge=JUDGE, limits=limits), count_rounds) or {}
    )
    return told


def write_pairs(file: Path, size: int) -> Path:
    """Write made pairs, no two alike."""
    rows = ({"prompt": _text("prompt", n, 600), **_responses(n)} for n in range(size))
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return file


def _responses(number: int) -> dict[str, str]:
    return {side: _text(side, number, 1_500) for side in ("chosen", "rejected")}


def _text(what: str, number: int, letters: int) -> str:
    return (f"{what} {number} of a made pair, " * letters)[:letters]


def _tokens(count: Count) -> str:
    return f"{count['prompt_tokens'] / 1e6:.2f} M | {count['completion_tokens'] / 1e6:.2f} M"


def _hours(count: Count) -> str:
    return f"{count['seconds'] / 3600:.1f} h"


def _cost(count: Count, profile: Profile, price: Price) -> str:
    """Return the cost with this judge, without a prefix cache; one that thinks writes more."""
    thought = TOKENS_OF_REASONING * count["calls"] if profile.reasoning_effort else 0
    written = count["completion_tokens"] + thought
    return dollars(price.cost(Usage(prompt_tokens=count["prompt_tokens"], completion_tokens=written)))


if __name__ == "__main__":
    main()
