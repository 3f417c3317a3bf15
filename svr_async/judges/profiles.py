"""Judge profiles: where a model is served, how its endpoint spells things, its price and its limits.

Profiles ship with the package. The user's judges.toml extends them: $SVR_JUDGES (`--judges FILE`), else the one in the
configuration folder. The working directory is never searched.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

from svr_async.core.files import read_plain
from svr_async.engine import wires
from svr_async.engine.money import Price
from svr_async.engine.request import Messages, Request, without_system
from svr_async.engine.secrets import refuse_key_in_url
from svr_async.engine.wires import Form, Params, Settings, Wire
from svr_async.errors import AuthError, ConfigError, did_you_mean

OPENAI_KEY = "OPENAI_API_KEY"
SHIPPED = "shipped with the package"
FILE = "judges.toml"
MOST_IN_FLIGHT = 4096  # concurrency without a number in the profile; the engine adapts below it
KEY_HEADERS = frozenset({"authorization", "x-api-key", "api-key", "cookie", "proxy-authorization"})
THIS_MACHINE = re.compile(r"^(https?://)(?:localhost|\[::1\])(?=[:/#]|$)", re.IGNORECASE)
REWARDS = "rm:"
DECISION_WIRES = ("decisions", "systemone", "logprobs")
REWARD_WIRES = ("classify", "pooling", "score")  # the first is the default; an address may end in one of them
UNSET = "unset"
"""The value of a setting that is not sent; it takes back what a profile below sets."""
UNSETTABLE: Mapping[str, Any] = {
    "temperature": None, "top_p": None, "n": None, "seed": None, "stop": (), "reasoning_effort": "", "rpm": None,
    "tpm": None, "price": None, "headers": {}, "query": {}, "extra_body": {},
}  # fmt: skip

Text = Annotated[str, Meta(min_length=1)]
Count = Annotated[int, Meta(ge=1)]
Rate = Annotated[float, Meta(gt=0)]
Usd = Annotated[float, Meta(ge=0, lt=1e9)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """A model and where it is served. Settings that are None, "" or empty are not sent.

    Decoding is the paper's: temperature 0, top_p 1, one answer of up to 8,192 tokens. `profiles.toml` explains each
    setting. `base_url` may hold several addresses with commas; it is then the first, and `base_urls` are all.
    `identity` is the endpoint's name in cache keys; `source` says where the profile was read.
    """

    name: str
    model: str
    base_url: Text
    base_urls: tuple[str, ...] = ()
    key_env: str = OPENAI_KEY
    wire: str = wires.USUAL
    temperature: float | None = 0.0
    top_p: float | None = 1.0
    n: Literal[1] | None = 1
    seed: int | None = None
    stop: tuple[str, ...] = ()
    reasoning_effort: str = ""
    effort_style: Literal["field", "object", "none"] = "none"
    structured: Literal["none", "json_object", "json_object_schema", "json_schema"] = "none"
    system_role: Literal["system", "user"] = "system"
    max_tokens: Count = 8192
    max_tokens_field: str = "max_tokens"
    extra_body: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    path: Annotated[str, Meta(pattern="^(/|$)")] = ""
    key_header: str = ""
    price: Price | None = None
    price_date: str = ""
    price_source: str = ""
    context_tokens: Annotated[int, Meta(ge=0)] = 0
    concurrency: Count = MOST_IN_FLIGHT
    rpm: Rate | None = None
    tpm: Rate | None = None
    identity: str = ""
    source: str = SHIPPED

    def __post_init__(self) -> None:
        if self.wire not in wires.MODULES:
            raise ConfigError(f"unknown wire {self.wire!r}", hint=f"one of {', '.join(wires.MODULES)}")
        for name, value in self.headers.items():
            if name.lower() in KEY_HEADERS and variable_in(value) is None:
                hint = f'name a variable: {name} = "$NAME"'
                raise ConfigError(f"the header {name} holds a key in plain text", hint=hint)
        urls = [refuse_key_in_url(url.strip()) for url in self.base_url.split(",") if url.strip()]
        if not urls or len(set(urls)) < len(urls):
            raise ConfigError(f"base_url {self.base_url!r} is empty or names an address twice")
        if len(urls) > 1 or self.base_urls[:1] != (urls[0],):
            object.__setattr__(self, "base_urls", tuple(urls))
        object.__setattr__(self, "base_url", urls[0])
        if not self.identity:
            object.__setattr__(self, "identity", self.address)

    @property
    def address(self) -> str:
        """The default identity: the first address, with path and wire if they are not the usual ones."""
        where = self.base_url + self.path
        return where if self.wire == wires.USUAL else f"{where}#{self.wire}"

    @property
    def endpoint(self) -> str:
        """The identity in cache keys: all names of this machine are the same."""
        return _this_machine(self.identity)

    @property
    def spoken(self) -> Wire:
        """The API of the endpoint."""
        return wires.find_wire(self.wire)

    @property
    def key_variables(self) -> tuple[str, ...]:
        """The variables whose values are secret: the key, and those in headers and query."""
        named = (variable_in(value) for value in (*self.headers.values(), *self.query.values()))
        return tuple(dict.fromkeys(name for name in (self.key_env, *named) if name))

    def facts(self) -> dict[str, Any]:
        """Return the profile as a manifest shows it: variables by name, never a header's own value."""
        facts = {"model": self.model, "base_url": self.base_url, "source": self.source}
        headers = {name: value if variable_in(value) else "(set)" for name, value in self.headers.items()}
        urls = list(self.base_urls) if len(self.base_urls) > 1 else []
        wire = "" if self.wire == wires.USUAL else self.wire
        rare = {"base_urls": urls, "wire": wire, "path": self.path, "headers": headers, "query": dict(self.query)}
        return facts | {name: value for name, value in rare.items() if value} | {"max_tokens": self.max_tokens}

    def request(
        self, messages: Messages, params: Params | None = None, *, no_cache: bool = False, sample: int = 0
    ) -> Request:
        """Return a request; without `params` it asks for plain text."""
        return Request(
            endpoint=self.endpoint,
            model=self.model,
            messages=messages if self.system_role == "system" else without_system(messages),
            max_tokens=self.max_tokens,
            max_tokens_field=self.max_tokens_field,
            params=self.params(structured=False) if params is None else params,
            wire=self.spoken,
            no_cache=no_cache,
            sample=sample,
        )

    def params(self, *, structured: bool, form: Form | None = None) -> Params:
        """Return the body fields besides model, messages and token limit; `structured` asks for JSON of this form."""
        settings = Settings(
            temperature=self.temperature,
            top_p=self.top_p,
            n=self.n,
            seed=self.seed,
            stop=self.stop,
            effort=self.reasoning_effort,
            effort_style=self.effort_style,
            structured=self.structured if structured else "none",
            form=form,
            extra=tuple(self.extra_body.items()),
        )
        return self.spoken.params(settings)


@cache
def _this_machine(identity: str) -> str:
    return THIS_MACHINE.sub(r"\g<1>127.0.0.1", identity)


def variable_in(value: str) -> str | None:
    """Return the variable that a header or parameter names as `$NAME`; None for a plain value."""
    return value[1:] if value.startswith("$") and value[1:].isidentifier() else None


def _shipped(name: str) -> dict[str, dict[str, Any]]:
    return tomllib.loads(resources.files("svr_async.judges").joinpath(name).read_text("utf-8"))


@cache
def known_endpoints() -> dict[str, dict[str, Any]]:
    """Return base URL, key variable and wire of each known endpoint, by name."""
    return _shipped("endpoints.toml")


def profile_file() -> Path:
    """Return the user's judges.toml: $SVR_JUDGES, else the one in the configuration folder."""
    folder = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    return Path(os.environ.get("SVR_JUDGES") or folder / "svr-async" / FILE)


def load_profiles() -> dict[str, Profile]:
    """Return all profiles by name: shipped ones, with the tables of the user's file on top."""
    shipped, path = _shipped("profiles.toml"), profile_file()
    merged = {name: (table, SHIPPED) for name, table in shipped.items()}
    if os.environ.get("SVR_JUDGES") or path.is_file():
        merged |= {name: ({**shipped.get(name, {}), **table}, str(path)) for name, table in _read_tables(path).items()}
    return {name: _profile(name, table, source) for name, (table, source) in merged.items()}


def _read_tables(path: Path) -> dict[str, dict[str, Any]]:
    try:
        return msgspec.convert(tomllib.loads(read_plain(path).decode("utf-8")), dict[str, dict[str, Any]])
    except msgspec.ValidationError as error:
        raise ConfigError(f"{path}: a setting stands outside a [judge] table ({error})") from None
    except (OSError, ValueError) as error:
        raise ConfigError(f"cannot read '{path}': {getattr(error, 'strerror', None) or error}") from error


def _profile(name: str, table: Mapping[str, Any], source: str) -> Profile:
    try:
        return msgspec.convert({**_normal(table), "name": name, "source": source}, Profile)
    except msgspec.ValidationError as error:
        problem, _, place = str(error).partition(" - at `$.")
        message = f"{place.rstrip('`')}: {problem}" if place else problem
        raise ConfigError(f"{source}: judge {name}: {message}") from None
    except ConfigError as error:
        raise ConfigError(f"{source}: judge {name}: {error.message}", hint=error.hint) from None


def _normal(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return a table with each setting in its only form: lists for `stop`, one text for `base_url`, and so on."""
    known = sorted({one.name for one in fields(Profile)} - {"name", "source", "base_urls"} | {"endpoint"})
    if unknown := [key for key in table if key not in known]:
        hint = did_you_mean(unknown[0], known) or f"known settings: {', '.join(known)}"
        raise ConfigError(f"unknown setting {unknown[0]!r}", hint=hint)
    values = dict(table)
    if "endpoint" in values:
        values = endpoint_settings(str(values.pop("endpoint"))) | values
    values |= {name: UNSETTABLE[name] for name, value in values.items() if value == UNSET and name in UNSETTABLE}
    if isinstance(values.get("base_url"), list):
        values["base_url"] = ",".join(map(str, values["base_url"]))
    if isinstance(values.get("stop"), str):
        values["stop"] = [values["stop"]]
    for name in ("headers", "query"):
        if isinstance(values.get(name), dict):  # an api-version may stand without quotes
            values[name] = {key: str(value) for key, value in values[name].items()}
    if values.get("price") is not None:
        try:
            prices = msgspec.convert(values["price"], tuple[Usd, Usd, Usd])
        except msgspec.ValidationError:
            raise ConfigError(f"price is [input, cached input, output] per million (got {values['price']!r})") from None
        values["price"] = dict(zip(("input", "cached", "output"), prices, strict=True))
    if "price_date" in values:
        values["price_date"] = str(values["price_date"])
    return values


def endpoint_settings(name: str) -> dict[str, Any]:
    """Return the settings of a known endpoint; ConfigError if unknown."""
    known = known_endpoints()
    if name not in known:
        hint = did_you_mean(name, known) or f"known: {', '.join(known)}; for others set base_url"
        raise ConfigError(f"unknown endpoint {name!r}", hint=hint)
    return dict(known[name])


def key_variable(base_url: str) -> str:
    """Return the variable with the key for an address: the known endpoint's there if set, else OpenAI's."""
    here = base_url.rstrip("/")
    named = [one["key_env"] for one in known_endpoints().values() if one["base_url"] == here]
    return next((name for name in named if os.environ.get(name)), OPENAI_KEY)


@contextmanager
def naming_keys(variables: Iterable[str]) -> Iterator[None]:
    """Add to an AuthError which variable to set or check: those of all endpoints that may be called."""
    names = tuple(dict.fromkeys(variables))
    try:
        yield
    except AuthError as error:
        raise AuthError(error.message, hint="; ".join(map(key_hint, names)) or error.hint) from error


def key_hint(variable: str) -> str:
    """Return what to do about a refused key."""
    if not variable:
        return 'the profile names no variable for a key: set key_env = "NAME" in judges.toml'
    if os.environ.get(variable):
        return f"check the key in ${variable}: it is set, and refused"
    return f"set ${variable} to its key and run again, or judge offline with --judge rules"


# --- from a judge's name to its profile -------------------------------------------------------------------------------


def find_profile(name: str, *, base_url: str = "") -> Profile:
    """Return the profile of a judge's name; ConfigError with near names if unknown.

    `name` is that of a profile, ENDPOINT:MODEL or URL#MODEL. With `decisions:`, `systemone:` or `logprobs:` before it,
    the judge answers with probabilities; with `rm:` it is a reward model. `base_url` replaces the profile's, and so
    does $OPENAI_BASE_URL for profiles with OpenAI's key. Then the name may also be any model's.
    """
    profiles = load_profiles()
    prefix, mark, rest = name.partition(":")
    if mark and name not in profiles and prefix in DECISION_WIRES:
        return _decision_profile(prefix, rest, base_url, profiles)
    if name.startswith(REWARDS) and name not in profiles:
        return _reward_profile(rest, base_url, profiles)
    return _text_profile(name, base_url, profiles)


def _text_profile(name: str, base_url: str, profiles: Mapping[str, Profile]) -> Profile:
    environment = os.environ.get("OPENAI_BASE_URL", "")
    if "://" in name:
        url, _, model = name.partition("#")
        if not model:
            raise ConfigError(f"--judge {name} names no model", hint="write it as http://host:port/v1#model")
        return Profile(name=model, model=model, base_url=url, key_env=key_variable(url), source="--judge")
    if name in profiles:
        own = profiles[name]
        return _moved(own, base_url or (environment if own.key_env == OPENAI_KEY else ""))
    endpoint, _, model = name.partition(":")
    if model and endpoint in known_endpoints():
        settings = endpoint_settings(endpoint)
        same = (one for one in profiles.values() if (one.model, one.base_url) == (model, settings["base_url"]))
        found = next(same, None) or Profile(name=model, model=model, source="--judge", **settings)
        return _moved(found, base_url)
    if base_url or environment:
        return Profile(name=name, model=name, base_url=base_url or environment, source="--base-url")
    if form := _correct_form(name):
        raise ConfigError(f"unknown judge {name!r}", hint=form)
    hint = did_you_mean(name, profiles) or "svr judges lists them."
    if Path(FILE).is_file():
        hint += f" ./{FILE} is read with --judges {FILE} only."
    raise ConfigError(
        f"unknown judge {name!r}", hint=f"{hint} openai:{name} asks OpenAI; with --base-url any model name works."
    )


def _correct_form(name: str) -> str:
    """Return the correct form of an address without http:// or of several judges; "" for another name."""
    if "," in name:
        return f"several judges: --jury {name}"
    address, mark, model = name.partition("#")
    if mark and model and ":" in address:
        return f"write it as http://{address}{'' if '/' in address else '/v1'}#{model}"
    return ""


def _decision_profile(wire: str, rest: str, base_url: str, profiles: Mapping[str, Profile]) -> Profile:
    """Return a judge's profile on the wire of probabilities; else a model at the endpoint of the wire's own profile."""
    home = next((one for one in profiles if one.startswith(f"{wire}:")), "")
    if not rest:
        like = home or f"{wire}:gpt-oss-20b"
        raise ConfigError(f"--judge {wire}: names no model", hint=f"{like}, or {wire}:http://host:port/v1#model")
    if home and "://" not in rest and rest not in profiles and not base_url:
        return replace(profiles[home], name=f"{wire}:{rest}", model=rest, price=None)
    return _on_wire(_text_profile(rest, base_url, profiles), wire, f"{wire}:")


def _reward_profile(rest: str, base_url: str, profiles: Mapping[str, Profile]) -> Profile:
    """Return the profile of a reward model: URL[#MODEL], a judge's profile, or a model at `base_url`."""
    if rest in profiles:
        own = _text_profile(rest, base_url, profiles)
        return own if own.spoken.score else _on_wire(own, REWARD_WIRES[0], REWARDS)
    url, _, model = rest.partition("#") if "://" in rest else (base_url, "", rest)
    if not rest or not url:
        hint = "write rm:http://host:port, rm:http://host:port/pooling or rm:http://host:port#model"
        raise ConfigError(f"--judge {REWARDS}{rest} has no address", hint=hint)
    base, _, last = url.rstrip("/").rpartition("/")
    base, wire = (base, last) if last in REWARD_WIRES else (url, REWARD_WIRES[0])
    base = refuse_key_in_url(base)
    name = f"{REWARDS}{model or urlsplit(base).netloc}"
    return Profile(name=name, model=model, base_url=base, wire=wire, key_env=key_variable(base), source="--judge")


def _on_wire(profile: Profile, wire: str, prefix: str) -> Profile:
    """Return a profile with another wire, and with another identity, because its replies differ."""
    identity = "" if profile.identity == profile.address else f"{profile.identity}#{wire}"
    return replace(profile, name=f"{prefix}{profile.name}", wire=wire, identity=identity)


def _moved(profile: Profile, base_url: str) -> Profile:
    """Return a profile at another address; the default identity moves with it."""
    if not base_url or base_url.rstrip("/") == ",".join(profile.base_urls):
        return profile
    identity = profile.identity if profile.identity != profile.address else ""
    return replace(profile, base_url=base_url, base_urls=(), identity=identity)
