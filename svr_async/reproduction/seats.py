"""Who takes the place of each role: the judge that is named for it, or the reason why nobody does."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from svr_async.errors import SvrError
from svr_async.judges.spec import JudgeSpec
from svr_async.reproduction.recipe import Role
from svr_async.reproduction.settings import ReproSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """A role with its judge; `absent` says why there is none."""

    role: str
    judge: str
    absent: str = ""


def seats_of(roles: Iterable[Role], settings: ReproSettings) -> dict[str, Seat]:
    """Return who judges for each role; those that cannot be reached are absent, with the reason.

    Each endpoint is asked for its list of models once, which costs nothing; with the memo alone none is.
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
    judge = settings.judges.get(role.name) or settings.judge or role.judge
    if not judge:
        return Seat(role=role.name, judge="", absent=role.hint or f"no judge is named: --judge {role.name}=J")
    try:
        JudgeSpec.parse(judge, base_url=settings.base_url)
    except SvrError as error:
        return Seat(role=role.name, judge=judge, absent=error.one_line())
    return Seat(role=role.name, judge=judge)


async def _reach_all(judges: Iterable[str], settings: ReproSettings) -> Mapping[str, str]:
    """Return why judges cannot be reached, by judge; an endpoint with a key is asked once."""
    known: dict[tuple[str, str], str] = {}
    found = {}
    for judge in sorted(judges):
        profile = JudgeSpec.parse(judge, base_url=settings.base_url).profile
        if profile is not None:
            place = (profile.base_url, profile.key_env)
            if place not in known:
                known[place] = await _why_not(judge, settings)
            found[judge] = known[place]
    return found


async def _why_not(judge: str, settings: ReproSettings) -> str:
    from svr_async.engine.secrets import key_from_environment
    from svr_async.judges.doctor.questions import served

    profile = JudgeSpec.parse(judge, base_url=settings.base_url).profile
    assert profile is not None
    try:
        found = await served(profile, key_from_environment(profile.key_env))
    except SvrError as error:
        return error.one_line()
    return "" if found.reached else f"nothing answers at {profile.base_url}"
