"""P(Yes) of a statement from the log-probabilities of one token of a chat completion."""

from __future__ import annotations

import math
from dataclasses import replace
from http import HTTPStatus
from typing import Any

from svr_async.engine.reply import Reply, json_of
from svr_async.engine.wires import QUESTION, Params, Settings, WireRequest, openai
from svr_async.engine.wires.decisions import name_of, reply_of

TOP = 20  # the most alternatives that OpenAI, and vLLM by default, return for a token
WORDS = {"yes": True, "no": False}
ROUNDING = 0.01  # a log-probability may exceed 0 by this much
LEAST_MASS = 0.01  # if Yes and No together are less likely, the token answers something else


def params(settings: Settings) -> Params:
    """Return the optional body fields, without effort, schema and stop: only one token is asked for."""
    plain = replace(settings, effort="", structured="none", stop=())
    return (*openai.params(plain), ("logprobs", True), ("top_logprobs", TOP))


def body(request: WireRequest) -> dict[str, Any]:
    """Return the JSON body; the statement ends the last message, so requests of a pair share a prefix."""
    fields = openai.body(request)
    turns: list[dict[str, str]] = []
    for turn in fields["messages"]:
        if turn["role"] == QUESTION:
            turns[-1] = {**turns[-1], "content": f"{turns[-1]['content']}\n\n{turn['content']}"}
        else:
            turns.append(turn)
    return fields | {"messages": turns}


def read(data: bytes, status: int = HTTPStatus.OK) -> Reply:
    """Read P(Yes) of the first token, as a share of Yes and No together.

    One token always ends at the token limit, so truncation is expected. Without log-probabilities, or with a token that
    is neither Yes nor No, the reply holds no probability and counts as unreadable.
    """
    value = json_of(data, status)
    reply = openai.read_completion(data, status)
    if not (reply.whole or reply.truncated):
        return reply
    tops = _alternatives(value["choices"][0])
    masses = {answer: sum(_mass(top, word) for top in tops) for word, answer in WORDS.items()}
    both = sum(masses.values())  # NaN fails the comparison below
    return reply_of({name_of(0): masses[True] / both} if both >= LEAST_MASS else {}, value, reply.usage)


def _alternatives(choice: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the alternatives of the first token; empty without any."""
    try:
        tops = choice["logprobs"]["content"][0]["top_logprobs"]
    except (KeyError, IndexError, TypeError):
        return []
    return [top for top in tops if isinstance(top, dict)] if isinstance(tops, list) else []


def _mass(alternative: dict[str, Any], word: str) -> float:
    """Return the probability of an alternative if it is the word, in any case and spacing; 0 otherwise.

    NaN if the word's value is not a log-probability: then neither answer is known.
    """
    token, logprob = alternative.get("token"), alternative.get("logprob")
    if not isinstance(token, str) or token.strip(" \t\n▁Ġ.").casefold() != word:
        return 0.0
    if isinstance(logprob, bool) or not isinstance(logprob, int | float) or logprob > ROUNDING:
        return math.nan
    return math.exp(min(0.0, logprob))


WIRE = replace(openai.WIRE, name="logprobs", params=params, body=body, read=read, batch_url="", questions=1)
