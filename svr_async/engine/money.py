"""Money: prices, what a reply costs, and the caps that stop a run in time."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import Protocol

from svr_async.engine.reply import Usage
from svr_async.errors import BudgetError, UsageError

BATCH_PRICE_SHARE = 0.5  # OpenAI's Batch API guide: half of the price of the same calls made live; clones follow it


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """US dollars per million tokens; `cached` is the price of input tokens that a prefix cache served."""

    input: float
    cached: float
    output: float

    def cost(self, usage: Usage) -> float:
        """Return the cost of one reply in dollars; tokens that the endpoint did not report count as none.

        What was bought in a batch cost its share.
        """
        prompt, cached = usage.prompt_tokens or 0, usage.cached_tokens or 0
        fresh = max(0, prompt - cached)
        live = (fresh * self.input + cached * self.cached + (usage.completion_tokens or 0) * self.output) / 1e6
        return BATCH_PRICE_SHARE * live if usage.batch else live


def read_price(text: str) -> Price:
    """Read IN/OUT or IN/CACHED/OUT, dollars per million tokens; UsageError for anything else.

    Where cached input has no price of its own it costs what input does.
    """
    try:
        numbers = [float(part.strip().removeprefix("$")) for part in text.split("/")]
    except ValueError:
        numbers = []
    if len(numbers) not in (2, 3) or not all(isfinite(number) and number >= 0 for number in numbers):
        hint = "write dollars per million tokens: 0.15/0.60, or 0.15/0.075/0.60 where cached input costs less"
        raise UsageError(f"--price {text} is not IN/OUT or IN/CACHED/OUT", hint=hint)
    return Price(input=numbers[0], cached=numbers[-2], output=numbers[-1])


class Lender(Protocol):
    """Who may add to the caps of a budget that is short."""

    async def borrow(self, budget: Budget) -> None:
        """Add to the caps what there is to be had."""


@dataclass(slots=True, kw_only=True)
class Budget:
    """Caps on the calls and dollars of a run; its engines share one. `reserve` is asked before each call is sent.

    `usd` is what replies say that they cost. The cap has to hold for what they do not say too: `untold_usd` is an
    estimate for replies without usage, and calls that are under way, or were `lost` and perhaps billed all the same,
    are expected to cost the mean of those that were answered. A `lender` is asked before a cap ends the run.
    """

    max_calls: int | None = None
    max_usd: float | None = None
    calls: int = 0
    under_way: int = 0
    usd: float = 0.0
    answered: int = 0
    lost: int = 0
    untold_usd: float = 0.0
    lender: Lender | None = None

    @property
    def short(self) -> bool:
        """Whether the next call would be refused."""
        calls, usd = self.left
        return calls == 0 or usd == 0.0

    @property
    def left(self) -> tuple[int | None, float | None]:
        """The calls and dollars that are left of the caps; None without a cap."""
        calls = None if self.max_calls is None else max(0, self.max_calls - self.calls)
        return calls, None if self.max_usd is None else max(0.0, self.max_usd - self._expected())

    def reserve(self) -> None:
        """Count one call, or raise BudgetError."""
        if self.max_calls is not None and self.calls >= self.max_calls:
            raise BudgetError(
                f"--max-calls {self.max_calls} is reached", hint="the same command goes on, with as many calls again"
            )
        if self.max_usd is not None and self._expected() >= self.max_usd:
            raise BudgetError(
                f"--budget ${self.max_usd:g} is reached (${self.usd:.4f} spent)",
                hint="what is paid is kept; the same command goes on, and spends up to as much again",
            )
        self.calls += 1
        self.under_way += 1

    def settle(self) -> None:
        """A call that was counted has ended."""
        self.under_way -= 1

    def pay(self, usd: float, *, untold_usd: float) -> None:
        """A call was answered: it cost so much, and perhaps more of which it does not tell."""
        self.answered += 1
        self.usd += usd
        self.untold_usd += untold_usd

    def _expected(self) -> float:
        known = self.usd + self.untold_usd
        mean = known / self.answered if self.answered else 0.0
        return known + mean * (self.under_way + self.lost)
