"""Wires: what goes to OpenAI's endpoints is what always went there, and another wire is one file and one name."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from made_wire import KEY, NAME, post_office, register
from rig import serving_routes

from svr_async.core.pair import Presentation, user_prompt
from svr_async.engine.batch_files import batch_line
from svr_async.engine.request import Request
from svr_async.judges.limits import JudgeLimits
from svr_async.judges.open_judge import JudgeSpec, open_judge
from svr_async.judges.profiles import Profile
from svr_async.judges.protocol import Answer, Preference

# What svr-async 0.1.0 sent before there were wires: a cache or a batch that was paid for is known by these bytes.
BODY = (
    b'{"max_tokens":64,"messages":[{"content":"Judge.","role":"system"},{"content":"A or B? \xc3\xa9","role":"user"}],'
    b'"model":"m","n":1,"temperature":0.0,"top_p":1.0}'
)
CACHE_KEY = "1e9db8a9859aeddcdcfcc4a4df6d0c1615751f860bee5487943944a36b0fffee"
SHOWN = Presentation(pair_id="p", prompt=user_prompt("2 + 2?"), response_a="4", response_b="5")


def request(endpoint: str = "http://127.0.0.1:8000/v1", **changes: Any) -> Request:
    """Return a request in the shape of a judge's."""
    usual = {
        "model": "m",
        "messages": (("system", "Judge."), ("user", "A or B? é")),
        "max_tokens": 64,
        "params": (("temperature", 0.0), ("top_p", 1.0), ("n", 1)),
    }
    return Request(endpoint=endpoint, **{**usual, **changes})


# --- OpenAI's ---------------------------------------------------------------------------------------------------------


def test_bodies_keys_and_batch_lines_are_those_of_earlier_versions() -> None:
    """Nothing is paid again: body, cache key and batch line of a request have the bytes that they always had."""
    assert request().body_bytes == BODY
    assert request().key.hex() == CACHE_KEY
    line = b'{"custom_id":"%b","method":"POST","url":"/v1/chat/completions","body":%b}\n'
    assert batch_line(request()) == line % (CACHE_KEY.encode(), BODY)


# --- another ----------------------------------------------------------------------------------------------------------


def letters(base_url: str, **changes: Any) -> Profile:
    """Return a judge on the made wire."""
    usual = {"name": "pen", "model": "writer", "base_url": base_url, "key_env": "SEAL", "wire": NAME}
    return Profile(**{**usual, **changes})


def prefer(profile: Profile, cache: Path, **limits: Any) -> Answer[Preference]:
    """Return the verdict of a judge on one pair."""

    async def ask() -> Answer[Preference]:
        spec = JudgeSpec(text=profile.name, profile=profile)
        opened = open_judge(spec, JudgeLimits(cache=cache, give_up_after_s=5.0, **limits))
        try:
            return await opened.judge.prefer(SHOWN)
        finally:
            await opened.close()

    return asyncio.run(ask())


def test_a_new_wire_is_one_file_and_one_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A judge on it gives a verdict past a rate limit, and the cache then knows the reply."""
    register(monkeypatch)
    monkeypatch.setenv("SEAL", KEY)
    seen: list[web.Request] = []
    with serving_routes(web.post("/v1/letters", post_office(seen, busy=1))) as address:
        first = prefer(letters(f"{address}/v1"), tmp_path)
        again = prefer(letters(f"{address}/v1"), tmp_path)
    assert first.value == again.value == Preference(margin=1.0, reason="I choose")
    assert len(seen) == 2
    assert seen[-1].headers["X-Edition"] == "3"
    assert "Authorization" not in seen[-1].headers
