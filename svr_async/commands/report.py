"""`svr report`: runs or a bank as a self-contained HTML page; runs also as a table in Markdown, LaTeX or CSV."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click
import orjson

from svr_async.commands.options import PATH, common

FORMATS = ("html", "md", "tex", "csv")


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
    help="Write figures as SVG and PNG for light and dark pages, and show them in the page (needs matplotlib).",
)
@click.option("--summary", is_flag=True, help="One run's page without its items: small, and without a script.")
@click.option("--data", type=PATH, metavar="PATH", help="The run's data, where it has moved.")
@common
def report(
    runs: tuple[Path, ...],
    out: Path | None,
    frontier: bool,
    figures: Path | None,
    summary: bool,
    data: Path | None,
    as_json: bool,
) -> None:
    """Write one run, several side by side, or a bank, as a page or a table.

    RUN is a run's folder, or a bank's: then the page shows how it was fitted, what is in it, and what its rubrics did
    in the runs named beside it. The HTML page is one file that makes no requests and can be mailed as it is. The page
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
    from svr_async.errors import UsageError
    from svr_async.evaluation.reporting.bank_report import write_bank_report

    bank, judged = bank_and_runs(runs)
    target = out or default_target(runs)
    if data is not None and (len(runs) > 1 or summary or bank is not None):
        raise UsageError("--data is for the items of one run", hint="svr view RUN RUN --data PATH shows those of two")
    if bank is None:
        n_bytes = write_report(runs, target, Written(figures=figures, items=len(runs) == 1 and not summary, data=data))
    else:
        n_bytes = write_bank_report(bank, target, figures, judged)
    if as_json:
        click.echo(orjson.dumps({"out": str(target), "bytes": n_bytes, "runs": [str(run) for run in runs]}))
    else:
        click.echo(f"wrote {target} ({n_bytes / 1000:,.0f} kB)")
        if bank is None:
            _show_rubrics(runs)


def _show_rubrics(runs: tuple[Path, ...]) -> None:
    """Print the rubrics that decide, of one run by domain, of several by run."""
    from svr_async.commands.screen import safe_console, show
    from svr_async.evaluation.reporting.rubric_tables import effects_of, rubric_tables
    from svr_async.evaluation.reporting.table_sheet import tables_sheet
    from svr_async.evaluation.runfolder import RunFolder

    found = effects_of([RunFolder.load(run) for run in runs])
    show(tables_sheet(rubric_tables(found, "rubrics that decide", width=safe_console().width)))


def _report_frontier(runs: tuple[Path, ...], out: Path | None, figures: Path | None, as_json: bool) -> None:
    from svr_async.evaluation.reporting.frontier_files import as_json as frontier_json
    from svr_async.evaluation.running.frontier import write_frontier

    target = out or runs[0] / "frontier.html"
    found = write_frontier(runs, target, figures)
    if as_json:
        click.echo(frontier_json(found))
    else:
        click.echo(
            f"wrote {target}: {len(found.points)} plans, {len(found.best)} of them the best for their cost, "
            f"{len(found.left_out)} left out for want of replies; nothing was sent"
        )


def default_target(runs: tuple[Path, ...]) -> Path:
    """Return where a page goes that no --out names: beside what it shows."""
    if len(runs) == 1 or _bank_in(runs[0]) is not None:
        return runs[0] / "report.html"
    return Path("comparison.html")


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What is written beside the summary: figures into a folder, all items into the page, with the texts of `data`."""

    figures: Path | None = None
    items: bool = False
    data: Path | None = None


def write_report(runs: tuple[Path, ...], target: Path, more: Written) -> int:
    """Write the runs in the format of the target's suffix and return its bytes; UsageError for an unknown suffix."""
    from svr_async.errors import UsageError
    from svr_async.evaluation.reporting.report import render_report
    from svr_async.evaluation.reporting.run_figures import draw_runs
    from svr_async.evaluation.reporting.tables import render_table
    from svr_async.evaluation.runfolder import RunFolder, write_atomic
    from svr_async.evaluation.running.view import page_of

    kind = target.suffix.lower().removeprefix(".")
    if kind not in FORMATS:
        raise UsageError(f"--out {target}: no format for this suffix", hint="use .html, .md, .tex or .csv")
    loaded = [RunFolder.load(run) for run in runs]
    drawn = draw_runs(loaded, more.figures) if more.figures else ()
    if kind != "html":
        text = render_table(loaded, kind)
    elif more.items:
        text = page_of(loaded, data=more.data, figures=drawn)
    else:
        text = render_report(loaded, figures=drawn)
    data = text.encode()
    write_atomic(target, data)
    return len(data)


def bank_and_runs(named: tuple[Path, ...]) -> tuple[Path | None, tuple[Path, ...]]:
    """Return the bank's folder where one is named, or a training's that holds one, else None; and the runs."""
    from svr_async.errors import UsageError

    places = [(path, _bank_in(path)) for path in named]
    banks = [folder for _, folder in places if folder is not None]
    if len(banks) > 1:
        raise UsageError("a bank's report shows one bank", hint="svr bank diff compares two banks")
    return (banks[0] if banks else None), tuple(path for path, folder in places if folder is None)


def _bank_in(path: Path) -> Path | None:
    if (path / "metrics.json").exists():
        return None  # a run
    return next((folder for folder in (path, path / "bank") if (folder / "bank.json").is_file()), None)
