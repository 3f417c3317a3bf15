"""`svr train`: from preference pairs to a bank, with all rounds of Algorithm 1."""

from __future__ import annotations

from typing import Any

import click

from svr_async.commands.groups import GroupedCommand
from svr_async.commands.log_flags import observed
from svr_async.commands.options import (
    HELP,
    PATH,
    asking,
    common,
    learning_curve_option,
    licence_option,
    per_call_option,
    pool_option,
    pool_size_option,
    prefix_option,
    track_option,
)


@click.command(cls=GroupedCommand, context_settings=HELP)
@asking
@click.option("--out", type=PATH, required=True, metavar="DIR", help="Where bank/, the record and the stages go.")
@click.option("--rounds", type=click.IntRange(min=1), default=3, show_default=True, help="Rounds of Algorithm 1.")
@click.option(
    "--preset",
    type=click.Choice(["default", "paper"]),
    default="default",
    show_default=True,
    help="Our default, or the paper's text in every part (docs/fit.md has the table), its prompts and decontamination.",
)
@click.option(
    "--publish",
    type=click.Choice(["auto", "last", "best"]),
    help="Whose bank is published: the last round's, the best's by dev accuracy, or, with auto, the last's unless an "
    "earlier one is better by more than a standard error. Default: auto; last with --preset paper.",
)
@click.option(
    "--author", metavar="J", help="Who writes rubrics and probes, a text judge or rules, where that is not the judge."
)
@pool_option
@pool_size_option
@per_call_option
@prefix_option
@click.option(
    "--top-k",
    type=click.IntRange(min=1),
    help="Rubrics used for a prompt. Default: 6; at most 256 for the rules judge, which is free.",
)
@click.option(
    "--ablate",
    multiple=True,
    type=click.Choice(["induction", "support", "probe", "diversity"]),
    help="Leave a part out; may be given again. Without support, pairs are drawn at random, as many as there would be; "
    "with --preset paper every pair stands for them.",
)
@click.option(
    "--decontaminate",
    multiple=True,
    metavar="BENCH=PATH",
    help="Leave out pairs that share 13 words in a row with this benchmark; RubricBench with --preset paper.",
)
@learning_curve_option
@licence_option
@click.option("--replace", is_flag=True, help="Go over the finished bank of another training in DIR.")
@common
@track_option
@observed
def train(**flags: Any) -> int:
    """Train a bank on PAIRS: induce rubrics, judge, fit, prune, find the boundary, and again.

    A run that was stopped goes on when the same command is given again.

    \b
    Examples:
      svr train pairs.jsonl --judge rules --out banks/mine
      svr train pairs.jsonl --judge gpt-oss-120b --base-url http://127.0.0.1:8000/v1 --out banks/mine
    """
    from svr_async.commands.train.run import run_train

    return run_train(flags)
