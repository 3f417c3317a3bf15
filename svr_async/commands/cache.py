"""`svr cache`: what the memo of replies holds, and whether all of it can be read."""

from __future__ import annotations

from pathlib import Path

import click
import orjson

from svr_async.commands.options import common
from svr_async.errors import StorageError, UsageError

memo_option = click.option(
    "--memo", type=click.Path(path_type=Path), default=Path("cache/memo"), show_default=True, metavar="DIR"
)


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


def _stats(memo: Path) -> dict[str, int]:
    from svr_async.engine.memo import Memo  # noqa: PLC0415  (--help stays quick)
    from svr_async.engine.memo_disk import DATABASE  # noqa: PLC0415

    if not (memo / DATABASE).exists():
        raise UsageError(f"there is no memo in {memo}", hint="--memo DIR names another")
    opened = Memo.open(memo)
    try:
        found = opened.stats()
    finally:
        opened.close()
    return {"rows": found.rows, "damaged": found.damaged, "bytes": found.bytes}
