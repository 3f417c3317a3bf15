"""Facts of a run as a report names them: calls and costs, how several judges did, how the run was made."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson

from svr_async.core.verdict import is_number
from svr_async.evaluation import wording
from svr_async.evaluation.run_folder import Run


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """A named value, with a note where the name does not say it all; `code` for what is typed or hashed.

    `words` are the parts of a command, which a line is broken between.
    """

    name: str
    value: str
    note: str = ""
    code: bool = False
    words: tuple[str, ...] = ()


def cost_facts(metrics: Mapping[str, Any]) -> tuple[Fact, ...]:
    """Return calls, tokens, dollars and time."""
    calls, usage = metrics.get("calls") or {}, metrics.get("usage") or {}
    facts = [Fact(name=_call_words(name), value=wording.count(n)) for name, n in calls.items()]
    prompt, cached = usage.get("prompt_tokens"), usage.get("cached_tokens")
    saved = number((metrics.get("cache") or {}).get("saved_usd"))
    share = f"{wording.percent(cached / prompt, 0)} read from the endpoint's cache" if prompt and cached else ""
    share += f", which saved {wording.dollars(saved)}" if share and saved else ""
    facts.append(Fact(name="Prompt tokens", value=wording.count(prompt), note=share))
    facts.append(Fact(name="Completion tokens", value=wording.count(usage.get("completion_tokens"))))
    cost, total = metrics.get("cost_usd"), metrics["n_total"]
    each = f"{wording.dollars(1000 * cost / total)} per 1,000 pairs" if cost and total else ""
    facts.append(Fact(name="Cost", value=wording.dollars(cost), note=each))
    if "paid_usd" in metrics:
        facts.append(Fact(name="Paid by this run", value=wording.dollars(number(metrics["paid_usd"]))))
    facts.append(Fact(name="Time", value=wording.duration(metrics.get("wall_s"))))
    return tuple(facts)


def panel_facts(metrics: Mapping[str, Any]) -> tuple[Fact, ...]:
    """Return how several judges of a run agreed and what each cost; nothing for runs with one judge."""
    votes, judges = metrics.get("votes") or {}, metrics.get("judges") or {}
    facts = []
    if number(votes.get("agreement")) is not None:
        note = "share of pairs with two verdicts or more on which all of them agree"
        facts.append(Fact(name="Agreement", value=wording.percent(votes["agreement"]), note=note))
    if number(votes.get("escalated")) is not None:
        changed = wording.count(number(votes.get("changed")))
        facts.append(Fact(name="Escalated", value=wording.count(votes["escalated"]), note=f"{changed} changed sides"))
    for name, block in judges.items():
        if isinstance(block, Mapping):
            facts.append(Fact(name=str(name), value=wording.dollars(number(block.get("cost_usd"))), note=_asked(block)))
    return tuple(facts)


def _asked(block: Mapping[str, Any]) -> str:
    calls = block.get("calls") or {}
    sent, known = number(calls.get("sent")), number(calls.get("cache_hits"))
    return f"{wording.count(sent)} calls sent, {wording.count(known)} from the cache"


def _call_words(name: str) -> str:
    words = {
        "sent": "Calls sent",
        "cache_hits": "Answered by the cache",
        "joined": "Joined a call under way",
        "failed": "Calls that failed",
        "lost": "Replies lost",
    }
    return words.get(name, name.replace("_", " ").capitalize())


def how_facts(run: Run) -> Iterator[Fact]:
    """Yield how a run was made."""
    manifest = run.manifest
    data, judge = manifest.get("data") or {}, manifest.get("judge") or {}
    rows = (
        ("Command", manifest.get("command"), True),
        ("Package", manifest.get("svr_version") and f"svr-async {manifest['svr_version']}", False),
        ("Started", moment(manifest.get("started")), False),
        ("Ended", moment(manifest.get("ended")), False),
        ("Run folder", run.name, True),
        ("Judge", judge.get("name"), False),
        ("Model", judge.get("model"), True),
        ("Endpoint", judge.get("base_url"), True),
        ("Data", data.get("path"), True),
        ("Data digest", data.get("digest"), True),
        ("Pairs", data.get("n_pairs"), False),
        ("Labels", "; ".join(map(str, data.get("readings") or ())), False),
        ("Skipped rows", _counted(data.get("skipped")), False),
    )
    for name, value, code in rows:
        if value not in (None, "", (), [], {}):
            words = tuple(map(shlex.quote, value)) if code and _is_words(value) else ()
            yield Fact(name=name, value=plain(value), code=code, words=words)
    for name, value in (manifest.get("prompts") or {}).items():
        yield Fact(name=f"Prompt {name}", value=plain(value), code=True)
    for name, value in (manifest.get("versions") or {}).items():
        yield Fact(name=str(name), value=plain(value))


def _counted(value: Any) -> Any:
    """Return counts by reason as one text; anything else as it stands."""
    if not isinstance(value, Mapping):
        return value
    return "; ".join(f"{reason}: {n}" for reason, n in value.items())


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
    if _is_words(value):
        return shlex.join(value)
    return orjson.dumps(value, default=str).decode()


def _is_words(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(entry, str) for entry in value)


def moment(value: Any) -> str:
    """Return an ISO time as `5 January 2026, 10:22 UTC`; anything else as it stands."""
    try:
        when = datetime.fromisoformat(str(value))
    except ValueError:
        return "" if value is None else str(value)
    zone = when.tzname() or ""
    return f"{when.day} {when:%B %Y, %H:%M} {zone}".rstrip()


def number(value: Any) -> float | None:
    """Return a value that is a number; None for anything else."""
    return value if is_number(value) else None
