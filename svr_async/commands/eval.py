"""`svr eval`, also installed as `svr-eval`: judges a benchmark or a file of pairs."""

from __future__ import annotations

from typing import Any

import click

from svr_async.commands.log_flags import observed
from svr_async.commands.options import (
    AMOUNT,
    FOLDER,
    HELP,
    PATH,
    RATE,
    SEED,
    SHARE,
    GroupedCommand,
    bank_option,
    common,
    dry_run_option,
    given_flags,
    judge_option,
    limit_option,
    limited,
    option,
    preset_option,
    quiet_option,
    reading,
    together,
    top_k_option,
    track_option,
)
from svr_async.scoring.methods.registry import NAMES

how_judged = together(
    option("--option", multiple=True, metavar="NAME=VALUE", help="An option of the method (docs/methods.md)."),
    top_k_option,
    option("--rephrase", is_flag=True, help="Fit the bank's rubrics to each prompt first: one more call a prompt."),
    preset_option,
    option(
        "--order",
        type=click.Choice(["hash", "ab", "ba", "both"]),
        default="hash",
        metavar="ORDER",
        help="Which response is shown first: hash (by the pair's id), ab, ba or both.",
    ),
    option("--audit", type=SHARE, default=0.05, metavar="0..1", help="Share of pairs judged in both orders."),
    option("--audit-below", type=RATE, metavar="MARGIN", help="Judge in both orders if the first |margin| is smaller."),
    option(
        "--tie-credit",
        type=click.Choice(["0", "0.5"]),
        default="0",
        metavar="0|0.5",
        help="Credit for a tie in the official scores.",
    ),
    group="How a pair is judged",
)
several_judges = together(
    option("--jury", metavar="J1,J2,…", help="Judges that all see every pair, instead of --judge."),
    option("--jury-rule", type=click.Choice(["mean", "majority"]), default="mean", help="Combine a jury's verdicts."),
    option("--escalate-to", metavar="J", help="Ask this judge too if the first is unsure; its verdict decides."),
    option(
        "--escalate-below",
        type=AMOUNT,
        metavar="MARGIN",
        help="Unsure is a |margin| below this, a tie, or no verdict. Default: only the last two.",
    ),
    group="Several judges",
)


@click.command("eval", cls=GroupedCommand, context_settings=HELP)
@click.argument("benchmark", metavar="SOURCE")
@judge_option
@option(
    "--method",
    type=click.Choice(NAMES),
    metavar="METHOD",
    help="How a pair is judged. Default: svr with --bank, fixed with --rubrics, else vanilla, without rubrics. "
    f"One of {', '.join(NAMES)}.",
)
@bank_option
@option("--rubrics", type=PATH, metavar="FILE", help="A fixed list of rubrics: .txt, .json or .jsonl.")
@option("--data", type=PATH, metavar="PATH", help="The benchmark's file, instead of a download.")
@option("--sample", is_flag=True, help="Judge the small sample that ships with the package.")
@limit_option
@dry_run_option
@option("--out", type=FOLDER, metavar="DIR", help="Run folder. Default: runs/<bench>-<method>-<judge>-<digest>.")
@how_judged
@several_judges
@together(
    option("--format", "adapter", metavar="NAME", help="Layout of SOURCE, if it is a file. Default: any pairs."),
    option("--domain", multiple=True, metavar="NAME", help="Only this domain. Repeatable."),
    reading,
    group="Reading the data",
)
@limited
@together(
    option("--offline", is_flag=True, help="Use the cache only; open no socket."),
    option("--resume/--no-resume", default=True, help="Continue in an existing run folder (the default)."),
    option("--seed", type=SEED, default=0, metavar="N", help="Seed of orders and audits."),
    group="The run",
)
@together(
    quiet_option,
    option("-v", "--verbose", is_flag=True, help="Print the reason of each retry."),
    group="Output and settings",
)
@common
@track_option
@observed
def evaluate(**flags: Any) -> int:
    """Judge SOURCE: a file or folder of pairs, - (standard input), hf:org/name, or a benchmark of `svr data ls`.

    \b
    Examples:
      svr eval rubricbench --sample --judge rules
      svr eval my_pairs.jsonl --judge http://127.0.0.1:8000/v1#my-model --dry-run
      svr eval total_dataset.json --format rmbench --judge gpt-oss-120b
      svr eval rubricbench --judge small --escalate-to big --escalate-below 0.5 --audit-below 0.5

    Every option is also a variable (SVR_EVAL_JUDGE is --judge) and a key of a --config file.
    """
    from svr_async.commands.eval_run import run_eval

    return run_eval(flags, given_flags(click.get_current_context()))
