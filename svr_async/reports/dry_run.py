"""Dry runs in words: calls, cost and time, and what they rest on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from svr_async.engine.request import CHARS_PER_TOKEN
from svr_async.evaluation.dry_run import AUTO_IN_FLIGHT, FIRST_TOKEN_S, TOKENS_PER_S, describe_stages
from svr_async.evaluation.wording import dollars, duration
from svr_async.judges.questions import TOKENS_OF_REASONING, TOKENS_OF_TEXT, TOKENS_PER_ROW, TOKENS_PER_RUBRIC

ASSUMED = (
    f"assumed: {CHARS_PER_TOKEN:g} characters a token in; {TOKENS_PER_ROW} tokens for each judged rubric, "
    f"{TOKENS_OF_TEXT} for a direct verdict, {TOKENS_PER_RUBRIC} for each written rubric, {TOKENS_OF_REASONING} more "
    "with a reasoning effort; a small run first replaces these by what this judge takes"
)
SPEED = f"{FIRST_TOKEN_S:g} s a call and {TOKENS_PER_S:.0f} tokens a second, {AUTO_IN_FLIGHT} in flight with auto"


def describe_count(count: Mapping[str, Any], *, verbose: bool = False) -> str:
    """Return the count as text: calls, cost and time; with `verbose` also what they rest on."""
    audit, maybe = count["audit_calls"], count["maybe_calls"]
    parts = [f"{audit:,} of them for the order audit"] if audit else []
    parts += [f"{maybe:,} of them only if margins turn out small"] if maybe else []
    known = f"; {count['cache_hits']:,} answers are in the cache" if count["cache_hits"] else ""
    lines = [
        f"dry run: {count['calls']:,} calls{''.join(f', {part}' for part in parts)}{known}. Nothing was sent.",
        (
            f"  cost: {_cost(count)} ({count['prompt_tokens']:,} tokens in, {count['completion_tokens']:,} out, "
            f"at most {count['max_completion_tokens']:,})"
        ),
        f"  time: about {duration(count['seconds'])}",
    ]
    for name, one in count.get("judges", {}).items():
        lines.append(f"  {name}: {one['calls']:,} calls, {one['cache_hits']:,} from the cache; {_cost(one)}")
    if count.get("assumes"):
        lines.append(f"  by stage: {describe_stages(count['method_calls'])}; assumed: {count['assumes']}")
    if sampled := count["sampled_answers"]:
        lines.append(f"  scaled by {sampled:,} answers in the cache")
    elif verbose:
        lines.append(f"  {ASSUMED}; {SPEED}")
    return "\n".join(lines)


def _cost(count: Mapping[str, Any]) -> str:
    if count["usd"] is None:
        return "price unknown: give --price IN/OUT, or price = [in, cached, out] in judges.toml"
    return f"about {dollars(count['usd'])}, at most {dollars(count['max_usd'])}"
