"""Decision judges by name: `decisions:`, `systemone:` or `logprobs:`, before any judge that has an endpoint."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from svr_async.errors import ConfigError
from svr_async.judges.profile import Profile
from svr_async.judges.profiles import find_profile, load_profiles

WIRES = ("decisions", "systemone", "logprobs")


def wire_of(name: str) -> str:
    """Return the wire that a judge's name asks for, "" for a name that asks for none."""
    wire, mark, _ = name.partition(":")
    return wire if mark and wire in WIRES else ""


def find_decider(name: str, *, base_url: str = "", directory: Path | None = None) -> Profile:
    """Return the profile of `WIRE:REST`; ConfigError where there is none.

    It is the profile of that very name where there is one; else REST is a judge's profile or URL#model, spoken to on
    this wire. Where REST is neither, it is a model at the endpoint of the wire's own profile, whose price is not known.
    """
    wire, _, rest = name.partition(":")
    profiles = load_profiles(directory)
    if not rest:
        known = [one for one in profiles if one.startswith(f"{wire}:")]
        like = known[0] if known else f"{wire}:gpt-oss-20b"
        raise ConfigError(
            f"--judge {name} names no model", hint=f"write it as {like}, or {wire}:http://host:port/v1#model"
        )
    if name in profiles:
        return find_profile(name, base_url=base_url, directory=directory)
    home = next((one for one in profiles if one.startswith(f"{wire}:")), "")
    if home and "://" not in rest and rest not in profiles and not base_url:
        own = find_profile(home, directory=directory)
        return replace(own, name=name, model=rest, price=None)
    return _on(wire, find_profile(rest, base_url=base_url, directory=directory))


def _on(wire: str, profile: Profile) -> Profile:
    """Return a profile with another wire, and with another identity, since its replies are others."""
    identity = "" if profile.identity == profile.address else f"{profile.identity}#{wire}"
    return replace(profile, name=f"{wire}:{profile.name}", wire=wire, identity=identity)
