"""What judges cost: the facts of several engines as one, and the calls, tokens and dollars of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from svr_async.engine.money import BATCH_PRICE_SHARE, Price
from svr_async.engine.reply import Usage
from svr_async.engine.stats import EngineStats

CALLS = ("sent", "cache_hits", "joined", "retries", "rate_limited", "repaired", "failed", "lost")


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeCost:
    """What one judge was asked; `stats` is None for a judge that sends nothing."""

    name: str
    stats: EngineStats | None
    price: Price | None


def joined(found: Sequence[EngineStats], usd: float | None) -> EngineStats:
    """Return the facts of engines as one: counts added up, durations the longest, the spread of the first's latency.

    `usd` is what all of them paid.
    """
    reported = [stats.reported_usd for stats in found if stats.reported_usd is not None]
    return replace(found[0], **(_sums(found) | {"usd": usd, "reported_usd": sum(reported) if reported else None}))


def _sums(found: Sequence[EngineStats]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for one in fields(EngineStats):
        held = [getattr(stats, one.name) for stats in found]
        if all(type(value) is int for value in held):
            values[one.name] = sum(held)
        elif all(type(value) is float for value in held):
            values[one.name] = max(held)
        elif all(type(value) is tuple for value in held):
            values[one.name] = tuple(part for value in held for part in value)
        elif all(type(value) is str for value in held):
            values[one.name] = next((value for value in reversed(held) if value), "")
    return values


def engine_block(stats: EngineStats | None, price: Price | None) -> dict[str, Any]:
    """Return calls of this process, tokens behind the results (whenever they were paid), and their cost."""
    if stats is None:
        zero = {"prompt_tokens": 0, "cached_tokens": 0, "completion_tokens": 0}
        calls = {"sent": 0, "cache_hits": 0, "retries": 0, "failed": 0}
        return {"calls": calls, "usage": zero, "cache": cache_block(zero, None), "cost_usd": 0.0, "paid_usd": 0.0}
    tokens = {name: getattr(stats, name) for name in ("prompt_tokens", "cached_tokens", "completion_tokens")}
    return {
        "calls": {name: getattr(stats, name) for name in CALLS},
        "usage": tokens,
        "cache": cache_block(tokens, price, stats.batch_cached_tokens),
        "cost_usd": _rounded(stats.reported_usd if price is None else sum(map(price.cost, usages_of(stats)))),
        "paid_usd": _rounded(stats.usd if price is None else stats.usd or 0.0),
    }


def costs_block(costs: Sequence[JudgeCost], total: EngineStats | None) -> dict[str, Any]:
    """Return what all judges were asked and cost together, and each by itself where there are several.

    A sum of dollars is unknown where the price of one judge that was asked is.
    """
    if len(costs) == 1:
        return engine_block(total, costs[0].price)
    each = {cost.name: engine_block(cost.stats, cost.price) for cost in costs}
    sums = engine_block(total, None)
    asked = [block for cost, block in zip(costs, each.values(), strict=True) if cost.stats is not None]
    for key in ("cost_usd", "paid_usd"):
        sums[key] = _sum([block[key] for block in asked])
    sums["cache"]["saved_usd"] = _sum([block["cache"]["saved_usd"] for block in asked])
    if sums["paid_usd"] is not None and total is not None:
        sums["paid_usd"] = round(total.usd or 0.0, 6)
    return sums | {"judges": each}


def usages_of(stats: EngineStats) -> tuple[Usage, Usage]:
    """Return the tokens behind the results: those of live calls, and those bought in batches."""
    live = Usage(
        prompt_tokens=stats.prompt_tokens - stats.batch_prompt_tokens,
        cached_tokens=stats.cached_tokens - stats.batch_cached_tokens,
        completion_tokens=stats.completion_tokens - stats.batch_completion_tokens,
    )
    batch = Usage(
        prompt_tokens=stats.batch_prompt_tokens,
        cached_tokens=stats.batch_cached_tokens,
        completion_tokens=stats.batch_completion_tokens,
        batch=True,
    )
    return live, batch


def cache_block(tokens: Mapping[str, int], price: Price | None, batch_cached: int = 0) -> dict[str, float | None]:
    """Return which share of the input the endpoint had cached, and the dollars that this saved.

    Of the cached tokens `batch_cached` were bought in a batch.
    """
    prompt, cached = tokens["prompt_tokens"], tokens["cached_tokens"]
    batch_saved = 0.0 if price is None else BATCH_PRICE_SHARE * saved_usd(batch_cached, price)
    return {
        "cached_share": round(cached / prompt, 6) if prompt else None,
        "saved_usd": None if price is None else round(saved_usd(cached - batch_cached, price) + batch_saved, 6),
    }


def _rounded(usd: float | None) -> float | None:
    return None if usd is None else round(usd, 6)


def saved_usd(cached_tokens: int, price: Price) -> float:
    """Return by how many dollars cached input is cheaper than the same input computed afresh."""
    return cached_tokens * (price.input - price.cached) / 1e6


def _sum(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return round(sum(known), 6) if len(known) == len(values) else None
