"""`svr cache`: statistics, export, import and clearing of the stored replies."""

from __future__ import annotations

import contextlib
import sys
import time
from pathlib import Path
from typing import Any

import click

from svr_async.commands import options as opt
from svr_async.commands.options import flag, option
from svr_async.commands.screen import tell
from svr_async.errors import UsageError

UNITS_S = {"h": 3600, "d": 86_400, "w": 7 * 86_400}


class Duration(click.ParamType):  # type: ignore[type-arg]  # generic in newer releases of click only
    """A duration such as 12h, 30d or 8w, in seconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the seconds."""
        number, unit = str(value)[:-1], str(value)[-1:]
        if not number.isdecimal() or len(number) > 6 or unit not in UNITS_S:
            self.fail(f"{value} is not a duration: write 12h, 30d or 8w", param, ctx)
        return float(number) * UNITS_S[unit]


@click.group()
def cache() -> None:
    """Show, copy or clear the cache of replies.

    \b
    Example:  svr cache stats
    """


@cache.command()
@opt.cache
@opt.json
def stats(cache: Path | str, as_json: bool) -> None:
    """Count the replies, damaged rows and bytes.

    \b
    Example:  svr cache stats --cache cache/replies
    """
    from svr_async.engine.cache import Cache
    from svr_async.engine.cache_files import refuse_missing

    with contextlib.closing(Cache.open(refuse_missing(cache))) as opened:
        found = opened.stats()
    shown = f"{cache}: {found['rows']:,} replies, {found['bytes'] / 2**20:.1f} MiB, {found['damaged']} damaged rows"
    tell(found, shown, as_json=as_json, line=True)


@cache.command("export", short_help="Write all replies to a file.")
@click.argument("file", type=opt.PATH)
@opt.cache
@opt.json
def export_(file: Path, cache: Path | str, as_json: bool) -> None:
    """Write all readable replies to FILE: .jsonl or .jsonl.gz. A damaged cache exports what can be read.

    A run with the same judge identity (see judges.toml) replays from them elsewhere, without a call.

    \b
    Example:  svr cache export replies.jsonl.gz
    """
    from svr_async.engine.cache_files import export_cache, refuse_missing

    rows, damaged = export_cache(refuse_missing(cache), file)
    shown = f"{rows:,} replies of {cache} in {file}" + (f"; {damaged:,} damaged rows left out" if damaged else "")
    tell({"rows": rows, "damaged": damaged}, shown, as_json=as_json, line=True)


@cache.command("import", short_help="Add the replies of a file.")
@click.argument("file", type=opt.PATH)
@opt.cache
@opt.json
def import_(file: Path, cache: Path | str, as_json: bool) -> None:
    """Add the replies of FILE that the cache does not have; replies in the cache stay.

    Import only files that you trust: their replies count as the answers of the models they name.

    \b
    Example:  svr cache import replies.jsonl.gz --cache cache/replies
    """
    import asyncio

    from svr_async.engine.cache import Cache
    from svr_async.engine.cache_files import import_cache

    with contextlib.closing(Cache.open(cache)) as opened:
        added, known = asyncio.run(import_cache(opened, file))
    shown = f"{added:,} replies added to {cache}, {known:,} were known"
    tell({"added": added, "known": known}, shown, as_json=as_json, line=True)


@cache.command(short_help="Delete all or old replies.")
@option("--older-than 30d", "Only replies stored longer ago (h, d or w).", type=Duration())
@flag("--yes", "Do not ask for confirmation.")
@opt.cache
@opt.json
def clear(older_than: float | None, yes: bool, cache: Path | str, as_json: bool) -> None:
    """Delete all replies, or the old ones. They are paid for again if needed. A damaged cache is reset.

    \b
    Example:  svr cache clear --older-than 30d --yes
    """
    from svr_async.engine.cache_files import clear_cache, refuse_missing

    refuse_missing(cache)
    if not yes and not sys.stdin.isatty():
        raise UsageError(f"svr cache clear deletes replies of {cache}", hint="confirm with --yes")
    if not yes:
        click.confirm(f"Delete {'the old' if older_than else 'all'} replies of {cache}?", abort=True, err=True)
    rows = clear_cache(cache) if older_than is None else clear_cache(cache, time.time() - older_than)
    tell({"rows": rows}, f"{rows:,} replies deleted from {cache}", as_json=as_json, line=True)
