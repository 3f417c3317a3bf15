"""`svr fit`, also installed as `svr-fit`: from a feature store to a fitted bank, with no judge and no network."""

from __future__ import annotations

from typing import Any

import click

from svr_async.commands.groups import GroupedCommand
from svr_async.commands.options import HELP, PATH, common, learning_curve_option, licence_option, track_option


@click.command(cls=GroupedCommand, context_settings=HELP)
@click.argument("store", type=PATH)
@click.option("--out", type=PATH, required=True, metavar="DIR", help="Where the bank goes.")
@click.option(
    "--preset",
    type=click.Choice(["default", "paper"]),
    help="Default: as the store was trained, else our default fit; paper is the paper's text.",
)
@click.option("--epochs", type=click.IntRange(min=0), help="Epochs of --preset paper, over its own 8.")
@click.option("--seed", type=click.IntRange(min=0), help="Default: the store's, 42 where it has none.")
@click.option(
    "--seeds", type=click.IntRange(min=1), default=1, show_default=True, help="Fit this often; keep the best."
)
@click.option(
    "--top-k", type=click.IntRange(min=1), help="Rubrics used for a prompt. Default: as the store was judged."
)
@learning_curve_option
@click.option(
    "--devices", type=click.IntRange(min=1), metavar="N", help="Share pairs out to N JAX devices. Default: one."
)
@click.option(
    "--sweep",
    multiple=True,
    metavar="NAME=VALUES",
    help="Fit with each value, as seed=0..9 or sparsity=0.03,0.1, all combinations; or a .toml or .json file of them.",
)
@click.option("--keep-all", is_flag=True, help="With --sweep: each bank, in DIR/banks.")
@licence_option
@click.option("-q", "--quiet", is_flag=True, help="No table of epochs.")
@common
@track_option
def fit(**flags: Any) -> int:
    """Fit selector and weights on a feature STORE and write a bank. Uses the GPU where JAX finds one.

    Fits, prunes and calibrates as training does: the store of a round of svr train gives that round's bank. A fit that
    was stopped goes on when the same command is given again.

    \b
    Examples:
      svr-fit store/ --out banks/mine --seeds 5
      svr-fit banks/mine/stores/round-3 --out banks/again
      svr-fit store/ --out banks/swept --sweep seed=0..4 --sweep sparsity=0.03,0.1,0.3
    """
    from svr_async.commands.train.fit import run_fit

    return run_fit(flags)
