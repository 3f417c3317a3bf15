"""`svr batch`: a run's missing calls as OpenAI Batch files, at half the price, and their replies back in the cache."""

from __future__ import annotations

from pathlib import Path

import click

from svr_async.commands.options import HELP, json_option

MOST_REQUESTS = 50_000  # OpenAI's limits for one file
MOST_MB = 200

folder_argument = click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
base_url_option = click.option(
    "--base-url", default="", metavar="URL", help="Where the batches are, over the export's."
)


@click.group()
def batch() -> None:
    """Make a run's calls as a batch, at half the price: export, submit, import, then run the command itself.

    \b
    Example:
      svr batch export batch/ eval rubricbench --judge gpt-5-mini
      svr batch submit batch/
      svr batch import batch/ --wait
      svr eval rubricbench --judge gpt-5-mini
    """


@batch.command(
    context_settings={**HELP, "allow_interspersed_args": False},
    short_help="Write the calls that a command is missing to files.",
)
@click.option(
    "--max-requests", type=click.IntRange(min=1), default=MOST_REQUESTS, show_default=True, help="Requests in a file."
)
@click.option("--max-mb", type=click.IntRange(min=1), default=MOST_MB, show_default=True, help="Size of a file in MB.")
@click.option("--only", metavar="J", help="Of several judges, whose calls; each goes into a folder of its own.")
@json_option
@folder_argument
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def export(
    folder: Path, command: tuple[str, ...], max_requests: int, max_mb: int, only: str | None, *, as_json: bool
) -> int:
    """Write the calls that COMMAND is missing to FOLDER. COMMAND: eval, judge, induce or train, with its own flags.

    Nothing is sent. What depends on replies that are not there yet, as verdicts on rubrics that a judge is still to
    write, is exported after the import, by the same command into another folder.

    \b
    Examples:
      svr batch export batch/ eval rubricbench --judge gpt-5-mini --order both
      svr batch export batch/ judge pairs.jsonl --candidates candidates.jsonl --judge gpt-5-mini --out store/
    """
    from svr_async.commands.batch.exporter import run_export
    from svr_async.engine.batch.requests import BatchLimits

    limits = BatchLimits(requests=max_requests, bytes=max_mb * 1_000_000)
    return run_export(folder, command, limits, only=only, as_json=as_json)


@batch.command(context_settings=HELP, short_help="Upload the files and ask for their batches.")
@folder_argument
@click.option("--window", default="24h", show_default=True, help="Within which the batch is to be done.")
@click.option("--again", is_flag=True, help="Ask anew for files whose batch failed as a whole, with nothing done.")
@base_url_option
@json_option
def submit(folder: Path, window: str, base_url: str, *, again: bool, as_json: bool) -> int:
    """Upload the files of an export and ask for their batches; what was submitted once is not submitted again.

    \b
    Example:  svr batch submit batch/
    """
    from svr_async.commands.batch.remote import run_submit

    return run_submit(folder, window, base_url, again=again, as_json=as_json)


@batch.command(context_settings=HELP)
@folder_argument
@base_url_option
@json_option
def status(folder: Path, base_url: str, *, as_json: bool) -> int:
    """Show how far the batches of an export are.

    \b
    Example:  svr batch status batch/
    """
    from svr_async.commands.batch.remote import run_status

    return run_status(folder, base_url, as_json=as_json)


@batch.command(context_settings=HELP, short_help="End the batches that have not ended.")
@folder_argument
@base_url_option
@json_option
def cancel(folder: Path, base_url: str, *, as_json: bool) -> int:
    """End the batches of an export that have not ended; what is done of them can still be imported.

    \b
    Example:  svr batch cancel batch/
    """
    from svr_async.commands.batch.remote import run_cancel

    return run_cancel(folder, base_url, as_json=as_json)


@batch.command("import", context_settings=HELP, short_help="Put the replies of the batches into the cache.")
@folder_argument
@click.argument("results", nargs=-1, type=click.Path(path_type=Path, dir_okay=False))
@click.option("--wait", is_flag=True, help="Look now and then until all batches have ended, then import.")
@base_url_option
@json_option
def import_(folder: Path, results: tuple[Path, ...], base_url: str, *, wait: bool, as_json: bool) -> int:
    """Put the replies of an export's batches into the cache; with RESULTS, those of local files, as vllm run-batch's.

    Without RESULTS the batches' files are downloaded to FOLDER, and every results-*.jsonl and errors-*.jsonl there is
    read. Only replies that answer their questions are kept. Exit 3 where some are still missing.

    \b
    Examples:
      svr batch import batch/
      svr batch import batch/ out.jsonl
    """
    from svr_async.commands.batch.importer import run_import

    return run_import(folder, results, base_url, wait=wait, as_json=as_json)
