"""What is known of a call, in words for a terminal."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from svr_async.evaluation.running.calls import Call
from svr_async.evaluation.wording import count

SIMULATED = " (SIMULATED endpoint)"
NOT_KEPT = "not recorded; --log FILE reads them from a log of --log-json FILE --log-level call"
_SHOWN_APART = {"messages", "input", "questions", "system"}  # parts of a body that its messages are


def call_facts(one: Call, logged: tuple[dict[str, Any], ...] | None, cache: Path | str) -> list[tuple[str, str]]:
    """Return what is known of a call as labelled lines; `logged` are its lines of a log, None where there is none."""
    facts = [("call", one.key)]
    if one.item is not None:
        facts.append(("item", one.item))
    if one.request is not None:
        request = one.request
        facts.append(("asked", f"{request.model} at {request.endpoint} (wire {request.wire.name})"))
    facts += [("failed", ": ".join(filter(None, one.failure)))] if one.failure else []
    return [*facts, *_reply_facts(one, cache), *_times(logged)]


def _reply_facts(one: Call, cache: Path | str) -> list[tuple[str, str]]:
    if one.kept is None:
        return [("reply", f"none in {cache}")]
    at = one.kept.kept_at
    kept = "" if at is None else datetime.fromtimestamp(at, UTC).isoformat(" ", "seconds").replace("+00:00", " UTC ")
    reply = one.reply
    if reply is None:
        return [("kept", f"{kept}in {cache}, damaged: it is asked again when it is needed")]
    usage = reply.usage
    tokens = f"in {count(usage.prompt_tokens)} (cached {count(usage.cached_tokens)})"
    cost = "" if one.usd is None else f", ${one.usd:.6f}"
    times = "asked once" if reply.tries == 1 else f"asked {reply.tries} times until a reply could be read"
    who = (reply.model or "a model without a name") + SIMULATED * one.simulated
    return [
        ("answered", f"by {who}, finish {reply.finish_reason}; {times}"),
        ("tokens", f"{tokens}, out {count(usage.completion_tokens)}{cost}{', bought in a batch' * usage.batch}"),
        ("kept", f"{kept}in {cache}"),
    ]


def _times(logged: tuple[dict[str, Any], ...] | None) -> list[tuple[str, str]]:
    """Return how long the call took and its attempts, a line for each time that it is in the log."""
    if logged is None:
        return [("time", f"seconds and attempts {NOT_KEPT}")]
    if not logged:
        return [("time", "the log has no line of this call")]
    return [
        ("time", f"{line.get('seconds')} s, attempts {line.get('attempts')}, ended {line.get('time')}{_ending(line)}")
        for line in logged
    ]


def _ending(line: dict[str, Any]) -> str:
    return f", {line['error']}: {line.get('detail', '')}" if line.get("error") else ""


def call_texts(one: Call) -> list[tuple[str, str]]:
    """Return the texts of a call under their names: request, settings, thoughts, reply, reasons."""
    texts = [("request", "not in the cache; --run RUN makes it out again")]
    if one.request is not None:
        settings = {name: value for name, value in one.request.body().items() if name not in _SHOWN_APART}
        texts = [(role, content) for role, content in one.request.messages]
        texts.append(("settings", orjson.dumps(settings).decode()))
    if one.reply is None:
        return texts
    texts += [("thoughts", one.reply.reasoning)] if one.reply.reasoning else []
    reasons = "\n".join(f"{rubric}: {text}" if rubric else text for rubric, text in one.reasons)
    none = "none: probabilities, scores and rubrics come without them"
    return [*texts, ("reply", one.reply.text), ("reasons", reasons or none)]
