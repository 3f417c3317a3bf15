"""`svr judges`: the judges that can be named, their keys and prices."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import click

from svr_async.commands import options as opt
from svr_async.commands.options import flag
from svr_async.commands.screen import tell
from svr_async.core.table import Line, Part, Table

if TYPE_CHECKING:
    from svr_async.judges.profiles import Profile


@click.command()
@flag("--prices", "List prices, the cheapest first, with their day and page.")
@opt.judges
@opt.json
def judges(as_json: bool, *, prices: bool) -> None:
    """List the judges that `--judge` knows.

    \b
    Examples:
      svr judges
      svr judges --prices
    """
    from svr_async.judges.profiles import load_profiles

    profiles = list(load_profiles().values())
    if prices:
        profiles = sorted((one for one in profiles if one.price is not None), key=_cost)
    parts = _prices(profiles) if prices else _judges(profiles)
    tell({one.name: _facts(one) for one in profiles}, parts, as_json=as_json)


def _facts(profile: Profile) -> dict[str, Any]:
    """Return a profile as JSON values, without its key."""
    price = profile.price
    named = ("model", "base_url", "key_env", "wire", "price_date", "price_source", "source")
    return {name: getattr(profile, name) for name in named} | {
        "key_is_set": bool(os.environ.get(profile.key_env, "")),
        "price": None if price is None else [price.input, price.cached, price.output],
    }


def _cost(profile: Profile) -> tuple[float, str]:
    """Return the cost of a million input and a quarter million output tokens, and the name."""
    assert profile.price is not None
    return profile.price.input + profile.price.output / 4, profile.name


def _judges(profiles: Iterable[Profile]) -> Iterator[Part]:
    from svr_async.judges.profiles import known_endpoints, profile_file

    rows = [["rules", "–", "offline checks, no model", "free"], ["recorded:PATH", "–", "a file of replies", "free"]]
    for one in profiles:
        key = f"{one.key_env} {'is set' if os.environ.get(one.key_env) else 'is not set'}" if one.key_env else "no key"
        price = " / ".join(_tariffs(one)) or "price not entered"
        rows.append([one.name, "–" if one.model == one.name else one.model, f"{one.base_url} · {key}", price])
    yield Table(("judge", "model", "endpoint and key", "in / cached / out"), rows, texts=3)
    yield Line(f"Any model of these, as openai:MODEL: {', '.join(known_endpoints())}.")
    yield Line("J+rules lets checks decide what they can; http://host:port/v1#model needs no profile.")
    yield Line("Prices are dollars per million tokens; --prices has their day and page.")
    yield Line(f"Your own profiles: {profile_file()}, or --judges FILE.")


def _prices(priced: Iterable[Profile]) -> Iterator[Part]:
    from svr_async.evaluation.wording import UNKNOWN

    rows = [[one.name, *_tariffs(one), one.price_date or UNKNOWN, one.price_source or UNKNOWN] for one in priced]
    yield Table(("judge", "in", "cached in", "out", "listed on", "read at"), rows, texts=1)
    yield Line("Others: --price IN/OUT on the command, or price = [in, cached, out] in judges.toml.")


def _tariffs(profile: Profile) -> list[str]:
    price = profile.price
    return [] if price is None else [_tariff(value) for value in (price.input, price.cached, price.output)]


def _tariff(value: float) -> str:
    """Return an amount of money with all of its digits: `$3`, `$0.20`, `$0.025`."""
    digits = len(f"{value:.12g}".partition(".")[2])
    return f"${value:,.{max(2, digits) if digits else 0}f}"
