"""`svr pairs`: preference pairs made of ranked responses."""

from __future__ import annotations

from pathlib import Path

import click

from svr_async.commands.options import common


@click.group()
def pairs() -> None:
    """Preference pairs of ranked responses: rejection sampling.

    \b
    Example:  svr pairs build ranked.jsonl --out pairs.jsonl
    """


@pairs.command(short_help="Make preference pairs of what svr rank FILE wrote.")
@click.argument("ranked", type=click.Path(path_type=Path))
@click.option(
    "--out", type=click.Path(path_type=Path), required=True, metavar="FILE", help="A .jsonl file, or .jsonl.gz."
)
@click.option("--min-margin", type=click.FloatRange(min=0), default=0.0, help="Leave out pairs of nearer scores.")
@click.option("--every", is_flag=True, help="Each better against each worse response, not only best against worst.")
@common
def build(ranked: Path, out: Path, min_margin: float, every: bool, as_json: bool) -> None:
    """Make preference pairs of RANKED, which `svr rank FILE` wrote; each row names the judge and the bank.

    \b
    Example:  svr pairs build ranked.jsonl --min-margin 0.5 --out pairs.jsonl
    """
    from svr_async.adapters.pair_files import refuse_other_names, refuse_to_overwrite, write_rows
    from svr_async.adapters.tables import read_rows
    from svr_async.commands.screen import tell
    from svr_async.serving.preferences import preference_rows

    refuse_other_names(out)
    refuse_to_overwrite(out, [ranked])
    made, counts = preference_rows(read_rows(ranked), min_margin=min_margin, every=every)
    write_rows(out, made)
    tell(counts, ", ".join(f"{name}: {n:,}" for name, n in counts.items()), as_json=as_json)
