"""Whose word sends a key to an address: the shipped profiles', the user's own configuration's, or the command line's.

A judges.toml of the working folder may have come with it, from anybody. What it would send to an address that none of
the others names for it, or answer in another judge's name from elsewhere, is refused until the file is allowed once
(`svr judges --allow`), as it stands: a changed file is asked about again. Addresses on this machine are free.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

import orjson

from svr_async.core.files import LOOPBACK, read_plain
from svr_async.errors import ConfigError
from svr_async.judges.endpoints import known_endpoints
from svr_async.judges.profile import Profile, variable_in
from svr_async.judges.profiles import config_folder, load_profiles, own_profiles


def refuse_unasked(profile: Profile) -> None:
    """Raise ConfigError where a folder's file, not allowed yet, would send a key on its own word."""
    if not profile.from_folder:
        return
    asked = tuple(unasked(profile))
    if asked and not is_allowed(Path(profile.source)):
        hint = "read the file; svr judges --allow allows it as it stands, or put the table into " + str(
            config_folder() / "judges.toml"
        )
        raise ConfigError(f"judge {profile.name} of {profile.source} {' and '.join(asked)}", hint=hint)


def unasked(profile: Profile) -> Iterator[str]:
    """Yield what a profile would do that neither shipped nor own profiles say, in words that name variable and host."""
    away = [host for host in _hosts(profile) if host not in LOOPBACK]
    if not away:
        return
    own = own_profiles()
    known = _known_hosts(own)
    for variable in _variables(profile):
        elsewhere = [host for host in away if host not in known.get(variable, ())]
        if elsewhere and os.environ.get(variable):
            yield f"sends ${variable} to {', '.join(elsewhere)}"
    named = [one for one in own.values() if profile.identity in (one.identity, one.address)]
    if named and not set(away) <= {host for one in named for host in _hosts(one)}:
        yield f"has the answers of {', '.join(away)} kept as those of {profile.identity}"


def is_allowed(path: Path) -> bool:
    """Whether a file was allowed as it stands."""
    return _allowed().get(str(path.resolve())) == _digest(path)


def allow(path: Path) -> tuple[str, ...]:
    """Allow a file as it stands, for this user; return what its judges would do that nobody else says."""
    told = tuple(
        f"{profile.name} {what}"
        for profile in load_profiles().values()
        if profile.from_folder
        for what in unasked(profile)
    )
    place = _record()
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(orjson.dumps(_allowed() | {str(path.resolve()): _digest(path)}, option=orjson.OPT_INDENT_2))
    return told


def _record() -> Path:
    return config_folder() / "allowed.json"


def _allowed() -> dict[str, str]:
    try:
        found = orjson.loads(read_plain(_record()))
    except (OSError, orjson.JSONDecodeError):
        return {}
    return found if isinstance(found, dict) else {}


def _digest(path: Path) -> str:
    return hashlib.sha256(read_plain(path)).hexdigest()


def _hosts(profile: Profile) -> tuple[str, ...]:
    return tuple(dict.fromkeys(urlsplit(url).hostname or url for url in profile.base_urls))


def _variables(profile: Profile) -> tuple[str, ...]:
    named = [variable_in(value) for value in (*profile.headers.values(), *profile.query.values())]
    return tuple(dict.fromkeys(name for name in (profile.key_env, *named) if name))


def _known_hosts(own: Mapping[str, Profile]) -> dict[str, set[str]]:
    """Return the hosts that each variable belongs to."""
    known: dict[str, set[str]] = {}
    for one in known_endpoints().values():
        known.setdefault(one["key_env"], set()).add(urlsplit(one["base_url"]).hostname or "")
    for profile in own.values():
        for variable in _variables(profile):
            known.setdefault(variable, set()).update(_hosts(profile))
    return known
