"""Scalar reward models by name: `rm:`, before an address or a judge that has a profile."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

from svr_async.engine.secrets import refuse_key_in_url
from svr_async.errors import ConfigError
from svr_async.judges.endpoints import key_variable
from svr_async.judges.profile import Profile
from svr_async.judges.profiles import find_profile, load_profiles

REWARDS = "rm:"
USUAL = "classify"
SHAPES = (USUAL, "pooling", "score")
"""The wires of reward models; the last step of an address may name one of them."""


def find_rewarder(name: str, *, base_url: str = "", directory: Path | None = None) -> Profile:
    """Return the profile of `rm:REST`; ConfigError where there is none.

    REST is URL[#model], whose path may end in the endpoint's shape; or a judge's profile; or a model at `base_url`.
    """
    rest = name.removeprefix(REWARDS)
    if not rest:
        hint = "write it as rm:http://host:port, rm:http://host:port/pooling or rm:http://host:port#model"
        raise ConfigError(f"--judge {name} names no reward model", hint=hint)
    known = load_profiles(directory)
    if name in known:
        return find_profile(name, base_url=base_url, directory=directory)
    if rest in known:
        return _scoring(find_profile(rest, base_url=base_url, directory=directory))
    url, _, model = rest.partition("#") if "://" in rest else (base_url, "", rest)
    if not url:
        hint = "give its address: rm:http://host:port#model, or --base-url"
        raise ConfigError(f"there is no reward model {rest!r}", hint=hint)
    return _at(url.rstrip("/"), model)


def _at(url: str, model: str) -> Profile:
    """Return the profile of a model at an address; without a model, of the only one that is served there."""
    base, _, last = url.rpartition("/")
    base, wire = (base, last) if last in SHAPES else (url, USUAL)
    base = refuse_key_in_url(base)
    label = f"{REWARDS}{model or urlsplit(base).netloc}"
    return Profile(name=label, model=model, base_url=base, wire=wire, key_env=key_variable(base), source="--judge")


def _scoring(profile: Profile) -> Profile:
    """Return a profile on a wire of reward models: its own where it is on one, else the usual."""
    if profile.spoken.score:
        return profile
    identity = "" if profile.identity == profile.address else f"{profile.identity}#{USUAL}"
    return replace(profile, name=f"{REWARDS}{profile.name}", wire=USUAL, identity=identity)
