"""The profiles that there are: those shipped, those of judges.toml, and the one that a judge's name stands for."""

from __future__ import annotations

import difflib
import math
import os
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, replace
from importlib import resources
from pathlib import Path
from typing import Any

import orjson

from svr_async.core.files import read_plain
from svr_async.engine.money import Price
from svr_async.errors import ConfigError
from svr_async.judges.endpoints import OPENAI_KEY, key_variable, settings_of, split_name
from svr_async.judges.profile import SHIPPED, Profile

MOST_USD = 1e9  # of a price a million tokens: beyond is a slip, and infinity no price
UNSET = "unset"
"""What a setting is that is not sent, so that a table can take back what the one below it sets."""
_NUMBER = int | float
_TEXT_OR_LIST: Any = str | list
_TYPES: dict[str, Any] = {
    "max_tokens": int, "context_tokens": int, "concurrency": int, "rpm": _NUMBER, "tpm": _NUMBER,
    "temperature": _NUMBER, "top_p": _NUMBER, "n": int, "seed": int, "stop": _TEXT_OR_LIST,
    "extra_body": Mapping, "headers": Mapping, "query": Mapping, "price": Price,
}  # fmt: skip
_UNSETTABLE: dict[str, Any] = {
    "temperature": None, "top_p": None, "n": None, "seed": None, "stop": (), "reasoning_effort": "", "rpm": None,
    "tpm": None, "price": None, "headers": {}, "query": {}, "extra_body": {},
}  # fmt: skip
_WORDS = {str: "a text", int: "a whole number", Mapping: "a table", _TEXT_OR_LIST: "a text or a list of texts"}


def profile_paths(directory: Path | None = None) -> tuple[Path, ...]:
    """Return where users' judges.toml are looked for, the nearest first."""
    return ((directory or Path.cwd()) / "judges.toml", config_folder() / "judges.toml")


def config_folder() -> Path:
    """Return the folder of the user's own configuration."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "svr-async"


def load_profiles(directory: Path | None = None) -> dict[str, Profile]:
    """Return all profiles by name: shipped ones, then the user's, then those of the working directory on top."""
    folder, own = profile_paths(directory)
    merged = _merged((own, folder))
    return {
        name: _profile(name, table, source, from_folder=source == str(folder) and folder != own)
        for name, (table, source) in merged.items()
    }


def own_profiles() -> dict[str, Profile]:
    """Return the profiles by name that no working directory has changed: shipped ones, then the user's on top."""
    merged = _merged((config_folder() / "judges.toml",))
    return {name: _profile(name, table, source) for name, (table, source) in merged.items()}


def _merged(paths: Iterable[Path]) -> dict[str, tuple[Mapping[str, Any], str]]:
    """Return the tables of the shipped profiles with those of the files on top, each with where it is from."""
    tables = _parse(resources.files("svr_async.judges").joinpath("profiles.toml").read_text("utf-8"), SHIPPED)
    merged: dict[str, tuple[Mapping[str, Any], str]] = {name: (table, SHIPPED) for name, table in tables.items()}
    for path in paths:
        if path.is_file():
            for name, table in _parse(_read(path), str(path)).items():
                base = merged.get(name, ({}, ""))[0]
                merged[name] = ({**base, **table}, str(path))
    return merged


def _read(path: Path) -> str:
    try:
        return read_plain(path).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from error


def _parse(text: str, source: str) -> dict[str, Any]:
    try:
        tables = tomllib.loads(text)
    except ValueError as error:
        raise ConfigError(f"{source} is not valid TOML: {error}") from error
    for name, table in tables.items():
        if not isinstance(table, Mapping):
            hint = "write [name] above its settings"
            raise ConfigError(f"{source}: {name!r} stands outside a [judge] table", hint=hint)
    return tables


def _profile(name: str, table: Mapping[str, Any], source: str, *, from_folder: bool = False) -> Profile:
    known = {field.name for field in fields(Profile)} - {"name", "source", "base_urls", "from_folder"} | {"endpoint"}
    for key in table:
        if key not in known:
            near = difflib.get_close_matches(key, known, 1)
            hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(sorted(known))}"
            raise ConfigError(f"{source}: judge {name} has the unknown setting {key!r}", hint=hint)
    try:
        values = _values(name, table, source)
        return Profile(name=name, source=source, from_folder=from_folder, **values)
    except ConfigError as error:
        message = error.message.removeprefix(f"{source}: ").removeprefix(f"judge {name}: ")
        raise ConfigError(f"{source}: judge {name}: {message}", hint=error.hint) from None


def _values(name: str, table: Mapping[str, Any], source: str) -> dict[str, Any]:
    """Return a table's settings as a profile takes them."""
    values = dict(table)
    values = settings_of(values.pop("endpoint")) | values if "endpoint" in values else values
    for required in ("model", "base_url"):
        if not isinstance(values.get(required), str | (list if required == "base_url" else str)):
            raise ConfigError(f'{source}: judge {name} needs {required} = "…"')
    for key, value in values.items():
        values[key] = _UNSETTABLE[key] if value == UNSET and key in _UNSETTABLE else _value(key, value)
    return values


def _value(key: str, value: Any) -> Any:
    """Return one setting; ConfigError where it is of another type than it has to be."""
    if key in _SHAPED:
        value = _SHAPED[key](value)
    wanted = _TYPES.get(key, str)
    if not isinstance(value, wanted) or isinstance(value, bool):
        raise ConfigError(f"{key} = {value!r} is {type(value).__name__}, not {_WORDS.get(wanted, 'a number')}")
    _refuse_unsendable(key, value)
    return _stops(value) if key == "stop" else value


def _refuse_unsendable(key: str, value: Any) -> None:
    """Raise ConfigError for what no request could hold: numbers beyond JSON's and 64 bits, nesting without end."""
    if isinstance(value, float) and not math.isfinite(value):
        raise ConfigError(f"{key} = {value} is no number that can be sent")
    try:
        orjson.dumps([[[value]]], default=str)  # as deep as it will stand in a body
    except TypeError as error:
        raise ConfigError(f"{key} cannot be sent as JSON ({str(error)[:80]})") from None


def _stops(value: str | list[Any]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(map(str, value))


def _joined(value: Any) -> Any:
    """Write several addresses as one text, as profiles have them."""
    return ",".join(map(str, value)) if isinstance(value, list) else value


def _texts(value: Any) -> Any:
    """Return a table of texts; numbers and dates are written as such, as an api-version may stand without quotes."""
    return {key: str(one) for key, one in value.items()} if isinstance(value, Mapping) else value


def _price(value: Any) -> Price:
    numbers = value if isinstance(value, list) else []
    if len(numbers) != 3 or not all(isinstance(n, int | float) and 0 <= n < MOST_USD for n in numbers):
        raise ConfigError(f"price is [input, cached input, output] per million (got {value!r})")
    return Price(input=numbers[0], cached=numbers[1], output=numbers[2])


_SHAPED: dict[str, Callable[[Any], Any]] = {
    "base_url": _joined, "headers": _texts, "query": _texts, "price": _price, "price_date": str,
}  # fmt: skip


def find_profile(spec: str, *, base_url: str = "", directory: Path | None = None) -> Profile:
    """Return the profile for `--judge SPEC`: its name, `ENDPOINT:MODEL`, or `http://host:port/v1#model`.

    `base_url`, or else $OPENAI_BASE_URL, overrides the profile's; a name without a profile works with either. The
    variable moves no profile with a key of another kind: that key would be sent to the wrong place. ConfigError lists
    near names.
    """
    environment = os.environ.get("OPENAI_BASE_URL", "")
    if "://" in spec:
        url, mark, model = spec.partition("#")
        if not mark or not model:
            raise ConfigError(f"--judge {spec} names no model", hint="write it as http://host:port/v1#model")
        return Profile(name=model, model=model, base_url=url, key_env=key_variable(url), source="--judge")
    profiles = load_profiles(directory)
    if spec in profiles:
        own = profiles[spec]
        return _moved(own, base_url or (environment if own.key_env == OPENAI_KEY else ""))
    named = split_name(spec)
    if named is not None:
        return _moved(_at_endpoint(*named, profiles), base_url)
    base_url = base_url or environment
    if base_url:
        return Profile(name=spec, model=spec, base_url=base_url, source="--base-url")
    near = difflib.get_close_matches(spec, profiles, 2, cutoff=0.4)
    hint = f"did you mean {' or '.join(near)}?" if near else "svr judges lists them."
    raise ConfigError(
        f"there is no judge {spec!r}", hint=f"{hint} openai:{spec} asks OpenAI; with --base-url any model name works."
    )


def _at_endpoint(endpoint: str, model: str, profiles: Mapping[str, Profile]) -> Profile:
    """Return the profile of a model at a known endpoint: the one that there is, else one of the usual settings."""
    settings = settings_of(endpoint)
    same = (p for p in profiles.values() if (p.model, p.base_url) == (model, settings["base_url"]))
    return next(same, None) or Profile(name=model, model=model, source="--judge", **settings)


def _moved(profile: Profile, base_url: str) -> Profile:
    if not base_url or base_url.rstrip("/") == ",".join(profile.base_urls):
        return profile
    identity = profile.identity if profile.identity != profile.address else ""
    return replace(profile, base_url=base_url, base_urls=(), identity=identity, from_folder=False)
