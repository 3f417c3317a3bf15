"""One token of a chat completion with its log-probabilities: P(Yes) of a statement, wherever they are told."""

from __future__ import annotations

import math
from dataclasses import replace
from http import HTTPStatus
from typing import Any

from svr_async.engine.reply import Reply, json_of
from svr_async.engine.wires import QUESTION, Params, Settings, Wire, WireRequest, openai
from svr_async.engine.wires.decisions import name_of, reply_of

TOP = 20  # most alternatives that OpenAI's endpoint, and vLLM as it comes, tell of a token
WORDS = {"yes": True, "no": False}
ROUNDING = 0.01  # a log-probability may be so much above 0
LEAST_MASS = 0.01  # where Yes and No together are less likely than this, the token answers something else


def params(settings: Settings) -> Params:
    """Return the body fields of a chat that are asked for one token; no effort to reason, no form of the answer."""
    plain = replace(settings, effort="", structured="none", stop=())
    return (*openai.params(plain), ("logprobs", True), ("top_logprobs", TOP))


def body(asked: WireRequest) -> dict[str, Any]:
    """Return the JSON body of the POST: the statement ends the last message, so that requests of a pair begin alike."""
    found = openai.body(asked)
    turns: list[dict[str, str]] = []
    for turn in found["messages"]:
        if turn["role"] == QUESTION:
            turns[-1] = {**turns[-1], "content": f"{turns[-1]['content']}\n\n{turn['content']}"}
        else:
            turns.append(turn)
    return found | {"messages": turns}


def read(data: bytes, status: int = HTTPStatus.OK) -> Reply:
    """Read P(Yes) of the first token, as a share of Yes and No together.

    One token always ends at the limit, so that end is none. A token that answers neither way, and one that comes
    without log-probabilities, gives no probability, which is an answer that cannot be read.
    """
    value = json_of(data, status)
    told = openai.read_completion(data, status)
    if not (told.whole or told.truncated):
        return told
    tops = _alternatives(value["choices"][0])
    masses = {answer: sum(_mass(one, word) for one in tops) for word, answer in WORDS.items()}
    both = sum(masses.values())  # NaN is never LEAST_MASS or more
    chances = {name_of(0): masses[True] / both} if both >= LEAST_MASS else {}
    return reply_of(chances, value, told.usage)


def _alternatives(choice: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the first token's alternatives; none where there was no token, or it came without them."""
    held = choice.get("logprobs")
    tokens = held.get("content") if isinstance(held, dict) else None
    first = tokens[0] if isinstance(tokens, list) and tokens else None
    tops = first.get("top_logprobs") if isinstance(first, dict) else None
    return [one for one in tops if isinstance(one, dict)] if isinstance(tops, list) else []


def _mass(alternative: dict[str, Any], word: str) -> float:
    """Return how likely an alternative is, where it is the word in any case and spacing; 0 for another.

    NaN where the word's own value is no log-probability: neither of the two is then known.
    """
    token, logprob = alternative.get("token"), alternative.get("logprob")
    if not isinstance(token, str) or token.strip(" \t\n▁Ġ.").casefold() != word:
        return 0.0
    if isinstance(logprob, bool) or not isinstance(logprob, int | float) or logprob > ROUNDING:
        return math.nan
    return math.exp(min(0.0, logprob))


WIRE = Wire(
    name="logprobs",
    path="/chat/completions",
    headers=openai.headers,
    params=params,
    body=body,
    read=read,
    error=openai.error_in_body,
    questions=1,
)
