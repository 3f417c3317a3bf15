"""Settings of the simulated endpoint, and its faults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from svr_async.errors import ConfigError
from svr_async.simulation.world import draw_bytes, uniform

FAULTS: Mapping[str, int] = {  # with the status that the caller sees; the work is done, and paid, if it is 200
    "429": 429,  # with Retry-After
    "500": 500,
    "too-long": 400,  # the prompt exceeds the context: repeating the call does not help
    "hang": 0,  # no reply
    "cut": 200,  # the connection closes in the middle of the reply
    "empty": 200,  # a complete reply without content
    "refused": 200,  # the model declines
    "truncated": 200,  # half of a reply, as at a limit of tokens
}
WITHOUT_ANSWER = ("empty", "refused", "truncated")
MIXED = ("429", "500", "cut", "empty")


def parse_faults(text: str) -> tuple[str, ...]:
    """Read a comma-separated list of faults; `ConfigError` for an unknown one."""
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    unknown = [name for name in names if name not in FAULTS]
    if unknown:
        raise ConfigError(f"--faults {unknown[0]} is unknown", hint=f"one of {', '.join(FAULTS)}")
    return names


@dataclass(frozen=True, slots=True, kw_only=True)
class SimConfig:
    """Everything about a simulated endpoint; the defaults are a flawless one that answers at once.

    `manner` is the form of replies (`simulation.manners`), `latency_ms` the median for a reply of 256 tokens, `rpm` a
    limit of calls a minute (0: none), `quota` the number of calls that are paid for. `fault_rate` of the first
    `faulty_attempts` at each request have one of `faults`.
    """

    seed: int = 0
    manner: str = ""
    host: str = "127.0.0.1"
    port: int = 0
    api_key: str = ""
    context_tokens: int = 131_072
    latency_ms: float = 0.0
    rpm: float = 0.0
    quota: int | None = None
    fault_rate: float = 0.0
    faults: tuple[str, ...] = MIXED
    faulty_attempts: int = 2
    log_path: Path | None = None

    def fault(self, key: str, attempt: int) -> str:
        """Return the fault of attempt number `attempt` (from 0) at a request, "" without a fault."""
        drawn = draw_bytes(self.seed, "fault", key, attempt)
        if attempt >= self.faulty_attempts or not self.faults or uniform(drawn, 0) >= self.fault_rate:
            return ""
        return self.faults[int(uniform(drawn, 1) * len(self.faults))]
