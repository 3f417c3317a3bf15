"""`svr eval`, also installed as `svr-eval`: a method and a judge over a benchmark."""

from __future__ import annotations

from typing import Any

import click

from svr_async.commands.eval.plan_flags import plan_flags
from svr_async.commands.groups import USUAL, GroupedCommand
from svr_async.commands.log_flags import observed
from svr_async.commands.options import (
    HELP,
    PATH,
    common,
    dry_run_option,
    given_flags,
    limit_option,
    limited,
    min_coverage_option,
    offline_option,
    quiet_option,
    ray_option,
    reading,
    retry_errors_option,
    shard_option,
    top_k_option,
    track_option,
)
from svr_async.scoring.methods.registry import NAMES

GROUPS = {
    **{title: names for title, names in USUAL.items() if title != "How the bank is learned"},
    "How a pair is judged": ("preset", *USUAL["How a pair is judged"]),
}


@click.command(cls=GroupedCommand, groups=GROUPS, context_settings=HELP)
@click.argument("benchmark", metavar="SOURCE")
@click.option(
    "--judge",
    default="",
    metavar="J",
    help="Who judges: a judge of `svr judges`, URL#model, rm:URL, rules, recorded:PATH, or J+rules.",
)
@click.option(
    "--method",
    type=click.Choice(NAMES),
    metavar="METHOD",
    help="How rubrics are found. Default: svr with --bank, fixed with --rubrics, else vanilla, which has none. "
    f"One of {', '.join(NAMES)}.",
)
@click.option("--option", multiple=True, metavar="NAME=VALUE", help="An option of the method (docs/methods.md).")
@click.option("--bank", metavar="BANK", help="A trained bank: a folder, or hf:user/name[@revision].")
@top_k_option
@click.option("--rephrase", is_flag=True, help="Fit the bank's rubrics to each prompt first: one more call a prompt.")
@click.option(
    "--rubrics",
    type=PATH,
    metavar="FILE",
    help="A fixed list of rubrics: .txt, .json or .jsonl, with optional weights.",
)
@click.option(
    "--data",
    type=PATH,
    metavar="PATH",
    help="The benchmark's file, where it is not to be downloaded: as SOURCE.",
)
@click.option(
    "--format", "adapter", metavar="NAME", help="The layout of SOURCE, as in `svr data ls`. Default: any pairs."
)
@click.option("--sample", is_flag=True, help="Use the small set that ships with the package.")
@limit_option
@click.option("--domain", multiple=True, metavar="NAME", help="Only this domain; may be given again.")
@click.option(
    "--preset",
    type=click.Choice(["default", "paper"]),
    default="default",
    show_default=True,
    help="With paper, prompts in the paper's layout, unless --prompts names others (docs/reproduction.md).",
)
@click.option(
    "--order",
    type=click.Choice(["hash", "ab", "ba", "both"]),
    default="hash",
    show_default=True,
    help="Which response is shown first.",
)
@click.option(
    "--audit",
    type=click.FloatRange(0, 1),
    default=0.05,
    show_default=True,
    help="Share of pairs judged in both orders.",
)
@plan_flags
@limited
@shard_option
@ray_option
@dry_run_option
@offline_option
@click.option("--resume/--no-resume", default=True, help="Go on in an existing run folder (the default).")
@retry_errors_option
@min_coverage_option
@click.option(
    "--tie-credit",
    type=click.Choice(["0", "0.5"]),
    default="0",
    show_default=True,
    help="Credit for a tie in the official scores.",
)
@reading
@click.option("--seed", default="svr", show_default=True, help="Salt of the hash that orders and audits draw from.")
@click.option("--out", type=PATH, metavar="DIR", help="Run folder. Default: runs/<bench>-<method>-<judge>-<digest>.")
@quiet_option
@click.option("-v", "--verbose", is_flag=True, help="Say more: each retry's reason on a line.")
@common
@track_option
@observed
def evaluate(**flags: Any) -> int:
    """Judge SOURCE: a file or folder of pairs, - (standard input), hf:org/name, or a benchmark of `svr data ls`.

    \b
    Examples:
      svr eval rubricbench --sample --judge rules
      svr eval rubricbench --judge gpt-oss-120b --base-url http://127.0.0.1:8000/v1
      svr eval total_dataset.json --format rmbench --judge gpt-oss-120b
      svr eval my_pairs.jsonl --judge gpt-oss-120b --method self-rubric --dry-run
      svr eval rubricbench --judge small --escalate-to big --escalate-below 0.5 --audit-below 0.5

    Every flag is also a variable, as SVR_EVAL_JUDGE is --judge, and a key of a --config file.
    """
    from svr_async.commands.eval.run import run_command

    return run_command(flags, given_flags(click.get_current_context()))
