"""`svr induce` and `svr judge`: the first two stages of training by themselves."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from svr_async.commands.options import common

F = TypeVar("F", bound=Callable[..., Any])


def _asking(function: F) -> F:
    """Add the options of a command that asks a judge about pairs."""
    options = [
        click.argument("pairs", type=click.Path(path_type=Path)),
        click.option("--format", "adapter", default="pairs", show_default=True, metavar="NAME"),
        click.option(
            "--judge",
            default="rules",
            show_default=True,
            metavar="J",
            help="A judge of `svr judges`, URL#model, rules.",
        ),
        click.option("--base-url", default="", metavar="URL", help="Where the endpoint is, over the profile's."),
        click.option("--limit", metavar="N|A-B", help="The first N pairs, or pairs A to B."),
        click.option("--seed", type=click.IntRange(min=0), default=42, show_default=True, help="Seed of the split."),
        click.option("--concurrency", default="auto", show_default=True, metavar="auto|N"),
        click.option("--budget", type=click.FloatRange(min=0), metavar="USD", help="Stop before spending more."),
        click.option("--max-calls", type=click.IntRange(min=0), metavar="N", help="Stop before sending more."),
        click.option("--prompts", type=click.Path(path_type=Path), metavar="DIR"),
        click.option("--memo", type=click.Path(path_type=Path), default=Path("cache/memo"), show_default=True),
        click.option("-q", "--quiet", is_flag=True, help="No progress."),
    ]
    for option in reversed(options):
        function = option(function)
    return function


@click.command(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@_asking
@click.option("--descriptive", is_flag=True, help="Describe good responses instead of contrasting two (the ablation).")
@click.option(
    "--out", type=click.Path(path_type=Path), required=True, metavar="FILE.jsonl", help="Where candidates go."
)
@common
def induce(**flags: Any) -> int:
    """Induce candidate rubrics from PAIRS; near-identical ones are merged, dev pairs are left out.

    \b
    Example:  svr induce pairs.jsonl --judge rules --out candidates.jsonl
    """
    from svr_async.commands.stages import run_induce  # noqa: PLC0415  (--help stays quick)

    flags.pop("config")
    return run_induce(flags)


@click.command(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@_asking
@click.option("--bank", type=click.Path(path_type=Path), metavar="DIR", help="Judge on the rubrics of this bank.")
@click.option(
    "--candidates", type=click.Path(path_type=Path), metavar="FILE.jsonl", help="Judge on what svr induce wrote."
)
@click.option("--pool", type=click.Choice(["cross", "own", "all"]), help="Default: cross; all for the rules judge.")
@click.option("--pool-size", type=click.IntRange(min=1), default=18, show_default=True, help="Rubrics in a pool.")
@click.option("--out", type=click.Path(path_type=Path), required=True, metavar="DIR", help="The feature store.")
@common
def judge(**flags: Any) -> int:
    """Judge pools of rubrics on PAIRS and write a feature store for svr-fit.

    \b
    Example:  svr judge pairs.jsonl --candidates candidates.jsonl --judge rules --out store/
    """
    from svr_async.commands.stages import run_judge  # noqa: PLC0415

    flags.pop("config")
    return run_judge(flags)
