"""A bank's run on held-out pairs beside two baselines without a bank: the longest answer, and a regression on checks.

    svr data split DATA/rmb --share 0.2 --out rmb
    svr train rmb/train.jsonl --judge rules --out rmb/bank
    svr-eval pairs --data rmb/test.jsonl --judge rules --bank rmb/bank/bank --out rmb/run
    python benchmarks/paper/beside_regression.py --train rmb/train.jsonl --test rmb/test.jsonl --run rmb/run

The regression has one weight of any sign for each check that the `rules` judge knows, its penalty cross-validated in
the training pairs; it sees every check of every pair, where a bank sees a few rubrics. A tie counts half. Intervals
draw whole prompts, since several pairs share one. Judging all pairs on all checks takes some minutes the first time;
with `--kept FOLDER` the judgements are kept there.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import orjson
from judged import judged_on_all
from scores import logistic, points

from svr_async.adapters import get_adapter
from svr_async.core.pair import PreferencePair, prompt_text
from svr_async.core.statistics import bootstrap_interval, paired_difference_interval
from svr_async.judges.rules.author import RulesAuthor
from svr_async.judges.rules.judge import RulesJudge
from svr_async.training.rounds.judge_calls import TrainingJudges
from svr_async.training.running.data import usable
from svr_async.training.running.run import OFFLINE_WORKERS, RUBRICS_PER_FREE_CALL


def run_points(folder: Path, pairs: Sequence[PreferencePair]) -> np.ndarray:
    """Return 1, ½ or 0 for each pair, from the items of a run; SystemExit where the run lacks one."""
    with (folder / "items.jsonl").open("rb") as file:
        items = {row["id"]: row for row in map(orjson.loads, file)}
    lacking = [pair.id for pair in pairs if pair.id not in items]
    if lacking:
        raise SystemExit(f"the run {folder} lacks {len(lacking)} of the test pairs, such as {lacking[0]!r}")
    signs = [items[pair.id]["margin"] * (1 if items[pair.id]["gold"] == "A" else -1) for pair in pairs]
    return points(np.array(signs))


def longest_points(pairs: Sequence[PreferencePair]) -> np.ndarray:
    """Return 1 where the chosen answer is the longer one, ½ where both have the same length."""
    return points(np.array([float(len(pair.chosen) - len(pair.rejected)) for pair in pairs]))


def regression_points(
    train: Sequence[PreferencePair], test: Sequence[PreferencePair], kept: Path
) -> tuple[np.ndarray, int]:
    """Return the points of a regression on all checks, and how many checks it has."""
    judge, author = RulesJudge(), RulesAuthor()
    crew = TrainingJudges(judge=judge, author=author, workers=OFFLINE_WORKERS, rubrics_per_call=RUBRICS_PER_FREE_CALL)
    learned, held = (
        np.nan_to_num(judged_on_all(kept, name, pairs, crew)) for name, pairs in (("train", train), ("test", test))
    )
    weights = logistic(learned, numbered([prompt_text(pair.prompt) for pair in train]))
    return points(held @ weights), learned.shape[1]


def numbered(labels: Sequence[str]) -> np.ndarray:
    """Return for each label its number, in order of first appearance."""
    place = {label: number for number, label in enumerate(dict.fromkeys(labels))}
    return np.array([place[label] for label in labels])


def print_table(found: Mapping[str, np.ndarray], bank: str, prompts: Sequence[str]) -> None:
    """Print accuracies, and what the bank is above each of the others, with intervals over prompts."""
    print(f"\n{len(prompts):,} pairs of {len(set(prompts)):,} prompts, a tie at half, 95 % intervals over prompts\n")
    print("| | accuracy | the bank is above it by |\n|---|---|---|")
    for name, scored in found.items():
        low, high = bootstrap_interval(scored, clusters=prompts)
        above = ""
        if name != bank:
            gap = paired_difference_interval(scored, found[bank], clusters=prompts)
            above = f"{100 * (found[bank] - scored).mean():+.1f} [{100 * gap.low:+.1f}, {100 * gap.high:+.1f}]"
        print(f"| {name} | {100 * scored.mean():.1f} % [{100 * low:.1f}, {100 * high:.1f}] | {above} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", type=Path, required=True, help="the pairs that the bank was trained on (.jsonl)")
    parser.add_argument("--test", type=Path, required=True, help="the pairs that were held out (.jsonl)")
    parser.add_argument("--run", type=Path, required=True, help="the run folder of the bank on the held-out pairs")
    parser.add_argument("--kept", type=Path, help="where to keep judgements on all checks")
    args = parser.parse_args()
    train, test = (
        [pair for pair in get_adapter("pairs").load(path, lenient=True).pairs if usable(pair)]
        for path in (args.train, args.test)
    )
    with tempfile.TemporaryDirectory() as folder:
        regression, n_checks = regression_points(train, test, args.kept or Path(folder))
    bank = "the trained bank"
    found = {
        "longest answer": longest_points(test),
        f"logistic regression on all {n_checks} checks": regression,
        bank: run_points(args.run, test),
    }
    print_table(found, bank, [prompt_text(pair.prompt) for pair in test])


if __name__ == "__main__":
    main()
