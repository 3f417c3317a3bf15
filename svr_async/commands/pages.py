"""`svr view` and `svr report`: runs and banks as pages and tables."""

from __future__ import annotations

from pathlib import Path

import click

from svr_async.commands.options import PATH, json_option
from svr_async.commands.screen import tell
from svr_async.errors import UsageError


@click.command()
@click.argument("runs", nargs=-1, metavar="[RUN] [RUN]", type=PATH)
@click.option("--out", type=PATH, metavar="FILE", help="Where to write the page. Default: a temporary file.")
@click.option("--data", type=PATH, metavar="PATH", help="The run's data, if it has moved.")
@click.option("--calls", is_flag=True, help="Include requests and replies; the page is larger.")
@click.option("--no-open", is_flag=True, help="Write the page without opening a browser.")
@json_option
def view(
    runs: tuple[Path, ...], out: Path | None, data: Path | None, calls: bool, no_open: bool, as_json: bool
) -> None:
    """Open a page with every item of RUN (the latest run by default), or of two runs side by side.

    Items can be searched, filtered, sorted and labelled. The page is one file that works without a network.

    \b
    Examples:
      svr view
      svr view runs/first runs/second --out both.html --no-open
    """
    from svr_async.commands.results import runs_under
    from svr_async.reports.files import open_page, write_page

    if out is not None and out.suffix.lower() not in {".html", ".htm"}:
        raise UsageError(f"--out {out} is not an HTML file", hint="name a .html file")
    if not runs:
        latest = next(runs_under((Path("runs"),)), None)
        if latest is None:
            raise UsageError("no runs under ./runs", hint="svr view RUN, or svr eval to judge one")
        runs = (latest[0],)
    target, n_bytes = write_page(runs, out, data=data, calls=calls)
    opened = not no_open and open_page(target)
    text = f"wrote {target} ({n_bytes / 1000:,.0f} kB){'' if opened or no_open else '; no browser to open it'}"
    tell({"out": str(target), "bytes": n_bytes, "opened": opened}, text, as_json=as_json, line=True)


@click.command()
@click.argument("runs", nargs=-1, required=True, metavar="RUN...", type=PATH)
@click.option(
    "--out",
    type=PATH,
    metavar="FILE",
    help="Where to write; the suffix (.html .md .tex .csv) says what. "
    "Default: report.html in the folder, or comparison.html here for several runs.",
)
@click.option(
    "--frontier",
    is_flag=True,
    help="Accuracy against cost from kept replies alone, over thresholds, judges and juries: .html .csv .json.",
)
@click.option(
    "--figures",
    type=PATH,
    metavar="DIR",
    help="Write the figures as SVG, for light and dark pages, and PNG.",
)
@json_option
def report(
    runs: tuple[Path, ...],
    out: Path | None,
    frontier: bool,
    figures: Path | None,
    as_json: bool,
) -> None:
    """Write one run, several side by side, or a bank, as a page or a table.

    RUN is the folder of a run or of a bank. The page of a bank shows its rubrics, its fit and, with runs as well, what
    its rubrics did there. The HTML page is one file that makes no requests and can be mailed as it is. The page
    of one run has a table of all its items, which svr view opens at once.

    \b
    Examples:
      svr report runs/rubricbench-svr-gpt-oss-120b-1c9b7e20
      svr report runs/first runs/second --out both.html
      svr report runs/first --out table.tex
      svr report runs/first runs/second --figures figures
      svr report banks/mine/bank
      svr report banks/mine/bank runs/first runs/second
      svr report runs/small-judge runs/large-judge --frontier
    """
    if frontier:
        _report_frontier(runs, out, figures, as_json)
        return
    from svr_async.reports.files import write_report

    target, n_bytes, of_bank = write_report(runs, out, figures)
    facts = {"out": str(target), "bytes": n_bytes, "runs": [str(run) for run in runs]}
    tell(facts, f"wrote {target} ({n_bytes / 1000:,.0f} kB)", as_json=as_json, line=True)
    if not of_bank and not as_json:
        _show_rubrics(runs)


def _show_rubrics(runs: tuple[Path, ...]) -> None:
    """Print the rubrics that decide, of one run by domain, of several by run."""
    from svr_async.commands.screen import safe_console, show
    from svr_async.evaluation.run_folder import RunFolder
    from svr_async.reports.effects import effects_of, effects_tables

    found = effects_of([RunFolder.load(run) for run in runs])
    show(effects_tables(found, "rubrics that decide", width=safe_console().width))


def _report_frontier(runs: tuple[Path, ...], out: Path | None, figures: Path | None, as_json: bool) -> None:
    from svr_async.reports.files import write_frontier
    from svr_async.reports.frontier import as_json as frontier_json

    target = out or runs[0] / "frontier.html"
    found = write_frontier(runs, target, figures)
    if as_json:
        click.echo(frontier_json(found))
    else:
        click.echo(
            f"wrote {target}: {len(found.points)} plans, {len(found.best)} of them the best for their cost, "
            f"{len(found.left_out)} left out for want of replies; nothing was sent"
        )
