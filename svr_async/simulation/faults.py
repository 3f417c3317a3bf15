"""Which fault befalls which call: a pure function of (seed, request key, attempt), and the table of faults."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum

from svr_async.errors import ConfigError
from svr_async.simulation.request import Role
from svr_async.simulation.world import draw_bytes, uniform


class Stage(StrEnum):
    """Where a fault strikes.

    `status`: an error reply in place of the answer. `wire`: the answer, or something else, arrives damaged.
    `body`: a complete HTTP reply that is no proper chat completion. `content`: a proper completion whose text is bad.
    `benign`: the answer is right and complete, something about it is odd. `final`: asking again is not meant to help.
    """

    STATUS = "status"
    WIRE = "wire"
    BODY = "body"
    CONTENT = "content"
    BENIGN = "benign"
    FINAL = "final"


@dataclass(frozen=True, slots=True)
class Fault:
    """One kind of fault. `paid`: the server did the work. `once`: struck at most once per request, or per topic."""

    name: str
    stage: Stage
    status: int = 200
    paid: bool = True
    once: bool = False
    roles: tuple[Role, ...] = ()

    @property
    def spoils(self) -> bool:
        """Whether the answer is damaged, so that it is asked for anew; a reply without choices is one to some wires."""
        return self.stage is Stage.CONTENT or self.name == "empty-choices"


_JSON_ROLES = (Role.COMPARE, Role.SCORE, Role.INDUCE, Role.WRITE, Role.REPHRASE, Role.PROPOSE, Role.DECOMPOSE)
_ROW_ROLES = (Role.COMPARE, Role.SCORE, Role.STATE)
_TABLE = (
    Fault("429", Stage.STATUS, 429, paid=False),
    Fault("429-date", Stage.STATUS, 429, paid=False),
    Fault("429-bare", Stage.STATUS, 429, paid=False),
    Fault("408", Stage.STATUS, 408, paid=False),
    Fault("500", Stage.STATUS, 500, paid=False),
    Fault("502", Stage.STATUS, 502, paid=False),
    Fault("503", Stage.STATUS, 503, paid=False),
    Fault("504", Stage.STATUS, 504, paid=False),
    Fault("529", Stage.STATUS, 529, paid=False),
    Fault("reset", Stage.WIRE, 0, paid=False),
    Fault("hang", Stage.WIRE, 0, paid=False),
    Fault("garbage", Stage.WIRE, 0),
    Fault("big-headers", Stage.WIRE, once=True),
    Fault("reset-mid", Stage.WIRE),
    Fault("truncated", Stage.WIRE),
    Fault("close-cut", Stage.WIRE),
    Fault("slow-drip", Stage.WIRE),
    Fault("huge", Stage.WIRE, once=True),
    Fault("gzip-bomb", Stage.WIRE, once=True),
    Fault("bad-gzip", Stage.WIRE),
    Fault("bad-utf8", Stage.WIRE),
    Fault("html", Stage.BODY, paid=False),
    Fault("error-200", Stage.BODY, paid=False),
    Fault("empty-choices", Stage.BODY),
    Fault("broken-json", Stage.CONTENT, roles=_JSON_ROLES),
    Fault("cut-json", Stage.CONTENT, roles=_JSON_ROLES),
    Fault("prose", Stage.CONTENT, roles=_JSON_ROLES),
    Fault("missing-rubrics", Stage.CONTENT, roles=_ROW_ROLES),
    Fault("duplicate-ids", Stage.CONTENT, roles=_ROW_ROLES),
    Fault("unknown-ids", Stage.CONTENT, roles=_ROW_ROLES),
    Fault("empty-content", Stage.CONTENT),
    Fault("length", Stage.CONTENT, once=True),
    Fault("refusal", Stage.CONTENT, once=True),
    Fault("wrong-model", Stage.BENIGN),
    Fault("bad-usage", Stage.BENIGN),
    Fault("307", Stage.FINAL, 307, paid=False),
    Fault("401", Stage.FINAL, 401, paid=False),
    Fault("context-length", Stage.FINAL, 400, paid=False),
    Fault("insufficient-quota", Stage.FINAL, 429, paid=False),
)
FAULTS: dict[str, Fault] = {fault.name: fault for fault in _TABLE}
POISON = Fault("poison", Stage.STATUS, 500, paid=False)
GROUPS: dict[str, tuple[str, ...]] = {
    stage.value: tuple(fault.name for fault in _TABLE if fault.stage is stage) for stage in Stage
}
GROUPS["mixed"] = tuple(
    fault.name for fault in _TABLE if fault.stage is not Stage.FINAL and fault.name not in ("hang", "slow-drip")
)
"""`mixed` is everything that a client survives by asking again, without the two that only a deadline ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultConfig:
    """How often which faults strike. `poison`: texts whose presence in a request means a 500 for ever."""

    rate: float = 0.0
    kinds: tuple[str, ...] = ()
    max_faulty_attempts: int = 2
    retry_after_s: float = 0.05
    drip_s: float = 0.05
    hang_s: float = 3600.0
    huge_bytes: int = 64 * 2**20
    bomb_bytes: int = 64 * 2**20
    poison: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not 0 <= self.rate <= 1:
            raise ConfigError(f"the fault rate must be in [0, 1] (got {self.rate})")
        if self.max_faulty_attempts < 0:
            raise ConfigError(f"max_faulty_attempts must be >= 0 (got {self.max_faulty_attempts})")
        unknown = [kind for kind in self.kinds if kind not in FAULTS]
        if unknown:
            raise ConfigError(f"unknown fault {unknown[0]!r}", hint=f"choose from {', '.join((*GROUPS, *FAULTS))}")


def parse_kinds(text: str) -> tuple[str, ...]:
    """Read a comma-separated list of faults and groups into fault names, each once, in the table's order."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    chosen = {kind for name in names for kind in GROUPS.get(name, (name,))}
    unknown = sorted(chosen - FAULTS.keys())
    if unknown:
        raise ConfigError(f"unknown fault {unknown[0]!r}", hint=f"choose from {', '.join((*GROUPS, *FAULTS))}")
    return tuple(name for name in FAULTS if name in chosen)


def draw_fault(
    config: FaultConfig, *, seed: int, key: str, attempt: int, role: Role, struck: Collection[str] = ()
) -> Fault | None:
    """Return the fault of attempt number `attempt` (from 0) at a request, or None.

    `struck` are the damaged answers of this topic so far. A client asks again once, so the default limit of 2 faulty
    attempts allows one of them.
    """
    if attempt >= config.max_faulty_attempts or not config.rate:
        return None
    kinds = [FAULTS[name] for name in config.kinds if not FAULTS[name].roles or role in FAULTS[name].roles]
    drawn = draw_bytes(seed, "fault", key, attempt)
    if not kinds or uniform(drawn, 0) >= config.rate:
        return None
    fault = kinds[int(uniform(drawn, 1) * len(kinds))]
    most = max(1, config.max_faulty_attempts - 1)
    allowed = len(struck) < most if fault.spoils else not (fault.once and attempt)
    return fault if allowed else None


def poisoned(config: FaultConfig, contents: Collection[str]) -> bool:
    """Tell whether a request holds one of the texts that the endpoint always fails on."""
    return any(pattern in text for pattern in config.poison for text in contents)
