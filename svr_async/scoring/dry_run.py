"""Dry runs: calls, tokens, dollars and time of a run that sends nothing.

Tokens are estimates: four characters each, and answers of their kind's usual length. Where the cache holds at least
`ENOUGH_ANSWERS` of the answers, the estimates are scaled by what these took.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from svr_async.engine.reply import Reply, Usage
from svr_async.engine.request import AUDIT, CONTINGENT, Request, estimate_tokens
from svr_async.scoring.decision import Decision

if TYPE_CHECKING:
    from svr_async.engine.caller import EngineConfig
    from svr_async.engine.engine import CallEngine

ENOUGH_ANSWERS = 10
FIRST_TOKEN_S = 1.0
TOKENS_PER_S = 50.0  # of one answer
AUTO_IN_FLIGHT = 64


@dataclass(slots=True)
class DryRunCount:
    """Counts what one engine would send; requests in `before`, which another count holds, are left out.

    `maybe_*` are of calls that depend on replies that are not known yet.
    """

    engine: CallEngine
    before: set[str] = field(default_factory=set)
    keys: set[str] = field(default_factory=set)
    calls: int = 0
    audit_calls: int = 0
    maybe_calls: int = 0
    prompt_tokens: int = 0
    maybe_prompt_tokens: int = 0
    answers: int = 0
    expected: list[int] = field(default_factory=lambda: [0, 0])  # tokens in and out of the answers in the cache …
    taken: list[int] = field(default_factory=lambda: [0, 0])  # … and the measured ones

    def __post_init__(self) -> None:
        self.engine.on_planned = self._note_planned
        self.engine.on_recalled = self._note_recalled

    def _note_planned(self, request: Request) -> None:
        key, tokens = request.key.hex(), estimate_tokens(request.prompt_chars)
        self.keys.add(key)
        if key not in self.before:
            self.calls += 1
            self.prompt_tokens += tokens
            self.audit_calls += AUDIT.get()
            if CONTINGENT.get():
                self.maybe_calls += 1
                self.maybe_prompt_tokens += tokens

    def _note_recalled(self, request: Request, reply: Reply, expected: int) -> None:
        """Count an answer in the cache, unless its endpoint did not report what it took."""
        usage = reply.usage
        if usage.prompt_tokens is not None and usage.completion_tokens is not None:
            self.answers += 1
            for sums, values in (
                (self.expected, (estimate_tokens(request.prompt_chars), expected)),
                (self.taken, (usage.prompt_tokens, usage.completion_tokens)),
            ):
                sums[:] = [total + value for total, value in zip(sums, values, strict=True)]

    def guessed(self, decision: Decision, /) -> bool:
        """Return whether a decision rests on a reply that is not known yet."""
        return not self.keys.isdisjoint(decision.requests)

    def price(self) -> dict[str, Any]:
        """Return calls, tokens, dollars and seconds of this engine."""
        stats, price = self.engine.stats(), self.engine.price
        scale_in, scale_out = self._scales()
        share = self.calls / max(1, stats.planned_calls)  # of calls that no other count holds
        prompt, at_most = round(scale_in * self.prompt_tokens), round(share * stats.planned_max_completion_tokens)
        written = min(at_most, round(share * scale_out * stats.planned_completion_tokens))
        maybe = self.maybe_calls / max(1, self.calls)

        def cost(prompt: float, written: float) -> float | None:
            usage = Usage(prompt_tokens=round(prompt), completion_tokens=round(written))
            return None if price is None else round(price.cost(usage), 4)

        return {
            "calls": self.calls,
            "audit_calls": self.audit_calls,
            "cache_hits": stats.cache_hits,
            "prompt_tokens": prompt,
            "completion_tokens": written,
            "max_completion_tokens": at_most,
            "usd": cost(prompt, written),
            "max_usd": cost(prompt, at_most),
            "maybe_calls": self.maybe_calls,
            "maybe_usd": cost(scale_in * self.maybe_prompt_tokens, maybe * written),
            "sampled_answers": self.answers if self.answers >= ENOUGH_ANSWERS else 0,
            "seconds": round(
                seconds_for(self.calls, prompt, written, self.engine.config, endpoints=len(stats.endpoints)), 1
            ),
        }

    def _scales(self) -> tuple[float, float]:
        """Return measured tokens per expected token, in and out."""
        if self.answers < ENOUGH_ANSWERS:
            return 1.0, 1.0
        first, second = (taken / max(1, expected) for taken, expected in zip(self.taken, self.expected, strict=True))
        return first or 1.0, second or 1.0


def seconds_for(calls: int, prompt: int, written: int, config: EngineConfig, *, endpoints: int = 1) -> float:
    """Return how long calls take: bound by the calls in flight, or by the rates of requests and tokens."""
    at_once = max(1, min(config.start or config.concurrency, calls))
    answering = (FIRST_TOKEN_S * calls + written / TOKENS_PER_S) / at_once
    rates = [calls / config.rpm if config.rpm else 0.0, (prompt + written) / config.tpm if config.tpm else 0.0]
    return max(answering, 60 * max(rates) / endpoints)


def total_count(counts: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the sum of the counts of several judges, which wait for each other, with each of them in `judges`."""
    found = list(counts.values())
    if len(found) == 1:
        return dict(found[0])
    sums: dict[str, Any] = {}
    for key in found[0]:
        values = [count[key] for count in found]
        sums[key] = None if None in values else round(sum(values), 4)
    return sums | {"judges": {name: dict(count) for name, count in counts.items()}}


def describe_stages(counts: Mapping[str, Any]) -> str:
    """Return the counts of a method in words: whole numbers and means by name."""
    return ", ".join(f"{name.replace('_', ' ')} {count:,}" for name, count in counts.items() if count is not None)


def guessed_by(counts: Sequence[DryRunCount], decision: Decision) -> bool:
    """Return whether a decision rests on a reply of any of these judges that is not known yet."""
    return any(one.guessed(decision) for one in counts)
