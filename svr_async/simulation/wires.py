"""The shapes of requests and replies: chat completions, messages, decisions, scores of reward models."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from svr_async.simulation.judge import MODELS
from svr_async.simulation.refusals import ApiError, seconds_of
from svr_async.simulation.request import (
    CHARS_PER_TOKEN,
    ChatRequest,
    Role,
    Shape,
    effort_in,
    parse_request,
    request_key,
)
from svr_async.simulation.world import draw_bytes

THOUGHT_TOKENS = 400  # billed ahead of an answer where an effort is asked for; the thoughts are not told
CREATED = 1_750_000_000  # a fixed moment: replies do not depend on the clock


def count_tokens(text: str) -> int:
    """Return the size of a text in simulated tokens."""
    return -(-len(text) // CHARS_PER_TOKEN)


def completion(
    request: ChatRequest,
    texts: Sequence[str],
    *,
    fingerprint: str,
    attempt: int = 0,
    cached_tokens: int = 0,
    finish: str = "",
) -> dict[str, Any]:
    """Return the reply object for one text a choice; `finish` replaces the finish reason of all of them."""
    cut = [_cut(text, request.max_tokens) for text in texts]
    choices = [_choice(index, text, finish or reason) for index, (text, reason) in enumerate(cut)]
    thought = THOUGHT_TOKENS if request.effort else 0
    completion_tokens = sum(thought + count_tokens(text) for text, _ in cut)
    return {
        "id": f"chatcmpl-{draw_bytes(request.key, attempt).hex()[:24]}",
        "object": "chat.completion",
        "created": CREATED,
        "model": request.model,
        "choices": choices,
        "usage": {
            "prompt_tokens": request.prompt_tokens,
            "completion_tokens": completion_tokens,
            "total_tokens": request.prompt_tokens + completion_tokens,
            "prompt_tokens_details": {"cached_tokens": cached_tokens},
            "completion_tokens_details": {"reasoning_tokens": thought * len(cut)},
        },
        "system_fingerprint": fingerprint,
    }


def _cut(text: str, max_tokens: int | None) -> tuple[str, str]:
    """Stop a text at the requested number of tokens; return it with its finish reason."""
    if max_tokens is None or count_tokens(text) <= max_tokens:
        return text, "stop"
    return text[: max_tokens * CHARS_PER_TOKEN], "length"


def _choice(index: int, text: str, finish: str) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": text, "refusal": None}
    if finish == "content_filter":
        message |= {"content": None, "refusal": "I cannot help with that."}
    return {"index": index, "message": message, "logprobs": None, "finish_reason": finish}


TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}
REASONS = {"stop": "end_turn", "length": "max_tokens", "content_filter": "refusal"}
MESSAGE_DECODING = ("temperature", "top_p")


def parse_messages(body: Any) -> ChatRequest:
    """Read the JSON of a messages request; `ApiError` (400) says what is wrong with it."""
    if not isinstance(body, dict) or not isinstance(body.get("max_tokens"), int):
        raise ApiError.bad_request("max_tokens: Field required")
    turns = body.get("messages")
    if any(isinstance(turn, dict) and turn.get("role") not in ("user", "assistant") for turn in turns or ()):
        raise ApiError.bad_request("messages: Unexpected role; the system prompt is a top-level parameter")
    system = [{"role": "system", "content": body["system"]}] if body.get("system") else []
    shared = {name: body[name] for name in ("model", "max_tokens") if name in body}
    messages = [*system, *turns] if isinstance(turns, list) else turns
    plain = parse_request({**shared, "messages": messages})
    return replace(plain, key=request_key(body), shape=Shape.MESSAGES, effort=effort_in(body))


def refuse_message_settings(body: Mapping[str, Any]) -> None:
    """Raise the 400 of a model that always thinks for the first setting that it does not take."""
    for name in MESSAGE_DECODING:
        if body.get(name) not in (None, 1):
            raise ApiError.bad_request(f"`{name}` is deprecated for this model.")


def as_message(completion: Mapping[str, Any], key: str, attempt: int) -> dict[str, Any]:
    """Return a chat completion as a message: cached input is told apart from the rest."""
    choice, usage = completion["choices"][0], completion["usage"]
    cached = usage["prompt_tokens_details"]["cached_tokens"]
    text = choice["message"]["content"]
    return {
        "id": f"msg_{draw_bytes(key, attempt).hex()[:24]}",
        "type": "message",
        "role": "assistant",
        "model": completion["model"],
        "content": [{"type": "text", "text": text}] if text else [],
        "stop_reason": REASONS[choice["finish_reason"]],
        "stop_sequence": None,
        "usage": {
            "input_tokens": usage["prompt_tokens"] - cached,
            "cache_read_input_tokens": cached,
            "cache_creation_input_tokens": 0,
            "output_tokens": usage["completion_tokens"],
        },
        "system_fingerprint": completion["system_fingerprint"],  # theirs has none: it says that this is no model
    }


def as_error(error: ApiError) -> ApiError:
    """Return an error in the words of Anthropic's."""
    status, message = error.status, error.message
    if error.kind == "insufficient_quota":
        status, message = 400, "Your credit balance is too low to access the Anthropic API."
    if error.code == "context_length_exceeded":
        message = f"prompt is too long: {message}"
    if error.code == "model_not_found":
        message = f"model: {message}"
    headers = {name: value for name, value in error.headers.items() if name.lower() != "retry-after-ms"}
    return ApiError(status, message, kind=TYPES.get(status, "api_error"), code=error.code, headers=as_limits(headers))


def error_payload(error: ApiError) -> dict[str, Any]:
    """Return the JSON of an error."""
    return {"type": "error", "error": {"type": error.kind, "message": error.message}, "request_id": "req_simulated"}


def as_limits(headers: Mapping[str, str]) -> dict[str, str]:
    """Return rate-limit headers under Anthropic's names, with moments in the place of spans."""
    found = {}
    for name, value in headers.items():
        _, mark, rest = name.partition("x-ratelimit-")
        what, _, unit = rest.partition("-")
        moment = datetime.fromtimestamp(time.time() + seconds_of(value), UTC) if what == "reset" else None
        told = value if moment is None else moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        found[f"anthropic-ratelimit-{unit}-{what}" if mark else name] = told
    return found


FIELDS = {Shape.CLASSIFY: "probs", Shape.POOLING: "data", Shape.SCORE: "score"}
"""What a row of the reply calls the score."""


def parse_conversation(body: Any, shape: Shape) -> ChatRequest:
    """Read the JSON of a request that ends with the response to be scored; `ApiError` (400) says what is wrong."""
    turns = body.get("messages") if isinstance(body, dict) else None
    if not isinstance(turns, list) or len(turns) < 2 or not all(isinstance(turn, dict) for turn in turns):
        raise ApiError.bad_request("messages has to hold a prompt and the response to be scored")
    texts = [(str(turn.get("role")), str(turn.get("content") or "")) for turn in turns]
    *prompt, (_, response) = texts
    lone = len(prompt) == 1 and prompt[0][0] == "user"
    shown = prompt[0][1] if lone else "\n\n".join(f"{role}: {text}" for role, text in prompt)
    return _scoring(body, shown, response, shape)


def parse_texts(body: Any) -> ChatRequest:
    """Read the JSON of a request with prompt and response as two texts; `ApiError` (400) says what is wrong."""
    prompt, response = (body.get("text_1"), body.get("text_2")) if isinstance(body, dict) else (None, None)
    if not isinstance(prompt, str) or not isinstance(response, str):
        raise ApiError.bad_request("the body has to be an object with text_1 and text_2")
    return _scoring(body, prompt, response, Shape.SCORE)


def _scoring(body: dict[str, Any], prompt: str, response: str, shape: Shape) -> ChatRequest:
    model = body.get("model") or next(iter(MODELS))
    return ChatRequest(
        model=str(model),
        role=Role.REWARD,
        key=request_key(body),
        topic=draw_bytes(str(model), Role.REWARD, prompt, response),
        asks="",
        fences={"PROMPT": prompt, "RESPONSE": response},
        rubrics=(),
        contents=(prompt, response),
        n=1,
        max_tokens=None,
        shape=shape,
    )


def reward_reply(request: ChatRequest, score: float | None, *, fingerprint: str, attempt: int) -> dict[str, Any]:
    """Return the reply with one row; without a row where there is no score."""
    held: Any = score if request.shape is Shape.SCORE else [score]
    row = {"index": 0, "object": request.shape.value, FIELDS[request.shape]: held}
    return {
        "id": f"{request.shape.value}-{draw_bytes(request.key, attempt).hex()[:24]}",
        "object": "list",
        "created": CREATED,
        "model": request.model,
        "data": [] if score is None else [row],
        "usage": {
            "prompt_tokens": request.prompt_tokens,
            "total_tokens": request.prompt_tokens,
            "completion_tokens": 0,
        },
        "system_fingerprint": fingerprint,
    }


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
