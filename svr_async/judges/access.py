"""The way to an endpoint: its transport, with the key, headers and parameters that a profile names."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from svr_async.errors import ConfigError
from svr_async.judges.profile import Profile, variable_in
from svr_async.judges.trust import refuse_unasked

if TYPE_CHECKING:
    from svr_async.engine.http import Extras, HttpTransport
    from svr_async.engine.ray import RayTransport


def transport_to(profile: Profile, base_url: str, *, timeout_s: float) -> HttpTransport:
    """Return the transport to one of a profile's endpoints; ConfigError where a variable that it names is not set."""
    from svr_async.engine.http import HttpTransport
    from svr_async.engine.secrets import key_from_environment

    key = key_from_environment(profile.key_env)
    return HttpTransport(base_url, key, timeout_s=timeout_s, wire=profile.spoken, extras=extras_of(profile))


def ray_transport_to(profile: Profile, base_url: str, *, timeout_s: float, address: str) -> RayTransport:
    """Return the transport to one of a profile's endpoints from the nodes of a Ray cluster; errors as above."""
    from svr_async.engine.ray import RayTransport
    from svr_async.engine.secrets import key_from_environment

    key, extras = key_from_environment(profile.key_env), extras_of(profile)
    return RayTransport(address, base_url, key, timeout_s=timeout_s, wire=profile.spoken, extras=extras)


def extras_of(profile: Profile) -> Extras:
    """Return what a profile sends beside its wire's own, with the values of the variables that it names.

    ConfigError where nobody but a file of the working folder says that it goes there.
    """
    refuse_unasked(profile)
    from svr_async.engine.http import Extras
    from svr_async.engine.secrets import Secret

    headers = _filled(profile, "headers", profile.headers)
    query = _filled(profile, "query", profile.query)
    named = [(headers, profile.headers), (query, profile.query)]
    secrets = [filled[name] for filled, table in named for name, value in table.items() if variable_in(value)]
    return Extras(
        path=profile.path,
        key_header=profile.key_header,
        headers=headers,
        query=query,
        secrets=tuple(Secret(text) for text in dict.fromkeys(secrets)),
    )


def _filled(profile: Profile, setting: str, table: Mapping[str, str]) -> dict[str, str]:
    """Return a table with the values of variables in the place of their names."""
    found = {}
    for name, value in table.items():
        variable = variable_in(value)
        found[name] = value if variable is None else os.environ.get(variable, "").strip()
        if variable is not None and not found[name]:
            message = f"judge {profile.name}: {setting} {name} is ${variable}, which is not set"
            raise ConfigError(message, hint=f"set ${variable}, or take {name} out of {setting}")
        if not found[name].isprintable():
            raise ConfigError(f"judge {profile.name}: {setting} {name} holds a character that cannot be sent")
    return found
