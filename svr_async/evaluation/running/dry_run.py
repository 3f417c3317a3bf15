"""What a dry run counts: calls, tokens and dollars to come, those that may not be needed, and what caching saves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from svr_async.engine.engine import CallEngine
from svr_async.engine.money import Price
from svr_async.engine.reply import Usage
from svr_async.engine.request import CONTINGENT, Request, estimate_tokens
from svr_async.engine.stats import EngineStats
from svr_async.evaluation.costs import saved_usd
from svr_async.evaluation.wording import dollars
from svr_async.scoring.decision import Decision
from svr_async.vocabulary.prefixes import BLOCK_TOKENS, PrefixCache, PrefixOrder

CACHE_BLOCKS = 65_536  # four million tokens: what an endpoint may keep while a run goes on
CHARS_PER_TOKEN = 3.6


@dataclass(slots=True)
class DryRunCount:
    """Counts what one engine would send; `maybe_*` are of calls that depend on replies that are not there yet.

    The share of input that prefix caches serve is that of requests in the order in which they would leave.
    """

    engine: CallEngine
    prefix: PrefixOrder = PrefixOrder.LEADER
    keys: set[str] = field(default_factory=set)
    cached_tokens: int = 0
    maybe_calls: int = 0
    maybe_prompt_tokens: int = 0
    _cache: PrefixCache = field(
        default_factory=lambda: PrefixCache(CACHE_BLOCKS, block_chars=int(BLOCK_TOKENS * CHARS_PER_TOKEN))
    )

    def __post_init__(self) -> None:
        self.engine.on_planned = self.note

    def note(self, request: Request) -> None:
        """Count one request."""
        self.keys.add(request.key.hex())
        if CONTINGENT.get():
            self.maybe_calls += 1
            self.maybe_prompt_tokens += estimate_tokens(request.prompt_chars)
        if self.prefix is PrefixOrder.LEADER:
            self.cached_tokens += self._cache.visit(request.model, [content for _, content in request.messages])

    def guessed(self, decision: Decision, /) -> bool:
        """Whether a decision rests on a reply that is not there yet."""
        return not self.keys.isdisjoint(decision.requests)

    def price(self) -> dict[str, Any]:
        """Return calls, tokens and dollars of this engine."""
        count = price_calls(self.engine.stats(), self.engine.price, self.cached_tokens)
        share = self.maybe_calls / count["calls"] if count["calls"] else 0.0
        maybe = Usage(prompt_tokens=self.maybe_prompt_tokens, completion_tokens=int(share * count["completion_tokens"]))
        price = self.engine.price
        return count | {
            "maybe_calls": self.maybe_calls,
            "maybe_usd": None if price is None else round(price.cost(maybe), 4),
        }


def price_calls(stats: EngineStats, price: Price | None, cached_tokens: int = 0) -> dict[str, Any]:
    """Return calls, tokens and dollars, expected and at worst (every answer as long as it may be).

    `saved_usd` is by how much the expected price falls where the endpoint keeps a prefix cache and bills it.
    """

    def cost(completion: int) -> float | None:
        usage = Usage(prompt_tokens=stats.planned_prompt_tokens, completion_tokens=completion)
        return None if price is None else round(price.cost(usage), 4)

    cached = min(cached_tokens, stats.planned_prompt_tokens)
    return {
        "calls": stats.planned_calls,
        "memo_hits": stats.memo_hits,
        "prompt_tokens": stats.planned_prompt_tokens,
        "cached_tokens": cached,
        "completion_tokens": stats.planned_completion_tokens,
        "max_completion_tokens": stats.planned_max_completion_tokens,
        "usd": cost(stats.planned_completion_tokens),
        "max_usd": cost(stats.planned_max_completion_tokens),
        "saved_usd": None if price is None else round(saved_usd(cached, price), 4),
    }


def total_count(counts: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the sum of the counts of several judges, with each by name; the count itself where there is one."""
    found = list(counts.values())
    if len(found) == 1:
        return dict(found[0])
    sums: dict[str, Any] = {}
    for key in found[0]:
        values = [count[key] for count in found]
        sums[key] = None if None in values else round(sum(values), 4) if key.endswith("usd") else sum(values)
    return sums | {"judges": {name: dict(count) for name, count in counts.items()}}


def describe_count(count: Mapping[str, Any]) -> str:
    """Return the count in words; token counts are estimates at 3.6 characters a token."""
    whole = (
        f"dry run: {count['calls']:,} calls to send, {count['memo_hits']:,} answers already in the memo; "
        f"about {count['prompt_tokens']:,} tokens in and {count['completion_tokens']:,} out "
        f"(at worst {count['max_completion_tokens']:,}); {_cost(count)}. Nothing was sent."
    )
    lines = [whole]
    if count.get("maybe_calls"):
        money = "" if count["maybe_usd"] is None else f", about {dollars(count['maybe_usd'])} of it"
        lines.append(f"  {count['maybe_calls']:,} of the calls{money}, are needed only where margins turn out small")
    if count["cached_tokens"]:
        share = count["cached_tokens"] / count["prompt_tokens"]
        money = (
            "" if count["saved_usd"] is None else f": {dollars(count['saved_usd'])} less, about {dollars(_left(count))}"
        )
        lines.append(f"  a prefix cache at the endpoint can serve {100 * share:.0f} % of the tokens in{money}")
    for name, one in count.get("judges", {}).items():
        lines.append(f"  {name}: {one['calls']:,} calls, {one['memo_hits']:,} from the memo; {_cost(one)}")
    return "\n".join(lines)


def _left(count: Mapping[str, Any]) -> float:
    return max(0.0, float(count["usd"]) - float(count["saved_usd"]))


def _cost(count: Mapping[str, Any]) -> str:
    if count["usd"] is None:
        return "price unknown: add price = [in, cached, out] to the judge in judges.toml"
    return f"about {dollars(count['usd'])}, at worst {dollars(count['max_usd'])}"


def guessed_by(planned: Sequence[DryRunCount], decision: Decision) -> bool:
    """Whether a decision rests on a reply of any of these judges that is not there yet."""
    return any(one.guessed(decision) for one in planned)
