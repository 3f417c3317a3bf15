"""Best of N on RMB's best-of-N set, OFFLINE RULES: general checks and a trained bank beside the longest and the first.

    svr data split DATA/rmb/Pairwise_set --format rmb --share 0.2 --out rmb
    svr train rmb/train.jsonl --judge rules --out rmb/bank
    python benchmarks/paper/best_of_n.py --data DATA/rmb/BoN_set --train rmb/train.jsonl --bank rmb/bank/bank

Only items whose prompt is in no training pair are counted: those of the prompts that `svr data split` held out, and of
prompts that RMB's pairs do not have. The weights of the general checks were fitted on half of RMB's prompts
(`general_checks.py`), so they are told again for the other half. No model is asked; none of these numbers is one of the
paper's.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

import orjson

from svr_async import Bank, Engine
from svr_async.adapters.groups import ResponseGroup, read_groups
from svr_async.core.pair import Prompt, parse_prompt, prompt_text
from svr_async.core.statistics import paired_difference_interval
from svr_async.serving.best_of_n import RankedGroup, credit, rank_groups, summary


def plain(prompt: Prompt) -> str:
    """Return a prompt as it is compared: case and spaces aside."""
    return " ".join(prompt_text(prompt).casefold().split())


def trained_on(path: Path) -> set[str]:
    """Return the prompts of the training pairs."""
    with path.open("rb") as lines:
        return {plain(parse_prompt(orjson.loads(line)["prompt"])) for line in lines}


def unseen_half(prompt: Prompt) -> bool:
    """Whether the weights of the general checks have not seen a prompt, as `general_checks.py` splits them."""
    turns = [[turn.role, turn.content] for turn in prompt]
    return bool(hashlib.sha256(json.dumps(turns).encode()).digest()[0] & 1)


async def ranked(groups: Sequence[ResponseGroup], bank: Bank | None) -> list[RankedGroup]:
    async with Engine("rules") as engine:
        return await rank_groups(groups, bank=bank, engine=engine, method="pairwise")


def show(title: str, found: Sequence[RankedGroup]) -> None:
    told = summary(found)
    print(f"{title}: {told['labelled']} items, {len({one.group.prompt for one in found})} prompts, {told['judge']}")
    for name, one in told["accuracy"].items():
        print(f"  {name:8} {100 * one['value']:5.1f} %  [{100 * one['low']:.1f}, {100 * one['high']:.1f}]")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--data", type=Path, required=True, help="the folder BoN_set of RMB")
    parser.add_argument("--train", type=Path, required=True, help="train.jsonl that the bank was trained on")
    parser.add_argument("--bank", required=True, help="the trained bank")
    options = parser.parse_args()
    seen = trained_on(options.train)
    every = read_groups(options.data)
    held = [group for group in every if plain(group.prompt) not in seen]
    print(f"OFFLINE RULES, no model. {len(every)} items; {len(held)} of prompts that no training pair has")
    general = asyncio.run(ranked(held, None))
    trained = asyncio.run(ranked(held, Bank.load(options.bank)))
    show("general checks", general)
    show(
        "general checks, prompts that their weights have not seen", [g for g in general if unseen_half(g.group.prompt)]
    )
    show("trained bank", trained)
    shares = [[credit(one.group.best, one.top) for one in side] for side in (general, trained)]
    low, high = paired_difference_interval(*shares, clusters=[group.prompt for group in held])
    gain = (sum(shares[1]) - sum(shares[0])) / len(held)
    print(f"bank above general checks by {100 * gain:+.1f} points [{100 * low:+.1f}, {100 * high:+.1f}]")


if __name__ == "__main__":
    main()
