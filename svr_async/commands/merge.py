"""`svr merge`: one run from the shards of several machines."""

from __future__ import annotations

from pathlib import Path

import click

from svr_async.commands.options import PATH, common


@click.command()
@click.argument("shards", nargs=-1, required=True, type=PATH)
@click.option("--out", required=True, type=PATH, metavar="RUN", help="Where the run is written.")
@common
def merge(shards: tuple[Path, ...], out: Path, as_json: bool) -> None:
    """Merge all SHARDS of a run (folders of svr eval --shard) into the run that one machine would have written.

    Data, bank and judges.toml must be here; nothing is sent.

    \b
    Example:  svr merge runs/*-shard-*-of-4 --out runs/whole
    """
    from svr_async.commands.watching import Screen
    from svr_async.evaluation.shards import merge_shards

    Screen(quiet=True, verbose=False, as_json=as_json).ended(merge_shards(shards, out))
