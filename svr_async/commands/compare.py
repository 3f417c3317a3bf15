"""`svr compare`: runs side by side, and each later one tested against the first on the items that both judged."""

from __future__ import annotations

from pathlib import Path

import click

from svr_async.commands.options import PATH, common, noise_option, seed_option


@click.command()
@click.argument("runs", nargs=-1, required=True, metavar="RUN RUN...", type=PATH)
@seed_option
@noise_option
@click.option("--by", metavar="COLUMN", help="Net advantage by domain, subset, order, outcome, gold, judge, source …")
@click.option("--disagreements", metavar="N|FILE", help="Pairs that only one has right: show N, or write .csv, .jsonl.")
@click.option(
    "--taxonomy",
    type=PATH,
    metavar="FILE",
    help="Pairs that both miss: write a form (.csv, .jsonl) to fill in; count it where it is there.",
)
@common
def compare(
    runs: tuple[Path, ...],
    seed: int,
    noise: Path | None,
    by: str | None,
    disagreements: str | None,
    taxonomy: Path | None,
    as_json: bool,
) -> None:
    """Compare runs over the same data: accuracy, exact McNemar test, bootstrap interval, Holm over domains.

    Each later run is tested against the first, on the pairs that both judged; pairs of a prompt are taken together.

    \b
    Example:
      svr compare runs/rubricbench-vanilla-qwen3-14b-77d0a4c3 runs/rubricbench-svr-qwen3-14b-1c9b7e20
    """
    from svr_async.commands.screen import print_json, safe_console, show
    from svr_async.core.table import warnings_of
    from svr_async.evaluation.noise import read_noise
    from svr_async.evaluation.reporting.compare import compare_runs, item_of
    from svr_async.evaluation.reporting.compare_tables import comparison_tables
    from svr_async.evaluation.reporting.overlap import parted_tables
    from svr_async.evaluation.run_folder import RunFolder
    from svr_async.evaluation.running.analysis import Wanted, analyse

    measured, loaded = None if noise is None else read_noise(noise), [RunFolder.load(run) for run in runs]
    found = compare_runs(loaded, seed=seed, cluster=item_of, noise=measured)
    wanted = Wanted(by=by, disagreements=disagreements, taxonomy=taxonomy)
    more = list(analyse(loaded, wanted, seed=seed))
    if as_json:
        print_json(found.to_json() | {name: value for name, value, _ in more})
        return
    where = () if disagreements else tuple(parted_tables(loaded))
    tables = (*comparison_tables(found, safe_console().width), *where, *(table for _, _, table in more))
    show([*warnings_of(found.warnings), *tables])
