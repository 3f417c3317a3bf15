"""The end of a run in plain words: the headline, the domains, and a labelled line for each of the other facts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from svr_async.evaluation.wording import OUTCOME_WORDS, UNKNOWN, left_out, order_in_words
from svr_async.reports.official import UNJUDGED_ARE_WRONG, chance_in_words, has_official_rule, own_scores
from svr_async.reports.runfacts import number

MOST_SCORES = 8  # of a table of scores; longer ones are left to the report
DOMAIN_HEADS = ("domain", "n", "accuracy", "95 % interval", "ties at half")


def shown_percent(value: float | None) -> str:
    """Return a fraction of 1 as `81.2 %`, with a blank that a terminal can copy."""
    return UNKNOWN if value is None else f"{100 * value:.1f} %"


def _interval(ends: list[float]) -> str:
    return f"[{100 * ends[0]:.1f}, {100 * ends[1]:.1f}]"


def headline(metrics: Mapping[str, Any]) -> str:
    """Return what follows the accuracy: its interval, coverage, what the data left out, ties and bounds."""
    accuracy, (low, high) = metrics["accuracy"], metrics["accuracy_bounds"]
    told = f"{_interval(metrics['accuracy_ci95'])} of {metrics['n_total']} pairs, "
    told += f"coverage {shown_percent(metrics['coverage'])}"
    if odd := left_out(metrics.get("left_out")):
        told += f" ({odd})"
    half = metrics["accuracy_half_credit"]
    if low == high == half == accuracy:  # every pair has a verdict that is no tie
        return told
    bounds = f"{shown_percent(low)} to {shown_percent(high)} if all ties and missing verdicts were wrong, or all right"
    return f"{told}, ties at half credit {shown_percent(half)}, {bounds}"


def domain_rows(metrics: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """Return a row for each of several domains, by `DOMAIN_HEADS`; ties at half credit only where there are any."""
    rows = metrics["by_domain"]
    tied = any(row["accuracy_half_credit"] != row["accuracy"] for row in rows.values())
    told = [
        (name, str(row["n"]), shown_percent(row["accuracy"]), _interval(row["ci95"]),
         *((shown_percent(row["accuracy_half_credit"]),) if tied else ()))
        for name, row in rows.items()
    ]  # fmt: skip
    return told if len(told) > 1 else []


def summary_lines(metrics: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield (label, text): the benchmark's own scores, outcomes, orders, calls, what several judges did, notes."""
    yield from _official(metrics)
    yield "outcomes", _outcomes(metrics["outcomes"])
    yield "order", _order(metrics["order"])
    yield "calls", f"{calls_in_words(metrics)}; {metrics['wall_s']:.1f} s"
    yield from (("judges", line) for line in _panel(metrics))
    yield from (("note", note) for note in metrics["notes"])


def _official(metrics: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    official = own_scores(metrics)
    if text := _scores(official):
        note = "" if metrics["complete"] else f" ({UNJUDGED_ARE_WRONG})"
        yield "official" if has_official_rule(metrics) else "scores", f"{text}{note}"
        if chance := chance_in_words(metrics):
            yield "guessing", chance
    for name, value in official.items():
        if isinstance(value, dict) and (text := _scores(value)) and len(_numbers(value)) <= MOST_SCORES:
            yield name.replace("_", " "), text


def _scores(scores: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {shown_percent(value)}" for name, value in _numbers(scores).items())


def _numbers(values: Mapping[str, Any]) -> dict[str, float]:
    return {str(name): known for name, value in values.items() if (known := number(value)) is not None}


def _outcomes(counts: Mapping[str, int]) -> str:
    """Name what became of the pairs; what a word means is said where it is not all of them that were scored."""
    told = ", ".join(f"{name} {count:,}" for name, count in counts.items())
    if len(counts) < 2:
        return told
    return f"{told} ({'; '.join(f'{name}: {OUTCOME_WORDS[name]}' for name in counts if name in OUTCOME_WORDS)})"


def _order(order: Mapping[str, Any]) -> str:
    if not order["audited"]:
        return f"{order_in_words(order['policy'])}; none judged in both orders"
    close = f" (margin below {order['audit_below']:g})" if "audit_below" in order else ""
    return (
        f"{order_in_words(order['policy'])}; {order['audited']} judged in both orders{close}: on "
        f"{shown_percent(order['flip_rate'])} the verdict flips, {shown_percent(order['lean_a'])} of verdicts are for "
        "the one shown first"
    )


def calls_in_words(metrics: Mapping[str, Any]) -> str:
    """Say what was sent and what it cost, from the blocks of metrics.json."""
    calls, cost = metrics["calls"], metrics["cost_usd"]
    if not calls["sent"] and not calls["cache_hits"]:
        return "none"
    price = (
        "price unknown" if cost is None else f"${cost:.4f} for these answers, ${metrics['paid_usd']:.4f} of it paid now"
    )
    sent = f"{calls['sent']:,} sent, {calls['cache_hits']:,} from cache, {calls['retries']:,} retries"
    broken = calls.get("repaired", 0)
    again = f", {broken:,} asked again for a reply that could not be read" if broken else ""
    return f"{sent}{again}; {price}{_cached(metrics)}"


def _cached(metrics: Mapping[str, Any]) -> str:
    cache = metrics["cache"]
    if not cache["cached_share"]:
        return ""
    saved = "" if not cache["saved_usd"] else f", ${cache['saved_usd']:.4f} saved"
    return f"; {shown_percent(cache['cached_share'])} of the input from the endpoint's cache{saved}"


def _panel(metrics: Mapping[str, Any]) -> Iterator[str]:
    """Yield what several judges of a run did: how they agree, and what each was asked."""
    votes = metrics.get("votes") or {}
    agreement = votes.get("agreement")
    told = []
    if agreement is not None:
        told.append(f"all agree on {shown_percent(agreement)} of the pairs that more than one judged")
    if "escalated" in votes:
        told.append(f"{votes['escalated']} pairs escalated, {votes['changed']} changed sides")
    if told:
        yield "; ".join(told)
    for name, block in (metrics.get("judges") or {}).items():
        calls, cost = block["calls"], block["cost_usd"]
        price = "price unknown" if cost is None else f"${cost:.4f}"
        yield f"{name}: {calls['sent']} sent, {calls['cache_hits']} from cache; {price}"
