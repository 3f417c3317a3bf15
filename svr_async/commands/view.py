"""`svr view`: all items of a run in the browser, or those on which two runs differ."""

from __future__ import annotations

from pathlib import Path

import click

from svr_async.commands.options import PATH, cache_option, common, given_flags
from svr_async.errors import UsageError


@click.command()
@click.argument("runs", nargs=-1, required=True, metavar="RUN [RUN]", type=PATH)
@click.option("--out", type=PATH, metavar="FILE", help="Where to write the page; else a temporary file.")
@click.option("--data", type=PATH, metavar="PATH", help="The run's data, where it has moved.")
@click.option("--calls", is_flag=True, help="Requests and replies too, from the cache: a larger page.")
@click.option("--no-open", is_flag=True, help="Write the page and open no browser.")
@cache_option
@common
def view(
    runs: tuple[Path, ...],
    out: Path | None,
    data: Path | None,
    calls: bool,
    no_open: bool,
    cache: Path | str,
    as_json: bool,
) -> None:
    """Open a page with every item of RUN: search, filter, sort, open, label, save what is shown.

    With two runs it shows the items on which they differ, what the second lost first. The page is one file, which opens
    without a network and can be mailed.

    \b
    Examples:
      svr view runs/first
      svr view runs/first runs/second --out both.html --no-open
    """
    from svr_async.commands.screen import tell
    from svr_async.reports.files import open_page, write_page

    if out is not None and out.suffix.lower() not in {".html", ".htm"}:
        raise UsageError(f"--out {out}: the page is HTML", hint="name a .html file")
    given = cache if "cache" in given_flags(click.get_current_context()) else None
    target, n_bytes = write_page(runs, out, data=data, calls=calls, cache=given)
    opened = not no_open and open_page(target)
    told = f"wrote {target} ({n_bytes / 1000:,.0f} kB){'' if opened or no_open else '; no browser to open it'}"
    tell({"out": str(target), "bytes": n_bytes, "opened": opened}, told, as_json=as_json, line=True)
