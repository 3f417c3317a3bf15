"""`svr eval`, also installed as `svr-eval`: judges a benchmark or a file of pairs."""

from __future__ import annotations

from typing import Any

import click

from svr_async.commands import options as opt
from svr_async.commands.log_flags import observed
from svr_async.commands.options import GroupedCommand, flag, given_flags, option, together
from svr_async.scoring.methods.registry import NAMES

how_judged = together(
    option("--option NAME=VALUE", "An option of the method (docs/methods.md).", multiple=True),
    opt.top_k,
    flag("--rephrase", "Fit the bank's rubrics to each prompt first: one more call a prompt."),
    opt.preset,
    option(
        "--order ORDER",
        "Which response is shown first: hash (by the pair's id), ab, ba or both.",
        type=click.Choice(["hash", "ab", "ba", "both"]),
        default="hash",
    ),
    option("--audit 0..1", "Share of pairs judged in both orders.", type=opt.SHARE, default=0.05),
    option("--audit-below MARGIN", "Judge in both orders if the first |margin| is smaller.", type=opt.RATE),
    option(
        "--tie-credit 0|0.5", "Credit for a tie in the official scores.", type=click.Choice(["0", "0.5"]), default="0"
    ),
    group="How a pair is judged",
)
several_judges = together(
    option("--jury J1,J2,…", "Judges that all decide every pair, instead of --judge."),
    option("--jury-rule", "Combine a jury's verdicts.", type=click.Choice(["mean", "majority"]), default="mean"),
    option("--escalate-to J", "Ask this judge too if the first is unsure; its verdict decides."),
    option(
        "--escalate-below MARGIN",
        "Unsure is a |margin| below this, a tie, or no verdict. Default: only the last two.",
        type=opt.AMOUNT,
    ),
    group="Several judges",
)


@click.command("eval", cls=GroupedCommand, context_settings=opt.HELP)
@click.argument("benchmark", metavar="SOURCE")
@opt.judge
@option(
    "--method METHOD",
    "How a pair is judged. Default: svr with --bank, fixed with --rubrics, else direct, without rubrics. "
    f"One of {', '.join(NAMES)}.",
    type=click.Choice(NAMES),
)
@opt.bank
@option("--rubrics FILE", "A fixed list of rubrics: .txt, .json or .jsonl.", type=opt.PATH)
@option("--data PATH", "The benchmark's file, instead of a download.", type=opt.PATH)
@flag("--sample", "Judge the small sample that ships with the package.")
@opt.limit
@opt.dry_run
@option("--out DIR", "Run folder. Default: runs/<bench>-<method>-<judge>-<digest>.", type=opt.FOLDER)
@how_judged
@several_judges
@together(
    option("--format NAME", "Layout of SOURCE, if it is a file. Default: any pairs.", name="adapter"),
    option("--domain NAME", "Only this domain. Repeatable.", multiple=True),
    opt.reading,
    group="Reading the data",
)
@opt.limited
@together(
    flag("--offline", "Use the cache only; open no socket."),
    option("--seed N", "Seed of orders and audits.", type=opt.SEED, default=0),
    group="The run",
)
@together(
    opt.quiet,
    flag("-v --verbose", "Print the reason of each retry."),
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
      svr eval rubricbench --judge small --escalate-to big --escalate-below 0.5

    Every option is also a variable (SVR_EVAL_JUDGE is --judge) and a key of a --config file.
    """
    from svr_async.commands.eval_run import run_eval

    return run_eval(flags, given_flags(click.get_current_context()))
