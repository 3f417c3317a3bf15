"""Money: prices, what a reply costs, and the caps that stop a run in time."""

from __future__ import annotations

from dataclasses import dataclass

from svr_async.engine.reply import Usage
from svr_async.errors import BudgetError


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """US dollars per million tokens; `cached` is the price of input tokens that a prefix cache served."""

    input: float
    cached: float
    output: float

    def cost(self, usage: Usage) -> float:
        """Return the cost of one reply in dollars; tokens that the endpoint did not report count as none."""
        prompt, cached = usage.prompt_tokens or 0, usage.cached_tokens or 0
        fresh = max(0, prompt - cached)
        return (fresh * self.input + cached * self.cached + (usage.completion_tokens or 0) * self.output) / 1e6


@dataclass(slots=True, kw_only=True)
class Budget:
    """Caps on the calls and dollars of a run; its engines share one. `reserve` is asked before each call is sent."""

    max_calls: int | None = None
    max_usd: float | None = None
    calls: int = 0
    under_way: int = 0
    usd: float = 0.0

    def reserve(self) -> None:
        """Count one call, or raise BudgetError; calls under way are expected to cost the mean of those that ended."""
        if self.max_calls is not None and self.calls >= self.max_calls:
            raise BudgetError(
                f"--max-calls {self.max_calls} is reached", hint="run the same command with a higher cap to go on"
            )
        if self.max_usd is not None and self._expected() >= self.max_usd:
            raise BudgetError(
                f"--budget ${self.max_usd:g} is reached (${self.usd:.4f} spent)",
                hint="run the same command with a higher budget to go on; what is paid is kept",
            )
        self.calls += 1
        self.under_way += 1

    def settle(self) -> None:
        """A call that was counted has ended."""
        self.under_way -= 1

    def _expected(self) -> float:
        ended = self.calls - self.under_way
        mean = self.usd / ended if ended > 0 else 0.0
        return self.usd + mean * self.under_way
