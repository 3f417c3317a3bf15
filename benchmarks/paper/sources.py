"""Leave one source out: learn which checks of the `rules` judge to trust on all sources but one, and judge that one.

    python benchmarks/paper/sources.py prepare --data DATA --out WORK   pairs of each source, their sizes
    python benchmarks/paper/sources.py judge --work WORK                every pair on every check, once
    python benchmarks/paper/sources.py learn --work WORK                the table, in Markdown

`--data` is a folder with the public sets that `sources_read.py` names; nothing of them is kept but in WORK. What is
printed are results of offline checks with no model behind them, none of the paper's.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
from general_checks import Pair, judge_margins
from judged import judged_on_all, say
from sources_data import LISTED, general_path, listed, load, pairs_path
from sources_learners import LEARNERS
from sources_read import read_all, read_pairs, write_pairs
from sources_score import APART, GENERAL, LONGEST, by_prompt_table, detail, scored, summary

from svr_async.core.pair import PreferencePair, prompt_text
from svr_async.judges.rules.author import RulesAuthor
from svr_async.judges.rules.judge import RulesJudge
from svr_async.training.rounds.judge_calls import TrainingJudges
from svr_async.training.running.run import OFFLINE_WORKERS, RUBRICS_PER_FREE_CALL

TRUSTED = "the same, doubt where sources disagree"


def prepare(data: Path, out: Path) -> None:
    """Write the pairs of each source, and the list of sources; print their sizes."""
    found = read_all(data)
    print("| source | family | counted | pairs | prompts |\n|---|---|---|---|---|")
    for source, pairs in found.items():
        write_pairs(pairs_path(out, source.name), pairs)
        prompts = len({prompt_text(pair.prompt) for pair in pairs})
        print(
            f"| {source.name} | {source.family} | {'yes' if source.counted else 'no'} | {len(pairs):,} | {prompts:,} |"
        )
    (out / LISTED).write_text(json.dumps([asdict(source) for source in found], indent=1), "utf-8")


def judge(work: Path) -> None:
    """Judge each source on all checks, and by the general checks; what an earlier run left is kept."""
    crew = TrainingJudges(
        judge=RulesJudge(),
        author=RulesAuthor(),
        workers=OFFLINE_WORKERS,
        rubrics_per_call=RUBRICS_PER_FREE_CALL,
    )
    for source in listed(work):
        pairs = read_pairs(pairs_path(work, source.name))
        z = judged_on_all(work, source.name, pairs, crew)
        general = general_margins(pairs)
        general_path(work, source.name).parent.mkdir(exist_ok=True)
        np.save(general_path(work, source.name), general, allow_pickle=False)
        say(f"{source.name}: {z.shape[0]:,} pairs on {z.shape[1]} checks")


def general_margins(pairs: Sequence[PreferencePair]) -> np.ndarray:
    """Return the margin of the general checks for each pair, positive towards the chosen response."""
    return asyncio.run(judge_margins([Pair(pair.prompt, pair.chosen, pair.rejected, "") for pair in pairs]))


def learn(
    work: Path, names: Sequence[str], modes: Sequence[str], details: Sequence[str], *, by_prompt: bool, fresh: bool
) -> None:
    """Print the tables of these learners, and the sources one by one for those named in `details`."""
    sources = load(work)
    print("Offline checks, no model. A source in *italics* is not in the means. ± is a standard error over prompts.")
    wanted = dict.fromkeys((LONGEST, GENERAL, *names))
    for mode in modes:
        found = {name: scored(name, LEARNERS[name], sources, mode, work / "learned", fresh=fresh) for name in wanted}
        print(f"\n## Left out by {mode}\n\n{summary(found, sources)}")
        for name in (one for one in details if one in found):
            print(f"\n### {name}\n\n{detail(found, sources, name)}")
    rmb = [one for one in sources if one.source.family == "rmb"]
    if by_prompt:
        print(f"\n## RMB held out by prompt\n\n{by_prompt_table({name: LEARNERS[name] for name in wanted}, rmb)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    steps = parser.add_subparsers(dest="step", required=True)
    first = steps.add_parser("prepare", help="read the sources into pairs")
    first.add_argument("--data", type=Path, required=True, help="folder of the public sets")
    first.add_argument(
        "--out", type=Path, required=True, help="folder for pairs and judgements, outside the repository"
    )
    second = steps.add_parser("judge", help="judge every pair on every check")
    second.add_argument("--work", type=Path, required=True, help="the folder that `prepare` wrote")
    third = steps.add_parser("learn", help="leave each source out, and print the tables")
    third.add_argument("--work", type=Path, required=True, help="the folder that `judge` wrote")
    third.add_argument("--learners", nargs="+", default=list(LEARNERS), choices=LEARNERS, metavar="LEARNER")
    third.add_argument("--leave", nargs="*", default=list(APART), choices=APART, help="what is left out together")
    third.add_argument("--detail", nargs="*", default=[TRUSTED], choices=LEARNERS, metavar="LEARNER")
    third.add_argument("--by-prompt", action="store_true", help="also RMB alone, a fifth of its prompts held out")
    third.add_argument("--fresh", action="store_true", help="learn again what an earlier run left")
    args = parser.parse_args()
    if args.step == "prepare":
        prepare(args.data, args.out)
    elif args.step == "judge":
        judge(args.work)
    else:
        learn(args.work, args.learners, args.leave, args.detail, by_prompt=args.by_prompt, fresh=args.fresh)


if __name__ == "__main__":
    main()
