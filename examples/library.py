"""The library by example, typed: `python examples/library.py` runs offline, `… URL#MODEL` asks an endpoint."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from tempfile import mkdtemp

from svr_async import (
    Bank,
    Engine,
    EvalSettings,
    Explanation,
    PairVerdict,
    Ranking,
    Run,
    Score,
    SvrError,
    TrainSettings,
    ajudge_pairs,
    arank,
    evaluate,
    explain,
    judge_pairs,
    load_run,
    rank,
    score,
    score_pair,
    train,
)

PROMPT = "Name a prime number below ten, in one sentence."
GOOD = [{"role": "assistant", "content": "Seven is a prime number."}]  # messages will do wherever a text does
POOR = "Great question! Numbers are fun. Let me think about it. It could be nine, or perhaps it is not!"


def write_pairs(path: Path) -> Path:
    """Write preference pairs of our own making."""
    rows = (
        f'{{"prompt": "What is {n} and {n}?", "chosen": "{2 * n}.", "rejected": "Great question! Perhaps {2 * n}."}}'
        for n in range(1, 61)
    )
    path.write_text("\n".join(rows))
    return path


def one_pair(judge: str) -> PairVerdict:
    """Judge a pair from code that cannot await; in a notebook too."""
    verdict = score_pair(PROMPT, GOOD, POOR, engine=judge)
    for part in verdict.contributions:
        print(f"{part.value:+.2f}  {part.rubric.text}")
    return verdict


async def many(judge: str) -> tuple[list[PairVerdict], Ranking]:
    """Judge pairs and rank responses with one engine, which is open for the length of the block."""
    async with Engine(judge, max_calls=100) as engine:
        verdicts = await ajudge_pairs([(PROMPT, GOOD, POOR), {"prompt": PROMPT, "a": POOR, "b": GOOD}], engine=engine)
        return verdicts, await arank(PROMPT, [GOOD, POOR, "Nine."], engine=engine)


def plainly(judge: str) -> tuple[list[PairVerdict], Ranking]:
    """Do the same without await."""
    with Engine(judge, max_calls=100) as engine:
        verdicts = judge_pairs([(PROMPT, GOOD, POOR), {"prompt": PROMPT, "a": POOR, "b": GOOD}], engine=engine)
        return verdicts, rank(PROMPT, [GOOD, POOR, "Nine."], engine=engine)


def a_run(folder: Path) -> tuple[Run, Explanation]:
    """Judge the sample that is shipped, read the run back, and take one decision apart."""
    result = evaluate(EvalSettings(benchmark="rubricbench", sample=True, judge="rules", out=folder))
    run = load_run(result.folder)
    print(len(run.items), "items,", sum(len(item.rubrics) for item in run.items), "rubrics judged")
    return run, explain(run, run.items[0].id)


def a_bank(folder: Path) -> Bank:
    """Train a bank on pairs of our own making."""
    pairs = write_pairs(folder / "pairs.jsonl")
    result = train(TrainSettings(pairs=pairs, judge="rules", rounds=1, out=folder / "trained"))
    return Bank.load(result.folder / "bank")


def a_score(bank: Bank, judge: str) -> Score:
    """Score a response alone, on the bank's rubrics for the prompt."""
    return score("What is 2 and 2?", "4.", bank=bank, engine=judge)


def main(judge: str) -> None:
    """Run all of it."""
    folder = Path(mkdtemp())
    print(one_pair(judge))
    print(*plainly(judge), *asyncio.run(many(judge)), sep="\n")
    print(*a_run(folder / "run"), a_score(a_bank(folder), judge), sep="\n")


if __name__ == "__main__":
    try:
        main(sys.argv[1] if len(sys.argv) > 1 else "rules")
    except SvrError as error:
        sys.exit(error.one_line())
