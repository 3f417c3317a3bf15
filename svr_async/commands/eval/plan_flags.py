"""The flags of `svr eval` that say who judges what, and how much of it."""

from __future__ import annotations

import click

from svr_async.commands.options import together

plan_flags = together(
    click.option(
        "--audit-below",
        type=click.FloatRange(min=0, min_open=True),
        metavar="MARGIN",
        help="Judge in both orders only where the first |margin| is below this; means --order both.",
    ),
    click.option(
        "--jury", metavar="J1,J2,…", help="Several judges, all of which see every pair, in the place of --judge."
    ),
    click.option(
        "--jury-rule",
        type=click.Choice(["mean", "majority"]),
        default="mean",
        show_default=True,
        help="How a jury decides: by the mean of the margins, or by votes.",
    ),
    click.option(
        "--escalate-to", metavar="J", help="Ask this judge too where the first is unsure; its verdict decides."
    ),
    click.option(
        "--escalate-below",
        type=click.FloatRange(min=0),
        metavar="MARGIN",
        help="Unsure is a |margin| below this, a tie, or no verdict. Default: only the last two.",
    ),
    click.option(
        "--report",
        type=click.Choice(["frontier"]),
        help="Also write frontier.html: accuracy against cost over thresholds, from the cache alone.",
    ),
)
