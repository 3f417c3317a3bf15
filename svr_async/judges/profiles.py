"""Judge profiles: where an endpoint is, how it spells things, what it costs and what it allows."""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from importlib import resources
from pathlib import Path
from typing import Any

from svr_async.engine.money import Price
from svr_async.engine.secrets import refuse_key_in_url
from svr_async.engine.wires import registry as wires
from svr_async.engine.wires.contract import Params, Settings, Wire
from svr_async.errors import ConfigError

EFFORT_STYLES = ("field", "object", "none")
STRUCTURED_MODES = ("none", "json_object")
SHIPPED = "shipped with the package"
OPENAI_KEY = "OPENAI_API_KEY"
MOST_IN_FLIGHT = 4096  # bound of the calls under way where a profile names none; the engine finds how many pay
_NUMBERS: dict[str, Any] = {
    "max_tokens": int, "context_tokens": int, "concurrency": int, "rpm": int | float, "tpm": int | float,
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """One model and where it is served.

    Decoding is the paper's: temperature 0, top_p 1, 8,192 tokens (`app:inference`).
    `base_url` may name several endpoints, with commas between them: it is then the first, which names the memo, and
    `base_urls` are all of them. `concurrency` is how many calls may be under way at most, on all of them together.
    `wire` is how the endpoint is spoken to. `identity` stands for it in the memo.
    """

    name: str
    model: str
    base_url: str
    base_urls: tuple[str, ...] = ()
    key_env: str = OPENAI_KEY
    wire: str = wires.USUAL
    reasoning_effort: str = ""
    effort_style: str = "none"
    structured: str = "none"
    max_tokens: int = 8192
    max_tokens_field: str = "max_tokens"
    price: Price | None = None
    context_tokens: int = 0
    concurrency: int = MOST_IN_FLIGHT
    rpm: float | None = None
    tpm: float | None = None
    identity: str = ""
    source: str = SHIPPED

    def __post_init__(self) -> None:
        _require(self.effort_style in EFFORT_STYLES, self.name, "effort_style", self.effort_style, EFFORT_STYLES)
        _require(self.structured in STRUCTURED_MODES, self.name, "structured", self.structured, STRUCTURED_MODES)
        _require(self.wire in wires.NAMES, self.name, "wire", self.wire, wires.NAMES)
        if self.concurrency < 1:
            raise ConfigError(f"judge {self.name}: concurrency must be >= 1 (got {self.concurrency})")
        object.__setattr__(self, "base_urls", _addresses(self.name, self.base_url, self.base_urls))
        object.__setattr__(self, "base_url", self.base_urls[0])
        if not self.identity:
            object.__setattr__(self, "identity", self.address)

    @property
    def address(self) -> str:
        """The identity of an endpoint that is given none: its first address, with any wire but the usual one."""
        return self.base_url if self.wire == wires.USUAL else f"{self.base_url}#{self.wire}"

    @property
    def spoken(self) -> Wire:
        """How the endpoint is spoken to."""
        return wires.find_wire(self.wire)

    def params(self, *, structured: bool) -> Params:
        """Return the body fields beside model, messages and the token limit, as the wire spells them."""
        settings = Settings(
            temperature=0.0,
            top_p=1.0,
            effort=self.reasoning_effort,
            effort_style=self.effort_style,
            structured=self.structured if structured else "none",
        )
        return self.spoken.params(settings)


def _addresses(judge: str, base_url: str, others: tuple[str, ...]) -> tuple[str, ...]:
    """Return all addresses, the first first; `others` are those of a profile that this one was made from."""
    urls = [refuse_key_in_url(url.strip()) for url in base_url.split(",") if url.strip()] or [refuse_key_in_url("")]
    if len(set(urls)) < len(urls):
        raise ConfigError(f"judge {judge}: the same base URL is named twice ({base_url})")
    return others if len(urls) == 1 and others and others[0] == urls[0] else tuple(urls)


def _require(ok: bool, judge: str, field: str, value: str, allowed: tuple[str, ...]) -> None:
    if not ok:
        raise ConfigError(f"judge {judge}: {field} must be one of {', '.join(allowed)} (got {value!r})")


def profile_paths(directory: Path | None = None) -> tuple[Path, ...]:
    """Return where users' judges.toml are looked for, the nearest first."""
    config = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    return ((directory or Path.cwd()) / "judges.toml", config / "svr-async" / "judges.toml")


def load_profiles(directory: Path | None = None) -> dict[str, Profile]:
    """Return all profiles by name: shipped ones, then the user's, then those of the working directory on top."""
    tables = _parse(resources.files("svr_async.judges").joinpath("profiles.toml").read_text("utf-8"), SHIPPED)
    merged = {name: (table, SHIPPED) for name, table in tables.items()}
    for path in reversed(profile_paths(directory)):
        if path.is_file():
            for name, table in _parse(_read(path), str(path)).items():
                base = merged.get(name, ({}, ""))[0]
                merged[name] = ({**base, **table}, str(path))
    return {name: _profile(name, table, source) for name, (table, source) in merged.items()}


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read {path}: {error}") from error


def _parse(text: str, source: str) -> dict[str, Any]:
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{source} is not valid TOML: {error}") from error
    for name, table in tables.items():
        if not isinstance(table, Mapping):
            hint = "write [name] above its settings"
            raise ConfigError(f"{source}: {name!r} stands outside a [judge] table", hint=hint)
    return tables


def _profile(name: str, table: Mapping[str, Any], source: str) -> Profile:
    known = {field.name for field in fields(Profile)} - {"name", "source", "base_urls"}
    for key in table:
        if key not in known:
            near = difflib.get_close_matches(key, known, 1)
            hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(sorted(known))}"
            raise ConfigError(f"{source}: judge {name} has the unknown setting {key!r}", hint=hint)
    values = dict(table)
    if isinstance(values.get("base_url"), list):
        values["base_url"] = ",".join(map(str, values["base_url"]))
    if "price" in values:
        values["price"] = _price(name, values["price"], source)
    for required in ("model", "base_url"):
        if not isinstance(values.get(required), str):
            raise ConfigError(f'{source}: judge {name} needs {required} = "…"')
    for key, value in values.items():
        wanted = _NUMBERS.get(key, Price if key == "price" else str)
        if not isinstance(value, wanted) or isinstance(value, bool):
            raise ConfigError(
                f"{source}: judge {name}: {key} = {value!r} is {type(value).__name__}, not {_words(wanted)}"
            )
    try:
        return Profile(name=name, source=source, **values)
    except ConfigError as error:
        message = error.message.removeprefix(f"judge {name}: ")
        raise ConfigError(f"{source}: judge {name}: {message}", hint=error.hint) from None


def _words(wanted: Any) -> str:
    return {str: "a text", int: "a whole number"}.get(wanted, "a number")


def _price(name: str, value: Any, source: str) -> Price:
    numbers = value if isinstance(value, list) else []
    if len(numbers) != 3 or not all(isinstance(n, int | float) and n >= 0 for n in numbers):
        raise ConfigError(f"{source}: judge {name}: price is [input, cached input, output] per million (got {value!r})")
    return Price(input=numbers[0], cached=numbers[1], output=numbers[2])


def find_profile(spec: str, *, base_url: str = "", directory: Path | None = None) -> Profile:
    """Return the profile for `--judge SPEC`: a name, or `http://host:port/v1#model`; ConfigError lists near names.

    `base_url`, or else $OPENAI_BASE_URL, overrides the profile's; a name without a profile works with either. The
    variable moves no profile with a key of another kind: that key would be sent to the wrong place.
    """
    environment = os.environ.get("OPENAI_BASE_URL", "")
    if "://" in spec:
        url, mark, model = spec.partition("#")
        if not mark or not model:
            raise ConfigError(f"--judge {spec} names no model", hint="write it as http://host:port/v1#model")
        return Profile(name=model, model=model, base_url=url, source="--judge")
    profiles = load_profiles(directory)
    if spec in profiles:
        own = profiles[spec]
        return _moved(own, base_url or (environment if own.key_env == OPENAI_KEY else ""))
    base_url = base_url or environment
    if base_url:
        return Profile(name=spec, model=spec, base_url=base_url, source="--base-url")
    near = difflib.get_close_matches(spec, profiles, 2, cutoff=0.4)
    hint = f"did you mean {' or '.join(near)}?" if near else "svr judges lists them."
    raise ConfigError(f"there is no judge {spec!r}", hint=f"{hint} With --base-url any model name works.")


def _moved(profile: Profile, base_url: str) -> Profile:
    if not base_url or base_url.rstrip("/") == ",".join(profile.base_urls):
        return profile
    identity = profile.identity if profile.identity != profile.address else ""
    return replace(profile, base_url=base_url, base_urls=(), identity=identity)
