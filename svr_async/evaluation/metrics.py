"""metrics.json: accuracies with their denominators, outcomes, order audit, calls and cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from types import MappingProxyType
from typing import Any

from svr_async.adapters.contract import Adapter
from svr_async.adapters.records import PairResult
from svr_async.core.pair import Order, PreferencePair
from svr_async.core.statistics import share_interval
from svr_async.core.verdict import Outcome
from svr_async.engine.money import Price
from svr_async.engine.reply import Usage
from svr_async.engine.stats import EngineStats
from svr_async.evaluation.items import Item, grouped
from svr_async.evaluation.plan import OrderPolicy

NO_PROMPTS: Mapping[str, Hashable] = MappingProxyType({})
SCORED = {Outcome.SCORED.value, Outcome.TIE.value}


def accuracy_block(items: Sequence[Item], prompts: Mapping[str, Hashable] = NO_PROMPTS) -> dict[str, Any]:
    """Return the accuracies over items that have a right answer; every item stays in the denominator of `accuracy`.

    `n_scored` counts verdicts, ties included. `accuracy` is strict: a tie or an unscored item is wrong. The bounds
    take every tie and unscored item as wrong, and as right. `prompts` maps a pair's id to its
    prompt; if pairs share prompts, the interval is over prompts (`accuracy_ci95_unit`).
    """
    judged = [item for item in items if item.gold is not None]
    n, right = len(judged), sum(1 for item in judged if item.correct)
    ties = sum(1 for item in judged if item.outcome == Outcome.TIE.value)
    scored = sum(1 for item in judged if item.outcome in SCORED)
    units = [prompts.get(item.id, item.item) for item in judged]
    low, high = share_interval([float(item.correct is True) for item in judged], units)
    return {
        "n_total": n,
        "n_scored": scored,
        "coverage": _share(scored, n),
        "accuracy": _share(right, n),
        "accuracy_scored": _share(right, scored),
        "accuracy_half_credit": _share(right + ties / 2, n),
        "accuracy_bounds": [_share(right, n), _share(right + (n - scored) + ties, n)] if n else [0.0, 1.0],
        "accuracy_ci95": [round(low, 6), round(high, 6)],
        "accuracy_ci95_unit": "pair" if len(set(units)) == n else "prompt",
    }


def by_domain(items: Sequence[Item], prompts: Mapping[str, Hashable] = NO_PROMPTS) -> dict[str, Any]:
    """Return n, strict accuracy, its interval, and half credit for each domain, in alphabetical order."""
    groups = grouped((item for item in items if item.gold is not None), "domain")
    blocks = {name: accuracy_block(group, prompts) for name, group in groups.items()}
    return {
        name: {
            "n": block["n_total"],
            "accuracy": block["accuracy"],
            "ci95": block["accuracy_ci95"],
            "accuracy_half_credit": block["accuracy_half_credit"],
        }
        for name, block in blocks.items()
    }


def order_block(items: Sequence[Item], policy: OrderPolicy, audit_below: float | None = None) -> dict[str, Any]:
    """Return, for pairs judged in both orders, how often the verdict flips and how often the response shown first wins.

    With `audit_below` these are the pairs with small margins. `lean_a` is the share of verdicts for the response shown
    first, over both orders: 0.5 if position plays no role.
    """
    audited = [item for item in items if item.margins and len(item.margins) == len(Order)]
    both = [(item.margins[Order.AB.value], item.margins[Order.BA.value]) for item in audited]
    flips = sum(1 for ab, ba in both if (ab > 0) != (ba > 0) or (ab < 0) != (ba < 0))
    firsts = [0.5 if margin == 0 else float(margin > 0) for ab, ba in both for margin in (ab, -ba)]
    return {
        "policy": policy.value,
        **({} if audit_below is None else {"audit_below": audit_below}),
        "audited": len(both),
        "flip_rate": _share(flips, len(both)),
        "lean_a": _share(sum(firsts), len(firsts)),
    }


def plan_block(items: Sequence[Item]) -> dict[str, Any]:
    """Return how judges of one run agree, and what escalation changed; nothing for runs with one judge.

    `agreement` is, over pairs with two verdicts or more, the share on which all judges prefer the same response.
    """
    voted = [item for item in items if item.votes]
    if not voted:
        return {}
    sides = [[vote.predicted for vote in item.votes if vote.predicted] for item in voted]
    several = [found for found in sides if len(found) > 1]
    escalated = [item for item in voted if any(vote.part == "escalation" for vote in item.votes)]
    block: dict[str, Any] = {"agreement": _share(sum(len(set(found)) == 1 for found in several), len(several))}
    if any(vote.part == "first" for item in voted for vote in item.votes) or escalated:
        first = [{vote.predicted for vote in item.votes if vote.part != "escalation"} for item in escalated]
        changed = sum({item.predicted} != sides for item, sides in zip(escalated, first, strict=True))
        block |= {"escalated": len(escalated), "changed": changed}
    return {"votes": block}


def official_block(
    adapter: Adapter, pairs: Iterable[PreferencePair], items: Sequence[Item], tie_credit: float
) -> dict[str, Any]:
    """Return the benchmark's own scores; margins are oriented chosen minus rejected for it."""
    judged = {item.id: item for item in items if item.outcome in SCORED}
    kinds: dict[Hashable, PreferencePair] = {}
    return adapter.score([_result(_without_texts(pair, kinds), judged.get(pair.id)) for pair in pairs], tie_credit)


def _without_texts(pair: PreferencePair, kinds: dict[Hashable, PreferencePair]) -> PreferencePair:
    """Return a pair without texts; equal ones share one object, to save memory."""
    kind = (
        pair.domain, pair.subset, pair.chosen_first, pair.has_preference, pair.strength, pair.item, pair.slot,
    )  # fmt: skip
    if kind not in kinds:
        kinds[kind] = replace(pair, id="", prompt=(), chosen="", rejected="", rubrics=(), points=(), source="")
    return kinds[kind]


def _result(pair: PreferencePair, item: Item | None) -> PairResult:
    """Return the margin, or the scores, of the chosen response first."""
    if item is None or item.margin is None:
        return PairResult(pair, None)
    if item.scores is None:
        return PairResult(pair, item.margin if pair.chosen_first else -item.margin)
    chosen, rejected = item.scores if pair.chosen_first else item.scores[::-1]
    return PairResult(pair, chosen - rejected, (chosen, rejected))


def outcome_counts(items: Sequence[Item]) -> Mapping[str, int]:
    """Return how many items had each outcome, in the order of the closed set."""
    counts = Counter(item.outcome for item in items)
    return {outcome.value: counts[outcome.value] for outcome in Outcome if counts[outcome.value]}


def _share(part: float, whole: int) -> float | None:
    return round(part / whole, 6) if whole else None


TOKENS = ("prompt_tokens", "cached_tokens", "completion_tokens")
SPENT = ("calls", "usage", "cache", "cost_usd", "paid_usd", "judges")  # blocks of metrics.json on what a run cost
CALLS = ("sent", "cache_hits", "joined", "retries", "rate_limited", "repaired", "failed", "lost")


Cost = tuple[EngineStats | None, Price | None]
"""What one judge did and its price; None for a judge that sends nothing."""


def joined(found: Sequence[EngineStats], usd: float | None) -> EngineStats:
    """Combine the facts of engines: counts are added, the last failure is the latest's, the latency the first's.

    `usd` is the sum that they paid.
    """
    counts = [one.name for one in fields(EngineStats) if isinstance(getattr(found[0], one.name), int)]
    return replace(
        found[0],
        **{name: sum(getattr(stats, name) for stats in found) for name in counts},
        paused_s=max(stats.paused_s for stats in found),
        endpoints=tuple(endpoint for stats in found for endpoint in stats.endpoints),
        last_failure=next(filter(None, (stats.last_failure for stats in reversed(found))), ""),
        usd=usd,
    )


def engine_block(stats: EngineStats | None, price: Price | None) -> dict[str, Any]:
    """Return calls of this process, tokens behind the results (whenever they were paid), and their cost."""
    if stats is None:
        zero = dict.fromkeys(TOKENS, 0)
        calls = {"sent": 0, "cache_hits": 0, "retries": 0, "failed": 0}
        return {"calls": calls, "usage": zero, "cache": {"cached_share": None}, "cost_usd": 0.0, "paid_usd": 0.0}
    tokens = {name: getattr(stats, name) for name in TOKENS}
    return {
        "calls": {name: getattr(stats, name) for name in CALLS},
        "usage": tokens,
        "cache": {"cached_share": _share(stats.cached_tokens, stats.prompt_tokens)},
        "cost_usd": _rounded(stats.reported_usd if price is None else sum(map(price.cost, _usages(stats)))),
        "paid_usd": _rounded(stats.usd if price is None else stats.usd or 0.0),
    }


def costs_block(costs: Mapping[str, Cost]) -> dict[str, Any]:
    """Return calls and costs of all judges together, and of each, by name, if there are several.

    A sum of dollars is unknown if one price is.
    """
    each = {name: engine_block(*cost) for name, cost in costs.items()}
    if len(each) == 1:
        return each.popitem()[1]
    asked = [each[name] for name, (stats, _) in costs.items() if stats is not None]
    return added_costs(asked or list(each.values())) | {"judges": each}


def added_costs(blocks: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the summed costs of several machines on one run."""
    sums = {name: _added([block[name] for block in blocks if name in block]) for name in SPENT if name in blocks[0]}
    for block in (sums, *sums.get("judges", {}).values()):
        block["cache"]["cached_share"] = _share(block["usage"]["cached_tokens"], block["usage"]["prompt_tokens"])
    return sums


def _added(values: Sequence[Any]) -> Any:
    if isinstance(values[0], Mapping):
        return {name: _added([value[name] for value in values]) for name in values[0]}
    if None in values:
        return None
    return sum(values) if isinstance(values[0], int) else round(sum(values), 6)


def _usages(stats: EngineStats) -> tuple[Usage, Usage]:
    """Return the tokens behind the results: those of live calls, and those of batches."""
    batch = {name: getattr(stats, f"batch_{name}") for name in TOKENS}
    live = {name: getattr(stats, name) - batch[name] for name in TOKENS}
    return Usage(**live), Usage(**batch, batch=True)


def _rounded(usd: float | None) -> float | None:
    return None if usd is None else round(usd, 6)
