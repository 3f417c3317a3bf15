"""`svr eval`, also installed as `svr-eval`: judges a benchmark or a file of pairs."""

from __future__ import annotations

from typing import Any

import click

from svr_async.commands import options as opt
from svr_async.commands.log_flags import observed
from svr_async.commands.options import GroupedCommand, given_flags, option, together
from svr_async.scoring.methods.registry import NAMES

how_judged = together(
    option("--option NAME=VALUE", multiple=True, help="An option of the method (docs/methods.md)."),
    opt.top_k,
    option("--rephrase", is_flag=True, help="Fit the bank's rubrics to each prompt first: one more call a prompt."),
    opt.preset,
    option(
        "--order ORDER",
        type=click.Choice(["hash", "ab", "ba", "both"]),
        default="hash",
        help="Which response is shown first: hash (by the pair's id), ab, ba or both.",
    ),
    option("--audit 0..1", type=opt.SHARE, default=0.05, help="Share of pairs judged in both orders."),
    option("--audit-below MARGIN", type=opt.RATE, help="Judge in both orders if the first |margin| is smaller."),
    option(
        "--tie-credit 0|0.5",
        type=click.Choice(["0", "0.5"]),
        default="0",
        help="Credit for a tie in the official scores.",
    ),
    group="How a pair is judged",
)
several_judges = together(
    option("--jury J1,J2,…", help="Judges that all see every pair, instead of --judge."),
    option("--jury-rule", type=click.Choice(["mean", "majority"]), default="mean", help="Combine a jury's verdicts."),
    option("--escalate-to J", help="Ask this judge too if the first is unsure; its verdict decides."),
    option(
        "--escalate-below MARGIN",
        type=opt.AMOUNT,
        help="Unsure is a |margin| below this, a tie, or no verdict. Default: only the last two.",
    ),
    group="Several judges",
)


@click.command("eval", cls=GroupedCommand, context_settings=opt.HELP)
@click.argument("benchmark", metavar="SOURCE")
@opt.judge
@option(
    "--method METHOD",
    type=click.Choice(NAMES),
    help="How a pair is judged. Default: svr with --bank, fixed with --rubrics, else vanilla, without rubrics. "
    f"One of {', '.join(NAMES)}.",
)
@opt.bank
@option("--rubrics FILE", type=opt.PATH, help="A fixed list of rubrics: .txt, .json or .jsonl.")
@option("--data PATH", type=opt.PATH, help="The benchmark's file, instead of a download.")
@option("--sample", is_flag=True, help="Judge the small sample that ships with the package.")
@opt.limit
@opt.dry_run
@option("--out DIR", type=opt.FOLDER, help="Run folder. Default: runs/<bench>-<method>-<judge>-<digest>.")
@how_judged
@several_judges
@together(
    option("--format NAME", "adapter", help="Layout of SOURCE, if it is a file. Default: any pairs."),
    option("--domain NAME", multiple=True, help="Only this domain. Repeatable."),
    opt.reading,
    group="Reading the data",
)
@opt.limited
@together(
    option("--offline", is_flag=True, help="Use the cache only; open no socket."),
    option("--resume/--no-resume", default=True, help="Continue in an existing run folder (the default)."),
    option("--seed N", type=opt.SEED, default=0, help="Seed of orders and audits."),
    group="The run",
)
@together(
    opt.quiet,
    option("-v", "--verbose", is_flag=True, help="Print the reason of each retry."),
    group="Output and settings",
)
@opt.common
@opt.track
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
