"""The two shapes of decision endpoints, as requests come in them and replies go out: OpenAI's, and System One's."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from svr_async.simulation.messages import parse_messages
from svr_async.simulation.refusals import ApiError
from svr_async.simulation.request import ChatRequest, Role, Shape, parse_request, request_key
from svr_async.simulation.rewards import parse_conversation, parse_texts
from svr_async.simulation.world import draw_bytes

MOST_QUESTIONS = 400
MASS = 0.98  # of a token's probability, what Yes and No have together
NEVER = -9999.0  # the log-probability of what cannot be, as endpoints write it

Chances = Sequence[tuple[str, float | None]]
Read = Callable[[Any], ChatRequest]


def parse_decisions(body: Any) -> ChatRequest:
    """Read the JSON of a decision request in OpenAI's shape; `ApiError` (400) says what is wrong with it."""
    shown, questions = _field(body, "input", (str, list)), _field(body, "questions", list)
    messages = [{"role": "user", "content": shown}] if isinstance(shown, str) else shown
    if not 1 <= len(questions) <= MOST_QUESTIONS:
        raise ApiError.bad_request(f"questions has to hold 1 to {MOST_QUESTIONS} of them (got {len(questions)})")
    stated = tuple((_name(one, number), _statement(one, "predicate")) for number, one in enumerate(questions))
    return _stating(body, messages, stated, Shape.DECISIONS)


def parse_systemone(body: Any) -> ChatRequest:
    """Read the JSON of a System One request; `ApiError` (400) says what is wrong with it."""
    state, questions = _field(body, "state", str), _field(body, "questions", dict)
    if not questions:
        raise ApiError.bad_request("questions has to hold at least one")
    stated = tuple((name, _statement(one, "noul")) for name, one in questions.items())
    return _stating(body, [{"role": "user", "content": state}], stated, Shape.SYSTEMONE)


READERS: Mapping[Shape, Read] = {
    Shape.CHAT: parse_request,
    Shape.DECISIONS: parse_decisions,
    Shape.SYSTEMONE: parse_systemone,
    Shape.MESSAGES: parse_messages,
    Shape.CLASSIFY: partial(parse_conversation, shape=Shape.CLASSIFY),
    Shape.POOLING: partial(parse_conversation, shape=Shape.POOLING),
    Shape.SCORE: parse_texts,
}


def _stating(
    body: Mapping[str, Any], messages: list[Any], stated: tuple[tuple[str, str], ...], shape: Shape
) -> ChatRequest:
    plain = parse_request({"model": body.get("model"), "messages": messages})
    texts = tuple(text for _, text in stated)
    return replace(
        plain,
        role=Role.STATE,
        key=request_key(body),
        contents=plain.contents + texts,
        shape=shape,
        statements=stated,
    )


def _field(body: Any, name: str, kinds: type | tuple[type, ...]) -> Any:
    if not isinstance(body, dict) or not isinstance(body.get(name), kinds):
        raise ApiError.bad_request(f"the body has to be an object with {name}")
    return body[name]


def _name(question: Any, number: int) -> str:
    name = question.get("name") if isinstance(question, dict) else None
    return name if isinstance(name, str) else f"#{number}"


def _statement(question: Any, kind: str) -> str:
    """Return the instructions of a question of the one kind that is answered here."""
    if not isinstance(question, dict) or question.get("type") != kind:
        raise ApiError.bad_request(f"the simulated endpoint answers questions of the type {kind} only")
    text = question.get("instructions")
    if not isinstance(text, str):
        raise ApiError.bad_request("instructions has to be a text")
    return text


def decision_reply(
    request: ChatRequest, chances: Chances, *, fingerprint: str, attempt: int = 0, cached_tokens: int = 0
) -> dict[str, Any]:
    """Return the reply to a request of either shape; None is a refusal. By name, the last of two answers counts."""
    usage = {
        "input_tokens": request.prompt_tokens,
        "input_tokens_details": {"cached_tokens": cached_tokens, "cache_write_tokens": 0},
        "output_tokens": 0,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": request.prompt_tokens,
    }
    predicate = request.shape is Shape.DECISIONS
    answers = [_answer(name, chance, predicate=predicate) for name, chance in chances]
    held = answers if predicate else {one.pop("name"): one for one in answers}
    return {
        "id": f"decision-{draw_bytes(request.key, attempt).hex()[:24]}",
        "model": request.model,
        "answers": held,
        "usage": usage,
        "system_fingerprint": fingerprint,
    }


def as_detail(error: ApiError) -> ApiError:
    """Return an error as servers on FastAPI tell it, which the client of System One reads: a status and words alone."""
    status = 402 if error.kind == "insufficient_quota" else {400: 422}.get(error.status, error.status)
    return ApiError(status, error.message, kind=error.kind, code=error.code, headers=error.headers)


def detail_payload(error: ApiError) -> dict[str, Any]:
    """Return the JSON of such an error: what is wrong with the body is a list."""
    told = [{"type": "value_error", "loc": ["body"], "msg": error.message}] if error.status == 422 else error.message
    return {"detail": told}


def _answer(name: str, chance: float | None, *, predicate: bool) -> dict[str, Any]:
    if chance is None:
        return {"type": "refusal", "name": name}
    kind, field = ("predicate", "probability") if predicate else ("noul", "noul")
    return {"type": kind, "name": name, field: chance}


def token_logprobs(chances: Chances) -> dict[str, Any]:
    """Return the `logprobs` of a choice whose one token answers a statement; without a token where there is none."""
    chance = chances[-1][1] if chances else None
    if chance is None:
        return {"content": [], "refusal": None}
    shares = {"Yes": MASS * chance, "No": MASS * (1 - chance), "Perhaps": 1 - MASS}
    tops = [{"token": token, "logprob": math.log(share) if share else NEVER} for token, share in shares.items()]
    tops.sort(key=lambda one: -float(str(one["logprob"])))
    return {"content": [{**tops[0], "top_logprobs": tops}], "refusal": None}
