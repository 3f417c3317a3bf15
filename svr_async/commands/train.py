"""`svr train`: from preference pairs to a bank, with all rounds of Algorithm 1."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from svr_async.commands.options import common


@click.command(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.argument("pairs", type=click.Path(path_type=Path))
@click.option(
    "--format",
    "adapter",
    default="pairs",
    show_default=True,
    metavar="NAME",
    help="The adapter that reads PAIRS: pairs, helpsteer3, rmb …",
)
@click.option(
    "--judge",
    default="rules",
    show_default=True,
    metavar="J",
    help="Judge, inducer and prober: a judge of `svr judges`, URL#model, rules.",
)
@click.option("--base-url", default="", metavar="URL", help="Where the endpoint is, over the profile's.")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    required=True,
    metavar="DIR",
    help="Where bank/, the record and the stages go.",
)
@click.option("--rounds", type=click.IntRange(min=1), default=3, show_default=True, help="Rounds of Algorithm 1.")
@click.option(
    "--preset",
    type=click.Choice(["default", "paper"]),
    default="default",
    show_default=True,
    help="The fit: our default, or the paper's text.",
)
@click.option(
    "--pool",
    type=click.Choice(["cross", "own", "all"]),
    help="Rubrics judged per pair. Default: cross; all for the rules judge, which is free.",
)
@click.option("--pool-size", type=click.IntRange(min=1), default=18, show_default=True, help="Rubrics in a pool.")
@click.option(
    "--top-k",
    type=click.IntRange(min=1),
    help="Rubrics used for a prompt. Default: 6; chosen on dev for the rules judge.",
)
@click.option(
    "--ablate",
    multiple=True,
    type=click.Choice(["induction", "support", "probe", "diversity"]),
    help="Leave a part out; may be given again.",
)
@click.option(
    "--decontaminate",
    multiple=True,
    metavar="BENCH=PATH",
    help="Leave out pairs that share 13 words in a row with this benchmark.",
)
@click.option("--limit", metavar="N|A-B", help="The first N pairs, or pairs A to B.")
@click.option(
    "--seed", type=click.IntRange(min=0), default=42, show_default=True, help="Seed of the split and the fit."
)
@click.option("--concurrency", default="auto", show_default=True, metavar="auto|N", help="Calls in flight at most.")
@click.option("--budget", type=click.FloatRange(min=0), metavar="USD", help="Stop before spending more.")
@click.option("--max-calls", type=click.IntRange(min=0), metavar="N", help="Stop before sending more.")
@click.option(
    "--prompts", type=click.Path(path_type=Path), metavar="DIR", help="Prompt templates in place of the shipped ones."
)
@click.option(
    "--memo",
    type=click.Path(path_type=Path),
    default=Path("cache/memo"),
    show_default=True,
    metavar="DIR",
    help="Where replies are kept.",
)
@click.option("--licence", default="", metavar="TEXT", help="The licence of the bank, for its card.")
@click.option("-q", "--quiet", is_flag=True, help="No progress.")
@common
def train(**flags: Any) -> int:
    """Train a bank on PAIRS: induce rubrics, judge, fit, prune, find the boundary, and again.

    A run that was stopped goes on when the same command is given again.

    \b
    Examples:
      svr train pairs.jsonl --judge rules --out banks/mine
      svr train pairs.jsonl --judge gpt-oss-120b --base-url http://127.0.0.1:8000/v1 --out banks/mine
    """
    from svr_async.commands.training import TrainFlags, run_command  # noqa: PLC0415  (--help stays quick)

    flags.pop("config")
    return run_command(TrainFlags(**flags))
