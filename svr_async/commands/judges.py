"""`svr judges`: the judges that can be named, and where their profiles come from."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import click

from svr_async.commands.options import json_option, judges_option

if TYPE_CHECKING:
    from rich.table import Table

    from svr_async.core.table import Parts
    from svr_async.judges.profiles import Profile


PRICE_HEADS = ("judge", "in", "cached in", "out", "listed on", "read at")
WIDE = 150  # columns from which the table has room for whole addresses


@click.command()
@click.option("--prices", is_flag=True, help="List prices, the cheapest first, with their day and page.")
@judges_option
@json_option
def judges(as_json: bool, *, prices: bool) -> None:
    """List the judges that `--judge` knows.

    \b
    Examples:
      svr judges
      svr judges --prices
    """
    from rich.markup import escape

    from svr_async.commands.screen import print_json, styled_console, tell
    from svr_async.core.safetext import for_terminal
    from svr_async.judges.profiles import known_endpoints, load_profiles, profile_file

    profiles = load_profiles()
    if prices:
        priced = sorted((one for one in profiles.values() if one.price is not None), key=_cost)
        tell({one.name: _price_facts(one) for one in priced}, _price_list(priced), as_json=as_json)
        return
    if as_json:
        print_json({name: _facts(profile) for name, profile in profiles.items()})
        return
    console = styled_console()
    console.print(_table(profiles) if console.width >= WIDE else _blocks(profiles))
    console.print(f"[dim]Any model of these, as openai:MODEL: {', '.join(known_endpoints())}.[/]")
    console.print("[dim]J+rules lets checks decide what they can; http://host:port/v1#model needs no profile.[/]")
    console.print("[dim]Prices are dollars per million tokens, in / cached / out, as listed on their day.[/]")
    place = escape(for_terminal(str(profile_file())))
    console.print(f"[dim]Your own profiles: {place}, or --judges FILE.[/]", soft_wrap=True)


def _facts(profile: Profile) -> dict[str, Any]:
    """Return a profile as JSON values, without its key."""
    return {
        "model": profile.model,
        "base_url": profile.base_url,
        "key_env": profile.key_env,
        "key_is_set": bool(os.environ.get(profile.key_env, "")),
        "wire": profile.wire,
        "price": None if profile.price is None else [profile.price.input, profile.price.cached, profile.price.output],
        "price_date": profile.price_date,
        "price_source": profile.price_source,
        "source": profile.source,
    }


def _table(profiles: Mapping[str, Profile]) -> Table:
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in ("judge", "model", "endpoint", "key", "in / cached / out, listed on"):
        table.add_column(column, overflow="fold")
    for row in _rows(profiles):
        table.add_row(*map(escape, row))
    return table


def _blocks(profiles: Mapping[str, Profile]) -> str:
    """Return the same for a narrow terminal: each judge's name, where it is with its key, and what it costs."""
    from rich.markup import escape

    lines = []
    for name, model, endpoint, key, price in _rows(profiles):
        first = f"[bold]{escape(name)}[/]" + (f"  [dim]{escape(model)}[/]" if model not in ("–", name) else "")
        place = " · ".join(fact for fact in (endpoint, key) if fact != "–")
        lines += [first, f"  {escape(place)}", f"  {escape(price)}"]
    return "\n".join(lines)


def _rows(profiles: Mapping[str, Profile]) -> list[tuple[str, ...]]:
    from svr_async.core.safetext import for_terminal

    named = [(name, one.model, one.base_url, _key(one), _price(one)) for name, one in profiles.items()]
    return [
        ("rules", "–", "offline checks, no model", "–", "free"),
        ("recorded:PATH", "–", "replies or scores from a file", "–", "free"),
        *(tuple(for_terminal(text) for text in row) for row in named),
    ]


def _key(profile: Profile) -> str:
    if not profile.key_env:
        return "none needed"
    return f"{profile.key_env} {'is set' if os.environ.get(profile.key_env) else 'is not set'}"


def _price(profile: Profile) -> str:
    from svr_async.evaluation.wording import tariff

    price = profile.price
    if price is None:
        return "price not entered"
    listed = " / ".join(map(tariff, (price.input, price.cached, price.output)))
    return f"{listed}  {profile.price_date}" if profile.price_date else listed


def _price_list(priced: Iterable[Profile]) -> Parts:
    from svr_async.core.table import Line, Table

    yield Table(PRICE_HEADS, [_price_row(one) for one in priced], texts=1)
    yield Line("Others: --price IN/OUT on the command, or price = [in, cached, out] in judges.toml.")


def _cost(profile: Profile) -> tuple[float, str]:
    """Return the cost of a million input and a quarter million output tokens, and the name."""
    assert profile.price is not None
    return profile.price.input + profile.price.output / 4, profile.name


def _price_facts(profile: Profile) -> dict[str, Any]:
    price = profile.price
    assert price is not None
    numbers = {"in": price.input, "cached": price.cached, "out": price.output}
    return numbers | {"date": profile.price_date, "source": profile.price_source, "profile": profile.source}


def _price_row(profile: Profile) -> list[str]:
    from svr_async.evaluation.wording import UNKNOWN, tariff

    facts = _price_facts(profile)
    costs = [tariff(facts[name]) for name in ("in", "cached", "out")]
    return [profile.name, *costs, facts["date"] or UNKNOWN, facts["source"] or UNKNOWN]
