"""Facts of a run in words: order audit, judges, calls and cost, and how it was made."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson

from svr_async.evaluation import wording
from svr_async.evaluation.summary import RunSummary, number


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """A named value as text, with an optional note; `code` is shown in a fixed-width font.

    `words` are the parts of a command, between which a line may break.
    """

    name: str
    value: str
    note: str = ""
    code: bool = False
    words: tuple[str, ...] = ()


def order_facts(found: RunSummary) -> Iterator[Fact]:
    """Yield the order audit; `lean_a` is the share of verdicts for the response shown first."""
    order = found.metrics.get("order") or {}
    policy = str(order.get("policy") or wording.UNKNOWN)
    yield Fact(name="First shown", value=wording.ORDER_WORDS.get(policy, policy))
    audited, below = number(order.get("audited")), order.get("audit_below")
    if audited is not None:
        note = f"those with a margin below {below:g}" if below is not None else ""
        yield Fact(name="Judged in both orders", value=wording.count(audited) if audited else "none", note=note)
    for key, name, note in (
        ("flip_rate", "Flip rate", "verdicts that change when the two responses trade places"),
        ("lean_a", "First shown wins", "share of verdicts for the response shown first; 50 % is even-handed"),
    ):
        value = number(order.get(key))
        if value is not None:
            yield Fact(name=name, value=wording.percent(value), note=note)


def judge_facts(found: RunSummary) -> Iterator[Fact]:
    """Yield how several judges of a run agreed and what each cost; nothing for runs with one judge."""
    metrics = found.metrics
    votes, judges = metrics.get("votes") or {}, metrics.get("judges") or {}
    if (agreement := number(votes.get("agreement"))) is not None:
        note = "share of pairs with two verdicts or more on which all of them agree"
        yield Fact(name="Agreement", value=wording.percent(agreement), note=note)
    if (escalated := number(votes.get("escalated"))) is not None:
        changed = wording.count(number(votes.get("changed")))
        yield Fact(name="Escalated", value=wording.count(escalated), note=f"{changed} changed sides")
    for name, block in judges.items():
        if isinstance(block, Mapping):
            calls = block.get("calls") or {}
            sent, known = wording.count(number(calls.get("sent"))), wording.count(number(calls.get("cache_hits")))
            note = f"{sent} calls sent, {known} from the cache"
            yield Fact(name=str(name), value=wording.dollars(number(block.get("cost_usd"))), note=note)


CALLS = {
    "sent": "Calls sent", "cache_hits": "Answered by the cache", "joined": "Joined a call in flight",
    "failed": "Calls that failed", "lost": "Replies lost",
}  # fmt: skip


def cost_facts(metrics: Mapping[str, Any]) -> Iterator[Fact]:
    """Yield calls, tokens, dollars and time, from the blocks of metrics.json."""
    calls, usage = metrics.get("calls") or {}, metrics.get("usage") or {}
    for name, n in calls.items():
        yield Fact(name=CALLS.get(name, name.replace("_", " ").capitalize()), value=wording.count(n))
    prompt, cached = usage.get("prompt_tokens"), usage.get("cached_tokens")
    share = f"{wording.percent(cached / prompt, 0)} read from the endpoint's cache" if prompt and cached else ""
    yield Fact(name="Prompt tokens", value=wording.count(prompt), note=share)
    yield Fact(name="Completion tokens", value=wording.count(usage.get("completion_tokens")))
    cost, total = metrics.get("cost_usd"), metrics.get("n_total")
    each = f"{wording.dollars(1000 * cost / total)} per 1,000 pairs" if cost and total else ""
    yield Fact(name="Cost", value=wording.dollars(cost), note=each)
    if "paid_usd" in metrics:
        yield Fact(name="Paid by this run", value=wording.dollars(number(metrics["paid_usd"])))
    yield Fact(name="Time", value=wording.duration(metrics.get("wall_s")))


def how_facts(found: RunSummary) -> Iterator[Fact]:
    """Yield how a run was made."""
    manifest = found.manifest
    data, judge = manifest.get("data") or {}, manifest.get("judge") or {}
    skipped = data.get("skipped")
    if isinstance(skipped, Mapping):
        skipped = "; ".join(f"{reason}: {n}" for reason, n in skipped.items())
    rows = (
        ("Command", manifest.get("command"), True),
        ("Package", manifest.get("svr_version") and f"svr-async {manifest['svr_version']}", False),
        ("Started", moment(manifest.get("started")), False),
        ("Ended", moment(manifest.get("ended")), False),
        ("Run folder", found.name, True),
        ("Judge", judge.get("name"), False),
        ("Model", judge.get("model"), True),
        ("Endpoint", judge.get("base_url"), True),
        ("Data", data.get("path"), True),
        ("Data digest", data.get("digest"), True),
        ("Pairs", data.get("n_pairs"), False),
        ("Skipped rows", skipped, False),
        ("Left out", wording.left_out(found.metrics.get("left_out")), False),
    )
    for name, value, code in rows:
        if value not in (None, "", (), [], {}):
            words = tuple(map(shlex.quote, value)) if code and _is_words(value) else ()
            yield Fact(name=name, value=plain(value), code=code, words=words)
    for name, value in (manifest.get("prompts") or {}).items():
        yield Fact(name=f"Prompt {name}", value=plain(value), code=True)
    for name, value in (manifest.get("versions") or {}).items():
        yield Fact(name=str(name), value=plain(value))


def flat_facts(value: Mapping[str, Any], prefix: str = "") -> Iterator[Fact]:
    """Yield a nested configuration as facts, named `outer.inner`."""
    for name, entry in value.items():
        if isinstance(entry, Mapping) and entry:
            yield from flat_facts(entry, f"{prefix}{name}.")
        else:
            yield Fact(name=f"{prefix}{name}", value=plain(entry), code=True)


def plain(value: Any) -> str:
    """Return a JSON value as text: texts as they are, lists of words as a shell would read them, the rest as JSON."""
    if isinstance(value, str):
        return value
    return shlex.join(value) if _is_words(value) else orjson.dumps(value, default=str).decode()


def _is_words(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(entry, str) for entry in value)


def moment(value: object) -> str:
    """Return an ISO time as `5 January 2026, 10:22 UTC`; anything else as it stands."""
    try:
        when = datetime.fromisoformat(str(value))
    except ValueError:
        return "" if value is None else str(value)
    return f"{when.day} {when:%B %Y, %H:%M} {when.tzname() or ''}".rstrip()
