"""Dry runs: calls, tokens, dollars and time of a run that sends nothing.

Tokens are estimates: four characters each, and answers of their kind's usual length. Where the cache holds at least
`ENOUGH_ANSWERS` of the answers, the estimates are scaled by what these took.
"""

from __future__ import annotations

from collections import Counter
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

    `planned` counts calls and tokens; `maybe_calls` depend on replies that are not known yet. `recalled` counts answers
    in the cache: the tokens expected of them, and those that they took.
    """

    engine: CallEngine
    before: set[str] = field(default_factory=set)
    keys: set[str] = field(default_factory=set)
    planned: Counter[str] = field(default_factory=Counter)
    recalled: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.engine.on_planned = self._note_planned
        self.engine.on_recalled = self._note_recalled

    def _note_planned(self, request: Request) -> None:
        key, audit, maybe = request.key.hex(), int(AUDIT.get()), int(CONTINGENT.get())
        self.keys.add(key)
        if key not in self.before:
            tokens = estimate_tokens(request.prompt_chars)
            self.planned.update(calls=1, prompt_tokens=tokens, audit_calls=audit, maybe_calls=maybe)

    def _note_recalled(self, request: Request, reply: Reply, expected: int) -> None:
        """Count an answer in the cache, unless its endpoint did not report what it took."""
        taken_in, taken_out = reply.usage.prompt_tokens, reply.usage.completion_tokens
        if taken_in is not None and taken_out is not None:
            expected_in = estimate_tokens(request.prompt_chars)
            self.recalled.update(answers=1, expected_in=expected_in, expected_out=expected)
            self.recalled.update(taken_in=taken_in, taken_out=taken_out)

    def price(self) -> dict[str, Any]:
        """Return calls, tokens, dollars and seconds of this engine."""
        stats, price, planned = self.engine.stats(), self.engine.price, self.planned
        calls, sampled = planned["calls"], self.recalled["answers"]
        scale_in, scale_out = (self._scale("in"), self._scale("out")) if sampled >= ENOUGH_ANSWERS else (1.0, 1.0)
        share = calls / max(1, stats.planned_calls)  # of calls that no other count holds
        prompt, at_most = round(scale_in * planned["prompt_tokens"]), round(share * stats.planned_max_completion_tokens)
        written = min(at_most, round(share * scale_out * stats.planned_completion_tokens))
        usd, max_usd = (
            None if price is None else round(price.cost(Usage(prompt_tokens=prompt, completion_tokens=tokens)), 4)
            for tokens in (written, at_most)
        )
        seconds = seconds_for(calls, prompt, written, self.engine.config, endpoints=len(stats.endpoints))
        return {
            "calls": calls,
            "audit_calls": planned["audit_calls"],
            "cache_hits": stats.cache_hits,
            "prompt_tokens": prompt,
            "completion_tokens": written,
            "max_completion_tokens": at_most,
            "usd": usd,
            "max_usd": max_usd,
            "maybe_calls": planned["maybe_calls"],
            "sampled_answers": sampled if sampled >= ENOUGH_ANSWERS else 0,
            "seconds": round(seconds, 1),
        }

    def _scale(self, way: str) -> float:
        """Return how many tokens one expected token stands for, `in` or `out`."""
        return self.recalled[f"taken_{way}"] / max(1, self.recalled[f"expected_{way}"]) or 1.0


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
    return any(not one.keys.isdisjoint(decision.requests) for one in counts)
