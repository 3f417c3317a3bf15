"""Settings of the simulated endpoint."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from svr_async.errors import ConfigError
from svr_async.simulation.faults import FaultConfig
from svr_async.simulation.weakness import NONE as NO_WEAKNESS
from svr_async.simulation.weakness import Weakness
from svr_async.simulation.world import WorldConfig


@dataclass(frozen=True, slots=True)
class Outage:
    """A time without service: it starts so many seconds after the server and lasts so long.

    `refuse` closes the listening socket and every connection; otherwise each request gets a 503.
    """

    start_s: float
    duration_s: float
    refuse: bool = True

    @classmethod
    def parse(cls, text: str) -> Outage:
        """Read `START:DURATION` with an optional `:503`; `ConfigError` on anything else."""
        pieces = text.split(":")
        try:
            start, duration = float(pieces[0]), float(pieces[1])
        except (IndexError, ValueError):
            pieces = []
            start = duration = -1.0
        if len(pieces) not in (2, 3) or start < 0 or duration <= 0 or pieces[2:] not in ([], ["503"], ["refuse"]):
            raise ConfigError(f"an outage is START:DURATION in seconds, e.g. 5:2 or 5:2:503 (got {text!r})")
        return cls(start, duration, refuse=pieces[2:] != ["503"])


@dataclass(frozen=True, slots=True, kw_only=True)
class SimConfig:
    """Everything about a simulated endpoint; the defaults are a flawless one that answers at once.

    `noise` and `position_bias` replace those of every model if given. `manner` is the form of replies
    (`simulation.manners`), `weakness` what misleads the judge (`simulation.weakness`). `reasoning` refuses what
    OpenAI's reasoning models refuse: max_tokens, and any temperature or top_p but 1. `rpm`, `tpm`, `quota` and `slots`
    are off at 0; `prefix_blocks` is the size of the prefix cache in blocks of 64 tokens, 0 for none. `latency_ms` is
    the median for a reply of 256 tokens.
    """

    seed: int = 0
    world: WorldConfig | None = None
    noise: float | None = None
    position_bias: float | None = None
    manner: str = ""
    weakness: Weakness = NO_WEAKNESS
    reasoning: bool = False
    host: str = "127.0.0.1"
    port: int = 0
    api_key: str = ""
    context_tokens: int = 131_072
    latency_ms: float = 0.0
    latency_sigma: float = 0.5
    slots: int = 0
    rpm: float = 0.0
    tpm: float = 0.0
    burst_s: float = 1.0
    quota: int = 0
    prefix_blocks: int = 0
    faults: FaultConfig = field(default_factory=FaultConfig)
    outages: tuple[Outage, ...] = ()
    log_path: Path | None = None

    def __post_init__(self) -> None:
        for name in ("latency_ms", "latency_sigma", "slots", "rpm", "tpm", "quota", "prefix_blocks", "port"):
            value = getattr(self, name)
            if value < 0:
                raise ConfigError(f"{name} must be >= 0 (got {value})")
        for name in ("noise", "position_bias"):
            value = getattr(self, name)
            if value is not None and not 0 <= value <= 1:
                raise ConfigError(f"{name} must be in [0, 1] (got {value})")
        if self.context_tokens < 1:
            raise ConfigError(f"context_tokens must be >= 1 (got {self.context_tokens})")
        if self.burst_s <= 0:
            raise ConfigError(f"burst_s must be > 0 (got {self.burst_s})")

    @property
    def planted(self) -> WorldConfig:
        """The world that the judge knows: the one given, or the usual one with this seed."""
        return self.world or WorldConfig(seed=self.seed)
