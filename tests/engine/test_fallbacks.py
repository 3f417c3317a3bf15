"""Fallbacks: a setting that an endpoint refuses is not sent again, at the cost of one unpaid call."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from aiohttp import web
from endpoint import SimServer
from rig import completion, engine_at, in_a_thread, pairs, refusal, scripted_engine, serving_routes, writer

from svr_async.core.pair import Order, present
from svr_async.engine.fallbacks import FILE, Fallbacks, ParameterFallback, apply_all, find_fallbacks
from svr_async.engine.request import Question, Request
from svr_async.engine.transport import RawReply
from svr_async.engine.wires.openai import error_in_body
from svr_async.errors import ModelError
from svr_async.simulation.simulator import Simulator
from svr_async.simulation.wire import ApiError, ChatRequest, Shape

FULL = (
    ("temperature", 0.0),
    ("top_p", 1.0),
    ("n", 1),
    ("seed", 7),
    ("stop", ["."]),
    ("response_format", {"type": "x"}),
)


def asked(*extra: tuple[str, Any], model: str = "m", **changes: Any) -> Request:
    """Return a request with every setting."""
    return Request(endpoint="e", model=model, messages=(("user", "hi"),), params=(*FULL, *extra), **changes)


# Shortened messages of real endpoints, with the settings that are dropped.
MESSAGES = [
    ("Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
     ["max_tokens", "temperature", "top_p"]),
    ("Unsupported value: 'temperature' does not support 0.0 with this model. Only the default (1) value is supported.",
     ["temperature", "top_p"]),
    ("Unrecognized request argument supplied: seed", []),
    ("Unrecognized request argument supplied: 'seed'", ["seed"]),
    ("This model does not support response format `json_schema`. See supported models: response_format",
     ["response_format"]),
    ("Invalid schema for response_format 'compare': bounds are not permitted", ["response_format"]),
    ("`temperature` and `top_p` cannot both be specified for this model. Please use only one.", ["top_p"]),
    ("`temperature` is deprecated for this model.", ["temperature", "top_p"]),
    ("'n' : number must be 1: other values are not supported", ["n"]),
    ('Invalid JSON payload received. Unknown name "seed": Cannot find field.', ["seed"]),
    ("n: Extra inputs are not permitted; stop: Extra inputs are not permitted", ["n"]),
    ("max_tokens is too large: 8192. This model supports at most 4096 completion tokens", []),
    ("'messages' must contain the word 'json' to use 'response_format' of type 'json_object'.", []),
    ("Unknown model: no such thing", []),
    ("1 validation error: 'loc': ('body', 'response_format', 'type'), 'msg': \"Input should be 'text' or 'json'\"",
     ["response_format"]),
    ("logprobs is not supported for this model as it was loaded", []),
    ("your prompt holds text that is not allowed", []),
]  # fmt: skip


@pytest.mark.parametrize(("message", "fields"), MESSAGES)
def test_the_refused_setting_is_read_from_the_message(message: str, fields: list[str]) -> None:
    """A refusal has a fallback if it names a setting that was sent and can be dropped."""
    found = find_fallbacks(asked(), 400, {"message": message})
    assert [one.field for one in found] == fields
    assert find_fallbacks(asked(), 503, {"message": message}) == ()
    assert (
        find_fallbacks(Request(endpoint="e", model="m", messages=()), 400, {"message": "'temperature' unsupported"})
        == ()
    )


@pytest.mark.parametrize(
    "message",
    [
        "System role not supported",
        "This model's template allows no system message: system messages are not supported.",
        "Only user and assistant roles are supported!",
        "Conversation roles must alternate user/assistant/user/assistant/...",
    ],
)
@pytest.mark.parametrize("status", [400, 500])
def test_a_system_message_can_move_into_the_users_message(message: str, status: int) -> None:
    """It comes first there; a request without one has no fallback."""
    request = Request(endpoint="e", model="m", messages=(("system", "Judge."), ("user", "A or B?")))
    (fallback,) = find_fallbacks(request, status, {"message": message})
    changed = fallback.apply(request)
    assert changed.messages == (("user", "Judge.\n\nA or B?"),)
    assert fallback.apply(changed) is changed
    assert find_fallbacks(changed, status, {"message": message}) == ()


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b'{"detail": [{"type": "extra_forbidden", "loc": ["body", "n"], "msg": "Extra inputs"}]}', "n"),
        (b'[{"error": {"code": 400, "message": "Unknown name \\"seed\\": Cannot find field."}}]', "seed"),
        (b'{"error": {"message": "unsupported", "param": "response_format.type"}}', "response_format"),
    ],
)  # fmt: skip
def test_refusals_come_in_several_shapes(body: bytes, field: str) -> None:
    """A list of details, an error in a list, and a path into a setting are read."""
    assert find_fallbacks(asked(), 422, error_in_body(body)) == (ParameterFallback(field),)


# --- in a run ---------------------------------------------------------------------------------------------------------


class Thinker(Simulator):
    """A simulated reasoning model as OpenAI serves it: it refuses max_tokens and a temperature."""

    def read(self, body: Any, shape: Shape = Shape.CHAT) -> ChatRequest:
        """Raise OpenAI's 400 for the first setting that is not taken."""
        for name, words in (("max_tokens", "Use 'max_completion_tokens' instead."), ("temperature", "Only 1 works.")):
            if body.get(name) is not None:
                message = f"Unsupported parameter: '{name}' is not supported with this model. {words}"
                raise ApiError(400, message, "unsupported_parameter")
        return super().read(body, shape)


@pytest.fixture(scope="module")
def thinker() -> Iterator[SimServer]:
    """Serve a model that refuses max_tokens and temperature."""
    server = SimServer(simulated=Thinker())
    with in_a_thread(server):
        yield server


def questions(url: str, count: int = 12, **settings: Any) -> list[Question[Any]]:
    """Return questions of a judge."""
    return [writer(url, **settings).direct(present(pair, Order.AB)) for pair in pairs(count)]


def answers(url: str, cache: Path, notes: list[str], *, concurrency: int = 8, **settings: Any) -> tuple[Any, Any]:
    """Ask, and return keys with values, and the engine's stats."""

    async def ask() -> tuple[Any, Any]:
        async with engine_at(url, cache, concurrency=concurrency) as engine:
            engine.set_on_notice(lambda notice: notes.append(notice.text))
            found = {place: done async for place, done in engine.map(questions(url, **settings))}
            return [(found[place].key, found[place].value) for place in sorted(found)], engine.stats()

    return asyncio.run(ask())


def test_calls_that_are_refused_together_are_sent_again(thinker: SimServer, cache_folder: Path) -> None:
    """Each is refused at most once and paid for once; there is one notice."""
    thinker.reset()
    notes: list[str] = []
    found, facts = answers(thinker.base_url, cache_folder, notes)
    assert all(value is not None for _, value in found)
    assert thinker.stats()["paid"] == len(found)
    assert facts.failed == 0
    assert facts.sent <= 2 * len(found)
    assert len(notes) == 1


def test_the_next_run_sends_nothing(thinker: SimServer, cache_folder: Path) -> None:
    """With the same profile, and with the setting made permanent; without the file there is one unpaid refusal."""
    thinker.reset()
    first, _ = answers(thinker.base_url, cache_folder, [])
    notes: list[str] = []
    again, facts = answers(thinker.base_url, cache_folder, notes)
    assert again == first
    assert facts.sent == 0
    assert ["as an earlier run found" in note for note in notes] == [True]
    permanent: dict[str, Any] = {"max_tokens_field": "max_completion_tokens", "temperature": None}
    changed, facts = answers(thinker.base_url, cache_folder, [], **permanent)
    assert (changed, facts.sent) == (first, 0)
    (cache_folder / FILE).unlink()
    paid = thinker.stats()["paid"]
    relearnt, facts = answers(thinker.base_url, cache_folder, [], concurrency=1)
    assert (relearnt, thinker.stats()["paid"]) == (first, paid)
    assert facts.sent == 1


def test_replies_from_before_a_refusal_are_found(cache_folder: Path) -> None:
    """A reply to a request with a setting that is refused today is not paid for again."""
    refusing = False

    def answer(request: Request, _: int) -> RawReply:
        if refusing and "temperature" in request.body():
            return refusal(400, "'temperature' is not supported", code="unsupported_parameter", param="temperature")
        return completion("[[A]]")

    async def ask(count: int) -> list[str]:
        async with scripted_engine(cache_folder, answer) as (engine, transport):
            done = [await engine.complete(question) for question in questions("http://h/v1", count)]
            assert all(one.value is not None for one in done)
            sent.append(len(transport.sent))
            return [one.key for one in done]

    sent: list[int] = []
    first = asyncio.run(ask(3))
    refusing = True
    assert asyncio.run(ask(4))[:3] == first
    assert sent == [3, 2]


def test_two_processes_share_the_file(tmp_path: Path) -> None:
    """Neither process loses what the other has stored."""
    one, two = Fallbacks(tmp_path / FILE), Fallbacks(tmp_path / FILE)
    assert one.learn(asked(), (ParameterFallback("seed"),))
    assert two.learn(asked(model="other"), (ParameterFallback("n"),))
    assert one.learn(asked(), (ParameterFallback("seed"),)) == ""
    assert Fallbacks(tmp_path / FILE).known("e", "m") == (ParameterFallback("seed"),)
    assert Fallbacks(tmp_path / FILE).known("e", "other") == (ParameterFallback("n"),)
    assert apply_all((ParameterFallback("seed"), ParameterFallback("n")), asked()).params == tuple(
        p for p in FULL if p[0] not in {"seed", "n"}
    )


# --- the full name of a model -----------------------------------------------------------------------------------------


def listing(*names: str) -> tuple[Any, list[str]]:
    """Return routes of an endpoint that lists and serves these models, and the models that calls asked for."""
    called: list[str] = []

    async def models(_: web.Request) -> web.Response:
        return web.json_response({"data": [{"id": name} for name in names]})

    async def chat(request: web.Request) -> web.Response:
        model = (await request.json())["model"]
        called.append(model)
        if model not in names:
            return web.json_response({"error": {"message": f"The model `{model}` does not exist"}}, status=404)
        return web.json_response({"model": model, "choices": [{"message": {"content": "[[A]]"}}]})

    return (web.get("/v1/models", models), web.post("/v1/chat/completions", chat)), called


def test_the_only_listed_model_with_that_name_is_used(cache_folder: Path) -> None:
    """A 404 for NAME and one listed model ORG/NAME: that is used, with a notice, and remembered for the next run."""
    routes, called = listing("org/judge", "org/judge-large", "other")
    with serving_routes(*routes) as address:
        notes: list[str] = []
        found, stats = answers(f"{address}/v1", cache_folder, notes, concurrency=1, model="judge")
        assert all(value is not None for _, value in found)
        assert called == ["judge"] + ["org/judge"] * len(found)
        assert (stats.failed, len(notes)) == (0, 1)
        assert "org/judge is sent for model" in notes[0]
        rows = orjson.loads((cache_folder / FILE).read_bytes())
        assert rows[0]["refused"] == [{"field": "model", "instead": "org/judge"}]
        again, stats = answers(f"{address}/v1", cache_folder, notes, model="judge")
        assert (again, stats.sent) == (found, 0)


@pytest.mark.parametrize("names", [(), ("judge-large",), ("a/judge", "b/judge")])
def test_an_ambiguous_or_missing_name_ends_the_run(cache_folder: Path, names: tuple[str, ...]) -> None:
    """No guess is made between models."""
    routes, called = listing(*names)
    with serving_routes(*routes) as address, pytest.raises(ModelError, match="does not exist"):
        answers(f"{address}/v1", cache_folder, [], concurrency=1, model="judge")
    assert called == ["judge"]
