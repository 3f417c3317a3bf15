"""`svr induce` and `svr judge`: the first two stages of training by themselves."""

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
    per_call_option,
    pool_option,
    pool_size_option,
    prefix_option,
)


@click.command(cls=GroupedCommand, context_settings=HELP)
@asking
@click.option("--descriptive", is_flag=True, help="Describe good responses instead of contrasting two (the ablation).")
@click.option("--out", type=PATH, required=True, metavar="FILE.jsonl", help="Where candidates go.")
@common
@observed
def induce(**flags: Any) -> int:
    """Induce candidate rubrics from PAIRS; near-identical ones are merged, dev pairs are left out.

    \b
    Example:  svr induce pairs.jsonl --judge rules --out candidates.jsonl
    """
    from svr_async.commands.train.stages import run_induce

    return run_induce(flags)


@click.command(cls=GroupedCommand, context_settings=HELP)
@asking
@click.option("--bank", type=PATH, metavar="DIR", help="Judge on the rubrics of this bank.")
@click.option("--candidates", type=PATH, metavar="FILE.jsonl", help="Judge on what svr induce wrote.")
@pool_option
@pool_size_option
@per_call_option
@prefix_option
@click.option("--out", type=PATH, required=True, metavar="DIR", help="The feature store.")
@common
@observed
def judge(**flags: Any) -> int:
    """Judge pools of rubrics on PAIRS and write a feature store for svr-fit.

    \b
    Example:  svr judge pairs.jsonl --candidates candidates.jsonl --judge rules --out store/
    """
    from svr_async.commands.train.stages import run_judge

    return run_judge(flags)
