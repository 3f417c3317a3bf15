"""`svr view`, `svr report`, `svr repro`: runs, banks and the paper's results as pages and tables."""

from __future__ import annotations

import webbrowser
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from svr_async.commands import options as opt
from svr_async.commands.options import GroupedCommand, flag, known_of, option, together, with_limits
from svr_async.commands.screen import spinner, tell
from svr_async.errors import UsageError


@click.command()
@click.argument("runs", nargs=-1, metavar="[RUN|BANK] [RUN]", type=opt.PATH)
@option("--out FILE", "Where to write the page. Default: a temporary file.", type=opt.PATH)
@opt.moved_data
@flag("--calls", "Include requests and replies; the page is larger.")
@flag("--no-open", "Write the page without opening a browser.")
@opt.json
def view(
    runs: tuple[Path, ...], out: Path | None, data: Path | None, calls: bool, no_open: bool, as_json: bool
) -> None:
    """Open a page with every item of RUN (the latest run by default) or of two runs, or the page of a bank.

    Items can be searched, filtered, sorted and labelled. The page is one file that works without a network.

    \b
    Examples:
      svr view
      svr view runs/first runs/second --out both.html --no-open
    """
    from svr_async.commands.results import runs_under
    from svr_async.reports.files import write_page

    if out is not None and out.suffix.lower() not in {".html", ".htm"}:
        raise UsageError(f"--out {out} is not an HTML file", hint="name a .html file")
    if not runs:
        latest = next(runs_under((Path("runs"),)), None)
        if latest is None:
            raise UsageError("no runs under ./runs", hint="svr view RUN, or svr eval to judge one")
        runs = (latest[0],)
    with spinner("writing the page", quiet=as_json):
        target, n_bytes = write_page(runs, out, data=data, calls=calls)
    opened = False
    if not no_open:
        with suppress(webbrowser.Error, OSError):  # a machine without a browser
            opened = webbrowser.open(target.resolve().as_uri())
    text = f"wrote {target} ({n_bytes / 1000:,.0f} kB){'' if opened or no_open else '; no browser to open it'}"
    tell({"out": str(target), "bytes": n_bytes, "opened": opened}, text, as_json=as_json, line=True)


@click.command()
@click.argument("runs", nargs=-1, required=True, metavar="RUN...", type=opt.PATH)
@option(
    "--out FILE",
    "Where to write: .html .md .tex .csv. Default: report.html in the folder, comparison.html for several runs.",
    type=opt.PATH,
)
@flag("--frontier", "Accuracy against cost of judges, second judges and juries: .html .csv .json.")
@option("--figures DIR", "Write the figures too, as SVG and PNG.", type=opt.PATH)
@opt.json
def report(runs: tuple[Path, ...], out: Path | None, frontier: bool, figures: Path | None, as_json: bool) -> None:
    """Write one run, several side by side, or a bank, as a page or a table.

    RUN is the folder of a run or of a bank. The page of a bank shows its rubrics, its fit and, with runs as well, what
    its rubrics did there. The HTML page is one file that makes no requests and can be mailed as it is.

    \b
    Examples:
      svr report runs/first --out table.tex
      svr report runs/first runs/second --figures figures
      svr report banks/mine/bank runs/first runs/second
      svr report runs/small-judge runs/large-judge --frontier
    """
    from svr_async.commands.screen import safe_console, show
    from svr_async.evaluation.run_folder import Run
    from svr_async.reports.effects import effects_of, effects_tables
    from svr_async.reports.files import write_frontier, write_report
    from svr_async.reports.frontier import as_json as frontier_json

    if frontier:
        target = out or runs[0] / "frontier.html"
        plans = write_frontier(runs, target, figures)
        counts = f"{len(plans.points)} plans, {len(plans.best)} of them the best for their cost"
        click.echo(frontier_json(plans) if as_json else f"wrote {target}: {counts}; nothing was sent")
        return
    with spinner("writing the page", quiet=as_json):
        target, n_bytes, of_bank = write_report(runs, out, figures)
    facts = {"out": str(target), "bytes": n_bytes, "runs": [str(run) for run in runs]}
    tell(facts, f"wrote {target} ({n_bytes / 1000:,.0f} kB)", as_json=as_json, line=True)
    if not of_bank and not as_json:
        found = effects_of([Run.load(run) for run in runs])
        show(effects_tables(found, "rubrics that decide", width=safe_console().width))


@click.command(cls=GroupedCommand, context_settings=opt.HELP)
@click.argument("tables", nargs=-1, metavar="[TABLE]...")
@option("--data DIR|NAME=PATH", "Files of the benchmarks, by name.", multiple=True)
@option("--train PATH|helpsteer3", "Pairs that banks are trained on.", default="")
@option("--judge [ROLE=]J", "The judge of all roles, or of one.", multiple=True)
@option("--bank [NAME=]DIR", "A trained bank, for the full one or by name.", multiple=True)
@opt.preset
@flag("--decontaminate", "Leave out train pairs that overlap with the benchmarks of --data.")
@opt.limit
@option("--figures DIR", "Draw figures too, as SVG and PNG.", type=opt.PATH)
@opt.few_limits
@together(opt.price, group="The endpoint")
@opt.dry_run
@option("--out DIR", "Folder of the results.", type=opt.FOLDER, default="runs/repro")
@opt.common
def repro(**flags: Any) -> int:
    """Rebuild TABLES of the paper, or all; without TABLE, list them.

    \b
    Examples:
      svr repro all --data simulated/ --judge gpt-4o-mini --dry-run
      svr repro rubricbench --train helpsteer3 --judge gpt-oss-120b --budget 50
    """
    from svr_async.reproduction.paper import list_tables, load_recipes
    from svr_async.reproduction.reproduce import count, reproduce
    from svr_async.reproduction.runner import ReproSettings, by_name, data_files, training_source

    if not flags["tables"]:
        click.echo(list_tables())
        return 0
    recipes, data = load_recipes(), data_files(flags["data"])
    judge, judges = by_name(flags["judge"], "judge", tuple(recipes.roles))
    bank, banks = by_name(flags["bank"], "bank", tuple(recipes.banks))
    adapter, train = training_source(flags["train"], data)
    named = {"judge": judge, "judges": judges, "banks": ({"full": bank} if bank else {}) | banks}
    values = with_limits({**flags, "dry_run": False}) | named | {"data": data, "train": train, "adapter": adapter}
    settings = ReproSettings(**known_of(ReproSettings, values))
    say = (lambda _: None) if flags["as_json"] else lambda text: click.echo(text, err=True)
    done = (count if flags["dry_run"] else reproduce)(settings, flags["tables"], say)
    tell(done.as_json(), done.in_words(), as_json=flags["as_json"])
    return 0
