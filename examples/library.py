"""The library by example, typed: `python examples/library.py` runs offline, `… URL#MODEL` asks an endpoint."""

from __future__ import annotations

import asyncio
import sys

import svr_async as svr

PROMPT = "Name a prime number below ten, in one sentence."
GOOD = [{"role": "assistant", "content": "Seven is a prime number."}]  # messages work wherever a text does
POOR = "Great question! Numbers are fun. Let me think about it. It could be nine, or perhaps it is not!"
PAIRS = [
    {
        "prompt": f"What is {n} and {n}?",
        "chosen": f"{n} and {n} is {2 * n}, because adding a number to itself doubles it.",
        "rejected": f"Great question! I am not sure, perhaps it could be {2 * n}, or maybe not!",
    }
    for n in range(1, 61)
]


def evaluated(judge: str) -> svr.Run:
    """Judge pairs in memory, look at the numbers and take one decision apart."""
    direct = svr.evaluate(PAIRS, judge=judge, limit=20, concurrency=8, budget=1, out="runs/direct")
    both = svr.evaluate(PAIRS, judge=judge, limit=20, order="both", out="runs/both")
    print(direct, direct.items.to_arrow().num_rows, direct.summary.complete)
    print(direct.explain(direct.items[0].id))
    print(svr.compare(direct, both))
    return svr.Run.load("runs/direct")


def trained(judge: str) -> svr.Bank:
    """Train a bank, use it, and store a copy."""
    bank = svr.train(PAIRS, judge=judge, rounds=1, out="banks/mine")
    print(bank.predict([{"prompt": PROMPT, "response_a": "Seven is.", "response_b": POOR}]), bank.score(PAIRS))
    print(bank.explain(PROMPT, GOOD, POOR))
    bank.save("banks/copy")
    return svr.Bank.load("banks/copy")


async def many(judge: str, bank: svr.Bank) -> tuple[list[svr.PairVerdict], svr.Ranking, svr.Score]:
    """Judge, rank and score with one engine, which is open for the length of the block."""
    async with svr.Engine(judge, max_calls=100) as engine:
        verdicts = await svr.ajudge_pairs(
            [(PROMPT, GOOD, POOR), {"prompt": PROMPT, "a": POOR, "b": GOOD}], engine=engine
        )
        ranking = await svr.arank(PROMPT, [GOOD, POOR, "Nine."], engine=engine)
        return verdicts, ranking, await svr.ascore("What is 2 and 2?", "4.", bank=bank, engine=engine)


def main(judge: str) -> None:
    """Run all of it."""
    print(svr.score_pair(PROMPT, GOOD, POOR, engine=judge))
    print(evaluated(judge))
    print(*asyncio.run(many(judge, trained(judge))), sep="\n")


if __name__ == "__main__":
    try:
        main(sys.argv[1] if len(sys.argv) > 1 else "rules")
    except svr.SvrError as error:
        sys.exit(error.one_line())
