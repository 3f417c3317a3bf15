"""`svr compare`: runs side by side, and each later one tested against the first on the items that both judged."""

from __future__ import annotations

from pathlib import Path

import click
import orjson

from svr_async.commands.options import common


@click.command()
@click.argument("runs", nargs=-1, required=True, metavar="RUN RUN...", type=click.Path(path_type=Path))
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the bootstrap.")
@common
def compare(runs: tuple[Path, ...], seed: int, config: object, as_json: bool) -> None:  # noqa: ARG001  (eager)
    """Compare runs over the same data: accuracy, exact McNemar test, bootstrap interval, Holm over domains.

    Each later run is tested against the first, on the pairs that both judged; pairs of a prompt are taken together.

    \b
    Example:
      svr compare runs/rubricbench-vanilla-qwen3-14b-77d0a4c3 runs/rubricbench-svr-qwen3-14b-1c9b7e20
    """
    from svr_async.evaluation.reporting.compare import compare_runs, item_of
    from svr_async.evaluation.runfolder import RunFolder

    found = compare_runs([RunFolder.load(run) for run in runs], seed=seed, cluster=item_of)
    if as_json:
        click.echo(orjson.dumps(found.to_json(), option=orjson.OPT_INDENT_2))
    else:
        from svr_async.commands.screen import safe_console, show_tables
        from svr_async.evaluation.reporting.compare_tables import comparison_tables

        console = safe_console()
        show_tables(console, comparison_tables(found, console.width), found.warnings)
