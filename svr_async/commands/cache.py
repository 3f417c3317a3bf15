"""`svr cache`: what the cache of replies holds, whether all of it can be read, and taking it to another machine."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from svr_async.commands.options import cache_option, common
from svr_async.commands.screen import tell
from svr_async.errors import StorageError, UsageError

if TYPE_CHECKING:
    from svr_async.engine.cache import Cache


@click.group()
def cache() -> None:
    """Look after the cache: the replies on disk, by request.

    \b
    Example:  svr cache verify
    """


@cache.command()
@cache_option
@common
def stats(cache: Path, as_json: bool) -> None:
    """Count the replies and their size.

    \b
    Example:  svr cache stats --cache cache/replies
    """
    found = _stats(cache)
    size = f"{found['bytes'] / 2**20:.1f} MiB"
    told = f"{cache}: {found['rows']:,} replies, {size}, {found['damaged']} damaged rows"
    tell(found, told, as_json=as_json, line=True)


@cache.command(short_help="Check every reply against its digest.")
@cache_option
@common
def verify(cache: Path, as_json: bool) -> None:
    """Read every reply and check it against its digest; exit 5 where any is damaged.

    \b
    Example:  svr cache verify
    """
    found = _stats(cache)
    if as_json or not found["damaged"]:
        tell(found, f"{cache}: all {found['rows']:,} replies are whole", as_json=as_json, line=True)
    if found["damaged"]:
        raise StorageError(
            f"{found['damaged']} of {found['rows'] + found['damaged']} rows in {cache} are damaged",
            hint="they are misses and are asked again when needed; svr cache gc --yes removes them",
        )


@cache.command("export", short_help="Write all whole replies to a file.")
@click.argument("file")
@click.option("--parquet", "table", is_flag=True, help="Write a table (docs/scale.md), as for FILE.parquet and a URI.")
@cache_option
@common
def export_(file: str, table: bool, cache: Path, as_json: bool) -> None:
    """Write all whole replies to FILE, a line of JSON each; with .gz at its end, packed.

    FILE may be a folder that several machines share, or the URI of one, as s3://bucket/replies: each export is then a
    file named by its content.

    A run with the same cache identity (see judges.toml) replays from them elsewhere: nothing is paid twice.

    \b
    Example:  svr cache export replies.jsonl.gz
    """
    from svr_async.engine.cache_export import export_cache

    opened = _open(cache)
    try:
        counts = export_cache(opened, file, table=table)
    finally:
        opened.close()
    left = f"; {counts.damaged} damaged rows were left out" if counts.damaged else ""
    told = {"rows": counts.rows, "known": counts.known, "damaged": counts.damaged}
    tell(told, f"{counts.rows:,} replies of {cache} in {counts.path}{left}", as_json=as_json, line=True)


@cache.command("import", short_help="Add the replies of a file.")
@click.argument("file")
@cache_option
@common
def import_(file: str, cache: Path, as_json: bool) -> None:
    """Add the replies of FILE, or of a folder or URI of them, that the cache does not have; what is there stays.

    A reply is taken as the answer of its model from then on: import only what comes from whom you trust.

    \b
    Example:  svr cache import replies.jsonl.gz --cache cache/replies
    """
    import asyncio

    from svr_async.engine.cache import Cache
    from svr_async.engine.cache_export import import_cache

    opened = Cache.open(cache)
    try:
        counts = asyncio.run(import_cache(opened, file))
    finally:
        opened.close()
    text = f"{counts.rows:,} replies added to {cache}, {counts.known:,} were there"
    tell({"rows": counts.rows, "known": counts.known}, text, as_json=as_json, line=True)


@cache.command(short_help="Save what can be read of a damaged cache.")
@cache_option
@common
def repair(cache: Path, as_json: bool) -> None:
    """Make a new file of all replies that can still be read; the old one is kept as cache.db.corrupt.

    It reads the file page by page, so that it works where the database does not open any more. No run may use the
    cache meanwhile. What is lost is asked again when it is needed.

    \b
    Example:  svr cache repair --cache cache/replies
    """
    from svr_async.engine.cache_repair import repair_cache

    done = repair_cache(_existing(cache))
    values = {"rows": done.rows, "lost": done.lost, "kept_as": done.kept_as and str(done.kept_as)}
    told = f"{cache}: nothing is damaged, all {done.rows:,} replies are whole"
    if done.kept_as is not None:
        lost = f"{done.lost:,} are lost" if done.lost else "none is known to be lost"
        told = f"{cache}: {done.rows:,} replies are in a new file, {lost}; the old file is {done.kept_as}"
    tell(values, told, as_json=as_json, line=True)


@cache.command(short_help="Count or remove replies that are not needed.")
@click.option(
    "--older-than", type=click.FloatRange(min=0), metavar="DAYS", help="Replies kept for more than so many days."
)
@click.option("--model", "models", multiple=True, metavar="NAME", help="Replies of this model; may be given again.")
@click.option("--yes", is_flag=True, help="Remove them; without it they are only counted.")
@cache_option
@common
def gc(older_than: float | None, models: tuple[str, ...], yes: bool, cache: Path, as_json: bool) -> None:
    """Count, or with --yes remove, replies for which all that is said here holds, damaged rows and leftover files.

    Said nothing, only damaged rows and leftovers go. What is removed has to be paid for again if it is needed. The
    file then gets smaller. No run may use the cache meanwhile.

    \b
    Examples:
      svr cache gc --older-than 90
      svr cache gc --older-than 90 --model gpt-4o-mini --yes
    """
    from svr_async.engine.cache_gc import Rule, collect_garbage

    before = None if older_than is None else time.time() - 86_400 * older_than
    found = collect_garbage(_existing(cache), Rule(before=before, models=models), remove=yes)
    what = f"{found.removed:,} replies, {found.damaged:,} damaged rows, {found.files:,} leftover files"
    size = f"{found.bytes_before / 2**20:.1f} MiB" + (f" → {found.bytes_after / 2**20:.1f} MiB" if yes else "")
    verb, more = ("removed", "") if yes else ("would be removed", "; --yes removes them")
    told = f"{cache}: {what} {verb}, {found.rows:,} replies stay ({size}){more}"
    tell(asdict(found) | {"done": yes}, told, as_json=as_json, line=True)


def _open(cache: Path) -> Cache:
    from svr_async.engine.cache import Cache

    return Cache.open(_existing(cache))


def _existing(cache: Path) -> Path:
    from svr_async.engine.cache_disk import DATABASE

    if not (cache / DATABASE).exists():
        raise UsageError(f"there is no cache in {cache}", hint="--cache DIR names another")
    return cache


def _stats(cache: Path) -> dict[str, int]:
    opened = _open(cache)
    try:
        found = opened.stats()
    finally:
        opened.close()
    return {"rows": found.rows, "damaged": found.damaged, "bytes": found.bytes}
