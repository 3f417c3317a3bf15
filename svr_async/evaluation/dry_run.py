"""Dry runs: calls, tokens, dollars and time of a run that sends nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from svr_async.core.prefixes import BLOCK_TOKENS, PrefixCache, PrefixOrder
from svr_async.engine.money import Price
from svr_async.engine.reply import Reply, Usage
from svr_async.engine.request import CHARS_PER_TOKEN, CONTINGENT, Request, estimate_tokens
from svr_async.engine.stats import EngineStats
from svr_async.evaluation.metrics import saved_usd
from svr_async.evaluation.wording import dollars, duration
from svr_async.judges.author import TOKENS_PER_RUBRIC
from svr_async.judges.questions import TOKENS_OF_REASONING, TOKENS_OF_TEXT, TOKENS_PER_ROW
from svr_async.scoring.decision import Decision

if TYPE_CHECKING:
    from svr_async.engine.caller import EngineConfig
    from svr_async.engine.engine import CallEngine


CACHE_BLOCKS = 65_536  # four million tokens: what an endpoint may keep while a run goes on
ENOUGH_ANSWERS = 10
AUTO_IN_FLIGHT = 64  # what is assumed where --concurrency auto finds out how many calls pay
FIRST_TOKEN_S = 1.0
TOKENS_A_SECOND = 50.0  # of one answer
ASSUMED = (
    f"assumed: {CHARS_PER_TOKEN:g} characters a token in; out, {TOKENS_PER_ROW} tokens a rubric that is judged, "
    f"{TOKENS_OF_TEXT} a direct verdict, {TOKENS_PER_RUBRIC} a rubric that is written, and {TOKENS_OF_REASONING} more "
    "an answer where an effort is asked for; a small run first makes them those of this judge"
)
SPEED = (
    f"a call taking a second and one for {TOKENS_A_SECOND:.0f} tokens, {AUTO_IN_FLIGHT} at once for --concurrency auto"
)


@dataclass(slots=True)
class Sample:
    """What answers in the cache took, and what was expected of them."""

    answers: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    expected_prompt: int = 0
    expected_completion: int = 0

    def note(self, request: Request, reply: Reply, expected: int) -> None:
        """Count one answer, of so many tokens as expected, unless the endpoint did not say what it took."""
        usage = reply.usage
        if usage.prompt_tokens is None or usage.completion_tokens is None:
            return
        self.answers += 1
        self.prompt_tokens += usage.prompt_tokens
        self.completion_tokens += usage.completion_tokens
        self.expected_prompt += estimate_tokens(request.prompt_chars)
        self.expected_completion += expected

    @property
    def scales(self) -> tuple[float, float]:
        """How many tokens in and out stand for one that is expected; 1 where the sample is too small."""
        if self.answers < ENOUGH_ANSWERS:
            return 1.0, 1.0
        return _ratio(self.prompt_tokens, self.expected_prompt), _ratio(
            self.completion_tokens, self.expected_completion
        )


def _ratio(found: int, expected: int) -> float:
    return found / expected if found and expected else 1.0


@dataclass(slots=True)
class DryRunCount:
    """Counts what one engine would send; `maybe_*` are of calls that depend on replies that are not there yet.

    The share of input that prefix caches serve is that of requests in the order in which they would leave. Requests in
    `before`, which other counts hold, are left out of the price.
    """

    engine: CallEngine
    prefix: PrefixOrder = PrefixOrder.LEADER
    before: set[str] = field(default_factory=set)
    keys: set[str] = field(default_factory=set)
    repeated: int = 0
    cached_tokens: int = 0
    maybe_calls: int = 0
    maybe_prompt_tokens: int = 0
    sample: Sample = field(default_factory=Sample)
    _cache: PrefixCache = field(
        default_factory=lambda: PrefixCache(CACHE_BLOCKS, block_chars=int(BLOCK_TOKENS * CHARS_PER_TOKEN))
    )

    def __post_init__(self) -> None:
        self.engine.on_planned = self.note
        self.engine.on_recalled = self.sample.note

    def note(self, request: Request) -> None:
        """Count one request."""
        key = request.key.hex()
        self.keys.add(key)
        if key in self.before:
            self.repeated += 1
            return
        if CONTINGENT.get():
            self.maybe_calls += 1
            self.maybe_prompt_tokens += estimate_tokens(request.prompt_chars)
        if self.prefix is PrefixOrder.LEADER:
            self.cached_tokens += self._cache.visit(request.model, [content for _, content in request.messages])

    def guessed(self, decision: Decision, /) -> bool:
        """Whether a decision rests on a reply that is not there yet."""
        return not self.keys.isdisjoint(decision.requests)

    def price(self) -> dict[str, Any]:
        """Return calls, tokens, dollars and seconds of this engine."""
        stats, price = self.engine.stats(), self.engine.price
        new = (stats.planned_calls - self.repeated) / max(1, stats.planned_calls)
        inward, outward = (new * scale for scale in self.sample.scales)
        scaled = replace(
            stats,
            planned_calls=stats.planned_calls - self.repeated,
            planned_prompt_tokens=round(inward * stats.planned_prompt_tokens),
            planned_completion_tokens=round(outward * stats.planned_completion_tokens),
            planned_max_completion_tokens=round(new * stats.planned_max_completion_tokens),
        )
        inward, _ = self.sample.scales
        count = price_calls(scaled, price, round(inward * self.cached_tokens))
        share = self.maybe_calls / count["calls"] if count["calls"] else 0.0
        maybe = Usage(
            prompt_tokens=round(inward * self.maybe_prompt_tokens),
            completion_tokens=int(share * count["completion_tokens"]),
        )
        sampled = self.sample.answers if self.sample.answers >= ENOUGH_ANSWERS else 0
        return count | {
            "maybe_calls": self.maybe_calls,
            "maybe_usd": None if price is None else round(price.cost(maybe), 4),
            "sampled_answers": sampled,
            "seconds": round(seconds_for(count, self.engine.config, endpoints=len(stats.endpoints)), 1),
        }


def seconds_for(count: Mapping[str, Any], config: EngineConfig, *, endpoints: int = 1) -> float:
    """Return how long calls take at the limits: of rates and calls under way, what holds them back longest.

    A call takes a second until its first token and 50 tokens a second from there; `auto` is 64 calls under way.
    """
    calls, tokens = count["calls"], count["prompt_tokens"] + count["completion_tokens"]
    at_once = config.start or config.concurrency
    written = FIRST_TOKEN_S * calls + count["completion_tokens"] / TOKENS_A_SECOND
    rates = [calls / config.rpm if config.rpm else 0.0, tokens / config.tpm if config.tpm else 0.0]
    held_back = 60 * max(rates) / endpoints
    return float(max(written / max(1, min(at_once, calls)), held_back))


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
        "cache_hits": stats.cache_hits,
        "prompt_tokens": stats.planned_prompt_tokens,
        "cached_tokens": cached,
        "completion_tokens": stats.planned_completion_tokens,
        "max_completion_tokens": stats.planned_max_completion_tokens,
        "usd": cost(stats.planned_completion_tokens),
        "max_usd": cost(stats.planned_max_completion_tokens),
        "saved_usd": None if price is None else round(saved_usd(cached, price), 4),
    }


def total_count(counts: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the sum of the counts of several judges, who wait for each other; the count itself where there is one."""
    found = list(counts.values())
    if len(found) == 1:
        return dict(found[0])
    sums: dict[str, Any] = {}
    for key in found[0]:
        values = [count[key] for count in found]
        sums[key] = None if None in values else round(sum(values), 4) if key.endswith("usd") else sum(values)
    return sums | {"judges": {name: dict(count) for name, count in counts.items()}}


def describe_count(count: Mapping[str, Any]) -> str:
    """Return the count in words, with what it rests on."""
    whole = (
        f"dry run: {count['calls']:,} calls to send, {count['cache_hits']:,} answers already in the cache; "
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
    sampled = count["sampled_answers"]
    lines.append(f"  {f'scaled by {sampled:,} answers in the cache' if sampled else ASSUMED}")
    lines.append(f"  about {duration(count['seconds'])} at these limits, {SPEED}")
    if count.get("assumes"):
        lines.append(f"  by stage: {told_stages(count['method_calls'])}; assumed: {count['assumes']}")
    for name, one in count.get("judges", {}).items():
        lines.append(f"  {name}: {one['calls']:,} calls, {one['cache_hits']:,} from the cache; {_cost(one)}")
    return "\n".join(lines)


def told_stages(counts: Mapping[str, Any]) -> str:
    """Return in words what a method has counted: whole numbers and means by name."""
    return ", ".join(f"{name.replace('_', ' ')} {count:,}" for name, count in counts.items() if count is not None)


def _left(count: Mapping[str, Any]) -> float:
    return max(0.0, float(count["usd"]) - float(count["saved_usd"]))


def _cost(count: Mapping[str, Any]) -> str:
    if count["usd"] is None:
        return "price unknown: give --price IN/OUT, or price = [in, cached, out] in judges.toml"
    return f"about {dollars(count['usd'])}, at worst {dollars(count['max_usd'])}"


def guessed_by(planned: Sequence[DryRunCount], decision: Decision) -> bool:
    """Whether a decision rests on a reply of any of these judges that is not there yet."""
    return any(one.guessed(decision) for one in planned)
