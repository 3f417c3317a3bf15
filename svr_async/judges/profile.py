"""A judge's profile: where an endpoint is, how it spells things, what it costs and what it allows."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from svr_async.engine import wires
from svr_async.engine.money import Price
from svr_async.engine.request import Messages, without_system
from svr_async.engine.secrets import refuse_key_in_url
from svr_async.engine.wires import Form, Params, Settings, Wire
from svr_async.errors import ConfigError
from svr_async.judges.endpoints import OPENAI_KEY

EFFORT_STYLES = ("field", "object", "none")
STRUCTURED_MODES = ("none", "json_object", "json_object_schema", "json_schema")
SYSTEM_ROLES = ("system", "user")
SHIPPED = "shipped with the package"
MOST_IN_FLIGHT = 4096  # bound of the calls under way where a profile names none; the engine finds how many pay
KEY_HEADERS = frozenset({"authorization", "x-api-key", "api-key", "cookie", "proxy-authorization"})
THIS_MACHINE = re.compile(r"^(https?://)(?:localhost|\[::1\])(?=[:/#]|$)", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """One model and where it is served.

    Decoding is the paper's: temperature 0, top_p 1, one answer of 8,192 tokens (`app:inference`); what is None, "" or
    empty is not sent. `extra_body` are further fields of the body. `headers` and `query` (URL parameters) go with each
    request; a value `$NAME` or `env:NAME` is the variable's, and as secret as a key. `path` stands in place of the
    wire's, `key_header` in place of the header that the wire puts the key into.
    `base_url` may name several endpoints, with commas between them: it is then the first, which names the cache, and
    `base_urls` are all of them. `concurrency` is how many calls may be under way at most, on all of them together.
    `wire` is how the endpoint is spoken to. `system_role` "user" puts what the system says ahead of the user's message,
    for models that know no system. `identity` stands for it in the cache. `from_folder`: a file of the working folder
    says so, which may be anybody's (`trust.py`).
    """

    name: str
    model: str
    base_url: str
    base_urls: tuple[str, ...] = ()
    key_env: str = OPENAI_KEY
    wire: str = wires.USUAL
    temperature: float | None = 0.0
    top_p: float | None = 1.0
    n: int | None = 1
    seed: int | None = None
    stop: tuple[str, ...] = ()
    reasoning_effort: str = ""
    effort_style: str = "none"
    structured: str = "none"
    system_role: str = "system"
    max_tokens: int = 8192
    max_tokens_field: str = "max_tokens"
    extra_body: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    path: str = ""
    key_header: str = ""
    price: Price | None = None
    price_date: str = ""
    price_source: str = ""
    context_tokens: int = 0
    concurrency: int = MOST_IN_FLIGHT
    rpm: float | None = None
    tpm: float | None = None
    identity: str = ""
    source: str = SHIPPED
    from_folder: bool = False

    def __post_init__(self) -> None:
        _require(self.effort_style in EFFORT_STYLES, self.name, "effort_style", self.effort_style, EFFORT_STYLES)
        _require(self.structured in STRUCTURED_MODES, self.name, "structured", self.structured, STRUCTURED_MODES)
        _require(self.system_role in SYSTEM_ROLES, self.name, "system_role", self.system_role, SYSTEM_ROLES)
        _require(self.wire in tuple(wires.MODULES), self.name, "wire", self.wire, tuple(wires.MODULES))
        if self.concurrency < 1:
            raise ConfigError(f"judge {self.name}: concurrency must be >= 1 (got {self.concurrency})")
        if self.n not in (None, 1):
            hint = 'n = 1, or n = "unset" where the endpoint does not know it'
            raise ConfigError(f"judge {self.name}: one answer is read, so n = {self.n} would pay for more", hint=hint)
        if self.path and not self.path.startswith("/"):
            raise ConfigError(f"judge {self.name}: path {self.path!r} does not begin with /")
        for name, value in self.headers.items():
            if name.lower() in KEY_HEADERS and variable_in(value) is None:
                hint = f'name a variable: {name} = "$NAME"'
                raise ConfigError(f"judge {self.name}: the header {name} holds a key in plain text", hint=hint)
        self._refuse_unsaid()
        object.__setattr__(self, "base_urls", _addresses(self.name, self.base_url, self.base_urls))
        object.__setattr__(self, "base_url", self.base_urls[0])
        if not self.identity:
            object.__setattr__(self, "identity", self.address)

    def _refuse_unsaid(self) -> None:
        """Raise ConfigError for a setting that the wire has no word for: it would be left out without a sign."""
        loose = self.structured in {"json_object", "json_object_schema"}
        for setting, wanted in (("seed", self.seed is not None), ("structured", loose)):
            plain = Settings(temperature=None, top_p=None, n=None)
            asked = replace(plain, **{setting: getattr(self, setting)})
            if wanted and self.spoken.params(asked) == self.spoken.params(plain):
                value = getattr(self, setting)
                raise ConfigError(f"judge {self.name}: the wire {self.wire} has no {setting} = {value!r}")

    @property
    def address(self) -> str:
        """The identity of an endpoint that is given none: its first address, with a path or wire that is not usual."""
        where = self.base_url + self.path
        return where if self.wire == wires.USUAL else f"{where}#{self.wire}"

    @property
    def endpoint(self) -> str:
        """The identity as the cache has it: the names of this machine are one."""
        return _this_machine(self.identity)

    @property
    def spoken(self) -> Wire:
        """How the endpoint is spoken to."""
        return wires.find_wire(self.wire)

    @property
    def told(self) -> dict[str, Any]:
        """What a manifest says of what goes with each request: variables by their names, no header's own value."""
        headers = {name: value if variable_in(value) else "(set)" for name, value in self.headers.items()}
        told = {"wire": self.wire, "path": self.path, "headers": headers, "query": dict(self.query)}
        usual = {"wire": wires.USUAL, "path": "", "headers": {}, "query": {}}
        return {name: value for name, value in told.items() if value != usual[name]}

    def placed(self, messages: Messages) -> Messages:
        """Return the messages of a request with the system's where the model reads it."""
        return messages if self.system_role == "system" else without_system(messages)

    def params(self, *, structured: bool, form: Form | None = None) -> Params:
        """Return the body fields beside model, messages and the token limit, as the wire spells them.

        `structured` replies are JSON, of this form.
        """
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
    """Return the variable that a header or parameter names, as `$NAME` or `env:NAME`; None where it names none."""
    for mark in ("$", "env:"):
        if value.startswith(mark) and value.removeprefix(mark).isidentifier():
            return value.removeprefix(mark)
    return None


def _addresses(judge: str, base_url: str, others: tuple[str, ...]) -> tuple[str, ...]:
    """Return all addresses, the first first; `others` are those of a profile that this one was made from."""
    urls = [refuse_key_in_url(url.strip()) for url in base_url.split(",") if url.strip()] or [refuse_key_in_url("")]
    if len(set(urls)) < len(urls):
        raise ConfigError(f"judge {judge}: the same base URL is named twice ({base_url})")
    return others if len(urls) == 1 and others and others[0] == urls[0] else tuple(urls)


def _require(ok: bool, judge: str, field: str, value: str, allowed: tuple[str, ...]) -> None:
    if not ok:
        raise ConfigError(f"judge {judge}: {field} must be one of {', '.join(allowed)} (got {value!r})")
