"""`svr prices`: what judges cost, since when and where that was read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from svr_async.commands.options import common

if TYPE_CHECKING:
    from collections.abc import Iterable

    from svr_async.core.table import Parts
    from svr_async.judges.profile import Profile

HEADS = ("judge", "in", "cached in", "out", "listed on", "read at")


@click.command()
@common
def prices(as_json: bool) -> None:
    """List prices of judges, the cheapest first: dollars per million tokens, with their day and page.

    \b
    Example:  svr prices --json
    """
    from svr_async.commands.screen import tell
    from svr_async.judges.profiles import load_profiles

    priced = sorted((one for one in load_profiles().values() if one.price is not None), key=_dearness)
    tell({one.name: _facts(one) for one in priced}, _shown(priced), as_json=as_json)


def _shown(priced: Iterable[Profile]) -> Parts:
    from svr_async.core.table import Line, Table

    yield Table(HEADS, [_row(one) for one in priced], texts=1)
    yield Line("Others: --price IN/OUT on the command, or price = [in, cached, out] in judges.toml.")


def _dearness(profile: Profile) -> tuple[float, str]:
    """Return what a million tokens in and a quarter of that out cost, and the name."""
    assert profile.price is not None
    return profile.price.input + profile.price.output / 4, profile.name


def _facts(profile: Profile) -> dict[str, Any]:
    price = profile.price
    assert price is not None
    numbers = {"in": price.input, "cached": price.cached, "out": price.output}
    return numbers | {"date": profile.price_date, "source": profile.price_source, "profile": profile.source}


def _row(profile: Profile) -> list[str]:
    from svr_async.evaluation.wording import UNKNOWN, tariff

    facts = _facts(profile)
    costs = [tariff(facts[name]) for name in ("in", "cached", "out")]
    return [profile.name, *costs, facts["date"] or UNKNOWN, facts["source"] or UNKNOWN]
