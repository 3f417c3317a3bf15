"""Who takes the place of each role: the judge that is named for it, or the reason why nobody does."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from svr_async.errors import SvrError
from svr_async.judges.open_judge import JudgeSpec
from svr_async.reproduction.recipe import Role
from svr_async.reproduction.settings import ReproSettings

if TYPE_CHECKING:
    from svr_async.judges.profiles import Profile


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """A role with its judge; `absent` says why there is none."""

    role: str
    judge: str
    absent: str = ""


def seats_of(roles: Iterable[Role], settings: ReproSettings) -> dict[str, Seat]:
    """Return who judges for each role; those that cannot be reached are absent, with the reason.

    Each endpoint is asked for its list of models once, which costs nothing; with the cache alone none is.
    """
    seats = {role.name: _named(role, settings) for role in roles}
    if settings.limits.offline:
        return seats
    wanted = {seat.judge for seat in seats.values() if not seat.absent}
    reached = asyncio.run(_reach_all(wanted, settings))
    return {
        name: Seat(role=name, judge=seat.judge, absent=seat.absent or reached.get(seat.judge, ""))
        for name, seat in seats.items()
    }


def _named(role: Role, settings: ReproSettings) -> Seat:
    """Return the judge of a role; who judges all roles is no model of its own kind, as a reward model is."""
    judge = settings.judges.get(role.name) or (settings.judge if role.judge else "") or role.judge
    if not judge:
        return Seat(role=role.name, judge="", absent=role.hint or f"no judge is named: --judge {role.name}=J")
    try:
        JudgeSpec.parse(judge, base_url=settings.base_url)
    except SvrError as error:
        return Seat(role=role.name, judge=judge, absent=error.one_line())
    return Seat(role=role.name, judge=judge)


async def _reach_all(judges: Iterable[str], settings: ReproSettings) -> Mapping[str, str]:
    """Return why judges cannot be asked, by judge; an endpoint with a key is asked for its list once."""
    known: dict[tuple[str, str], Collection[str] | str] = {}
    found = {}
    for judge in sorted(judges):
        profile = JudgeSpec.parse(judge, base_url=settings.base_url).profile
        if profile is not None:
            place = (profile.base_url, profile.key_env)
            if place not in known:
                known[place] = await _served(profile)
            found[judge] = _why_not(profile, known[place])
    return found


async def _served(profile: Profile) -> Collection[str] | str:
    """Return the models that an endpoint lists (empty without a list), or why it cannot be asked."""
    from svr_async.judges.doctor import list_models

    try:
        return list(await list_models(profile) or ())
    except SvrError as error:
        return error.one_line()


def _why_not(profile: Profile, found: Collection[str] | str) -> str:
    """Return why a model cannot be asked; "" where it may be, as at an endpoint without a list or with a slow one."""
    if isinstance(found, str):
        return found
    from svr_async.judges.doctor import is_listed

    if not found or not profile.model or is_listed(profile.model, found):
        return ""
    return f"{profile.base_url} does not list {profile.model} among its models"
