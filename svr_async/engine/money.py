"""Money: prices, the cost of a reply, and the caps that stop a run in time."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite

from svr_async.engine.reply import Usage
from svr_async.errors import BudgetError, UsageError

BATCH_PRICE_SHARE = 0.5  # OpenAI's Batch API guide: half the price of live calls; other providers follow it


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """US dollars per million tokens; `cached` is the price of input tokens that a prefix cache served."""

    input: float
    cached: float
    output: float

    def cost(self, usage: Usage) -> float:
        """Return the cost of one reply in dollars; tokens that were not reported count as 0."""
        prompt, cached = usage.prompt_tokens or 0, usage.cached_tokens or 0
        fresh = max(0, prompt - cached)
        live = (fresh * self.input + cached * self.cached + (usage.completion_tokens or 0) * self.output) / 1e6
        return BATCH_PRICE_SHARE * live if usage.batch else live


def read_price(text: str) -> Price:
    """Read IN/OUT or IN/CACHED/OUT, dollars per million tokens; UsageError for anything else.

    Without a separate price, cached input costs as much as other input.
    """
    try:
        numbers = [float(part.strip().removeprefix("$")) for part in text.split("/")]
    except ValueError:
        numbers = []
    if len(numbers) not in (2, 3) or not all(isfinite(number) and number >= 0 for number in numbers):
        hint = "write dollars per million tokens: 0.15/0.60, or 0.15/0.075/0.60 if cached input costs less"
        raise UsageError(f"--price {text} is not IN/OUT or IN/CACHED/OUT", hint=hint)
    return Price(input=numbers[0], cached=numbers[-2], output=numbers[-1])


@dataclass(slots=True, kw_only=True)
class Budget:
    """Caps on the calls and dollars of a run; its engines share one. Call `reserve` before each call is sent.

    `usd` is the cost of replies so far. The cap also covers unknown costs: `estimated_usd` for replies without
    usage; calls in flight, and `lost` calls that may be billed, are expected to cost the mean of the answered ones.
    """

    max_calls: int | None = None
    max_usd: float | None = None
    calls: int = 0
    in_flight: int = 0
    usd: float = 0.0
    answered: int = 0
    lost: int = 0
    estimated_usd: float = 0.0

    def reserve(self) -> None:
        """Count one call, or raise BudgetError."""
        if self.max_calls is not None and self.calls >= self.max_calls:
            hint = "run the same command again to continue; it may send as many calls again"
            raise BudgetError(f"--max-calls {self.max_calls} is reached", hint=hint)
        if self.max_usd is not None and self._expected() >= self.max_usd:
            hint = "the same command continues and may spend as much again; with --dry-run it prices the rest"
            pending = f"; calls in flight: {self.in_flight}" if self.in_flight else ""
            raise BudgetError(f"--budget ${self.max_usd:g} is reached (${self.usd:.4f} spent{pending})", hint=hint)
        self.calls += 1
        self.in_flight += 1

    def release(self) -> None:
        """Note that a reserved call has ended."""
        self.in_flight -= 1

    def pay(self, usd: float, *, estimated_usd: float = 0.0) -> None:
        """Note the cost of an answered call: the known part, and an estimate of the rest."""
        self.answered += 1
        self.usd += usd
        self.estimated_usd += estimated_usd

    def _expected(self) -> float:
        known = self.usd + self.estimated_usd
        mean = known / self.answered if self.answered else 0.0
        return known + mean * (self.in_flight + self.lost)
