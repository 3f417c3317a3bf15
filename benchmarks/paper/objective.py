"""Compare objectives, selectors and regularisations on planted worlds and on real pairs, as they would be used.

    objective.py prepare sim --out PREPARED                   three noise levels, five seeds each
    objective.py prepare real --data DATA --out PREPARED      five folds of RMB, free checks
    objective.py compare PREPARED --results RESULTS           fit what is missing, print the tables
    objective.py table RESULTS                                print the tables again

DATA holds `rmb`, `llmbar` and `pandalm`. Preparing pays for induction and judging once; comparing needs no judge.
Results are kept by world and variant, so a variant that is added to `objective_variants.py` costs its own fits alone;
`--again` fits the named variants anew. Everything simulated is simulated, and real pairs are judged by offline checks:
none of it is a result of the paper's.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from objective_data import load, prepared
from objective_prepare import FOLDS, Plan, prepare_real, prepare_sim, say
from objective_score import DEV, run_variant, truth, yardsticks
from objective_table import WorldResult, report
from objective_variants import LITERAL, USUAL, VARIANTS

from svr_async.errors import SvrError
from svr_async.scoring.selection import TextSimilarities

NOISES = (0.05, 0.15, 0.25)
ORACLE = "knowing the truth"


def compare(folders: Sequence[Path], results: Path, variants: Sequence[str], again: Sequence[str]) -> list[WorldResult]:
    """Score what is missing in each world, and the variants to fit again; return all results."""
    return [_compare_world(folder, results / f"{folder.name}.json", variants, again) for folder in folders]


def _compare_world(folder: Path, path: Path, variants: Sequence[str], again: Sequence[str]) -> WorldResult:
    result = WorldResult.load(path) if path.exists() else None
    missing = [name for name in variants if name in again or result is None or name not in result.points]
    if result is not None and not missing:
        return result
    problem = load(folder)
    similarities = TextSimilarities(problem.texts)
    if result is None:
        sets = {DEV: problem.dev_held, **problem.tests}
        result = WorldResult(
            name=problem.name,
            group=problem.group,
            seed=problem.seed,
            own=next(iter(problem.tests)),
            prompts={name: held.pair_prompt for name, held in sets.items()},
        )
        for name, score in yardsticks(problem).items():
            result.add(name, score, candidate=False)
        if (known := truth(problem, similarities)) is not None:
            result.add(ORACLE, known, candidate=False)
    for name in missing:
        began = time.perf_counter()
        score = run_variant(name, VARIANTS[name], problem, similarities)
        result.add(name, score, candidate=True)
        result.save(path)
        top = 100 * score.columns["top 6"][result.own].mean()
        say(f"{problem.name}  {name}: {top:.1f} % (fit {score.seconds:.0f} s, all {time.perf_counter() - began:.0f} s)")
    return result


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    worlds = commands.add_parser("prepare").add_subparsers(dest="kind", required=True)
    sim, real = worlds.add_parser("sim"), worlds.add_parser("real")
    for one in (sim, real):
        one.add_argument("--out", type=Path, required=True)
        one.add_argument(
            "--dev-share", type=float, default=0.1, help="share of training prompts held back (default 0.1)"
        )
    sim.add_argument("--noise", type=float, nargs="+", default=NOISES, help="shares of verdicts that are wrong")
    sim.add_argument("--seeds", type=int, nargs="+", default=range(13, 18))
    sim.add_argument("--train", type=int, default=3000)
    sim.add_argument("--test", type=int, default=2000)
    real.add_argument("--data", type=Path, required=True, help="folder with rmb, llmbar and pandalm")
    real.add_argument("--folds", type=int, nargs="+", default=range(FOLDS), choices=range(FOLDS))
    real.add_argument("--limit", type=int, help="use only so many pairs of each set")
    fits = commands.add_parser("compare")
    fits.add_argument("prepared", type=Path)
    fits.add_argument("--results", type=Path, required=True)
    fits.add_argument("--variants", nargs="+", default=list(VARIANTS), choices=list(VARIANTS), metavar="VARIANT")
    fits.add_argument("--worlds", nargs="+", default=["*"], metavar="GLOB", help="e.g. 'real-*' 'sim-05-*'")
    fits.add_argument("--again", action="store_true", help="fit the variants anew")
    commands.add_parser("table").add_argument("results", type=Path)
    return parser.parse_args(arguments)


def run(options: argparse.Namespace) -> str:
    """Do what was asked, and return what to print."""
    if options.command == "prepare":
        plan = Plan(out=options.out, dev_share=options.dev_share)
        if options.kind == "real":
            prepare_real(plan, options.data, options.folds, options.limit)
        else:
            for noise in options.noise:
                for seed in options.seeds:
                    prepare_sim(plan, noise, seed, options.train, options.test)
        return f"worlds in {options.out}: {', '.join(folder.name for folder in prepared(options.out))}"
    if options.command == "table":
        found = [WorldResult.load(path) for path in sorted(options.results.glob("*.json"))]
    else:
        folders = [path for path in prepared(options.prepared) if any(path.match(glob) for glob in options.worlds)]
        wanted = dict.fromkeys([*options.variants, LITERAL, USUAL])  # what differences are taken from
        found = compare(folders, options.results, list(wanted), options.variants if options.again else ())
    return report(found) if found else "there are no worlds here: prepare some"


def main(arguments: Sequence[str] | None = None) -> int:
    try:
        print(run(parse(arguments)))
    except SvrError as error:
        print(error.one_line(), file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
