"""`svr judges`: the judges that can be named, and where their profiles come from."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click
import orjson

from svr_async.commands.options import common

if TYPE_CHECKING:
    from rich.table import Table

    from svr_async.judges.profile import Profile


WIDE = 112  # columns from which there is room for the table


@click.command()
@common
def judges(config: object, as_json: bool) -> None:  # noqa: ARG001  (--config is read before)
    """List the judges that `--judge` knows.

    \b
    Example:  svr judges --json
    """
    from svr_async.judges.profiles import load_profiles, profile_paths

    profiles = load_profiles()
    if as_json:
        rows = {name: _facts(profile) for name, profile in profiles.items()}
        click.echo(orjson.dumps(rows, option=orjson.OPT_INDENT_2))
        return
    from svr_async.commands.screen import styled_console

    console = styled_console()
    console.print(_table(profiles) if console.width >= WIDE else _blocks(profiles))
    console.print("[dim]J+rules lets checks decide what they can; http://host:port/v1#model needs no profile.[/]")
    console.print(f"[dim]Profiles of your own: {' or '.join(str(path) for path in profile_paths())}[/]", soft_wrap=True)


def _facts(profile: Profile) -> dict[str, Any]:
    """Return what machines are told of a profile: never a key."""
    return {
        "model": profile.model,
        "base_url": profile.base_url,
        "key_env": profile.key_env,
        "key_is_set": bool(os.environ.get(profile.key_env, "")),
        "source": profile.source,
    }


def _table(profiles: Mapping[str, Profile]) -> Table:
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in ("judge", "model", "endpoint", "key", "price per million: in / cached / out"):
        table.add_column(column, overflow="fold")
    for row in _rows(profiles):
        table.add_row(*map(escape, row))
    return table


def _blocks(profiles: Mapping[str, Profile]) -> str:
    """Return the same for a narrow terminal: each judge's name, and a line of what is known of it."""
    from rich.markup import escape

    return "\n".join(
        f"[bold]{escape(name)}[/]\n  {escape(' · '.join(fact for fact in facts if fact not in ('–', name)))}"
        for name, *facts in _rows(profiles)
    )


def _rows(profiles: Mapping[str, Profile]) -> list[tuple[str, str, str, str, str]]:
    return [
        ("rules", "–", "offline checks, no model", "–", "free"),
        ("recorded:PATH", "–", "replies from a file", "–", "free"),
        *((name, one.model, one.base_url, _key(one), _price(one)) for name, one in profiles.items()),
    ]


def _key(profile: Profile) -> str:
    if not profile.key_env:
        return "none needed"
    return f"{profile.key_env} {'is set' if os.environ.get(profile.key_env) else 'is not set'}"


def _price(profile: Profile) -> str:
    from svr_async.evaluation.wording import tariff

    price = profile.price
    return "price not entered" if price is None else " / ".join(map(tariff, (price.input, price.cached, price.output)))
