"""`svr cache`: what the memo of replies holds, whether all of it can be read, and taking it to another machine."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click
import orjson

from svr_async.commands.options import common, memo_option
from svr_async.errors import StorageError, UsageError

if TYPE_CHECKING:
    from svr_async.engine.memo import Memo


@click.group()
def cache() -> None:
    """Look after the memo: the replies on disk, by request.

    \b
    Example:  svr cache verify
    """


@cache.command()
@memo_option
@common
def stats(memo: Path, config: object, as_json: bool) -> None:  # noqa: ARG001
    """Count the replies and their size.

    \b
    Example:  svr cache stats --memo cache/memo
    """
    found = _stats(memo)
    if as_json:
        click.echo(orjson.dumps(found))
        return
    click.echo(f"{memo}: {found['rows']:,} replies, {found['bytes'] / 2**20:.1f} MiB, {found['damaged']} damaged rows")


@cache.command()
@memo_option
@common
def verify(memo: Path, config: object, as_json: bool) -> None:  # noqa: ARG001
    """Read every reply and check it against its digest; exit 5 where any is damaged.

    \b
    Example:  svr cache verify
    """
    found = _stats(memo)
    if as_json:
        click.echo(orjson.dumps(found))
    if found["damaged"]:
        raise StorageError(
            f"{found['damaged']} of {found['rows'] + found['damaged']} rows in {memo} are damaged",
            hint="they are misses and are asked again when needed; nothing else is affected",
        )
    if not as_json:
        click.echo(f"{memo}: all {found['rows']:,} replies are whole")


@cache.command("export")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@memo_option
@common
def export_(file: Path, memo: Path, config: object, as_json: bool) -> None:  # noqa: ARG001
    """Write all whole replies to FILE, a line of JSON each; with .gz at its end, packed.

    A run with the same memo identity (see judges.toml) replays from them elsewhere: nothing is paid twice.

    \b
    Example:  svr cache export replies.jsonl.gz
    """
    from svr_async.commands.cache.files import export_memo  # noqa: PLC0415  (--help stays quick)

    opened = _open(memo)
    try:
        counts = export_memo(opened, file)
    finally:
        opened.close()
    left = f"; {counts.damaged} damaged rows were left out" if counts.damaged else ""
    _tell(f"{counts.rows:,} replies of {memo} in {file}{left}", asdict(counts), as_json=as_json)


@cache.command("import")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@memo_option
@common
def import_(file: Path, memo: Path, config: object, as_json: bool) -> None:  # noqa: ARG001
    """Add the replies of FILE that the memo does not have; what is there stays.

    A reply is taken as the answer of its model from then on: import only what comes from whom you trust.

    \b
    Example:  svr cache import replies.jsonl.gz --memo cache/memo
    """
    import asyncio  # noqa: PLC0415

    from svr_async.commands.cache.files import import_memo  # noqa: PLC0415
    from svr_async.engine.memo import Memo  # noqa: PLC0415

    opened = Memo.open(memo)
    try:
        counts = asyncio.run(import_memo(opened, file))
    finally:
        opened.close()
    text = f"{counts.rows:,} replies added to {memo}, {counts.known:,} were there"
    _tell(text, {"rows": counts.rows, "known": counts.known}, as_json=as_json)


def _tell(text: str, values: dict[str, int], *, as_json: bool) -> None:
    click.echo(orjson.dumps(values) if as_json else text)


def _open(memo: Path) -> Memo:
    from svr_async.engine.memo import Memo  # noqa: PLC0415  (--help stays quick)
    from svr_async.engine.memo_disk import DATABASE  # noqa: PLC0415

    if not (memo / DATABASE).exists():
        raise UsageError(f"there is no memo in {memo}", hint="--memo DIR names another")
    return Memo.open(memo)


def _stats(memo: Path) -> dict[str, int]:
    opened = _open(memo)
    try:
        found = opened.stats()
    finally:
        opened.close()
    return {"rows": found.rows, "damaged": found.damaged, "bytes": found.bytes}
