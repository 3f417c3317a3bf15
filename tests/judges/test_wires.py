"""Wires: what goes to OpenAI's endpoints is what always went there, and another wire is one file and one name."""

from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from made_wire import KEY, NAME, post_office, register
from rig import serving_routes

from svr_async.core.pair import Presentation, user_prompt
from svr_async.engine.batch_files import batch_line
from svr_async.engine.http import HttpTransport
from svr_async.engine.request import Request
from svr_async.engine.secrets import Secret
from svr_async.engine.wires import MODULES as NAMES
from svr_async.engine.wires import find_wire
from svr_async.errors import AuthError, ConfigError, ModelError, SvrError, UsageError
from svr_async.judges.batch import choose_endpoint
from svr_async.judges.doctor import Finding, examine
from svr_async.judges.limits import JudgeLimits
from svr_async.judges.open_judge import JudgeSpec, open_judge
from svr_async.judges.profiles import Profile, find_profile, load_profiles
from svr_async.judges.protocol import Answer, Preference

# What svr-async 0.1.0 sent before there were wires: a cache or a batch that was paid for is known by these bytes.
BODY = (
    b'{"max_tokens":64,"messages":[{"content":"Judge.","role":"system"},{"content":"A or B? \xc3\xa9","role":"user"}],'
    b'"model":"m","n":1,"temperature":0.0,"top_p":1.0}'
)
CACHE_KEY = "1e9db8a9859aeddcdcfcc4a4df6d0c1615751f860bee5487943944a36b0fffee"
SHIPPED_LINES = "ba7ce2d2f05ef29320a1f0da3f38c22887173dd6f8734fccbf97e9336a9ebb4c"
HEAD = (
    b"POST /v1/chat/completions HTTP/1.1\r\nHost: %b\r\nContent-Type: application/json\r\n"
    b"User-Agent: svr-async\r\nAuthorization: Bearer sk-1\r\nAccept: */*\r\nAccept-Encoding: gzip, deflate\r\n"
    b"Content-Length: 154\r\n\r\n"
)
PAPERS = ("gpt-oss-120b", "gpt-oss-20b", "gpt-4o-mini", "deepseek-v4-flash", "qwen3.5-397b-a17b")
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


def test_the_shipped_judges_ask_as_they_always_did() -> None:
    """Effort, structure, names of limits and identities: all requests of the five profiles have their old bytes."""
    lines = [
        batch_line(
            request(
                one.identity,
                model=one.model,
                max_tokens=one.max_tokens,
                max_tokens_field=one.max_tokens_field,
                params=one.params(structured=structured),
                wire=one.spoken,
            )
        )
        for one in map(load_profiles().__getitem__, PAPERS)
        for structured in (True, False)
    ]
    assert hashlib.sha256(b"".join(lines)).hexdigest() == SHIPPED_LINES


async def test_what_travels_is_what_always_travelled() -> None:
    """Path, headers and body of a request are byte for byte what they were."""
    came: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, out: asyncio.StreamWriter) -> None:
        came.append(await reader.readuntil(b"\r\n\r\n") + await reader.readexactly(len(BODY)))
        out.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
        out.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        host = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        transport = HttpTransport(f"http://{host}/v1", Secret("sk-1"))
        await transport.send(request())
        await transport.close()
    assert came == [HEAD % host.encode() + BODY]


@pytest.mark.parametrize("name", NAMES)
def test_every_name_is_a_file_with_a_wire_of_that_name(name: str) -> None:
    """What the registry lists exists and calls itself so; its path can follow a base URL."""
    wire = find_wire(name)
    assert wire.name == name
    assert wire.path.startswith("/")


def test_a_wire_that_there_is_not_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A slip in judges.toml is one line that names the file, the value and the wires that there are."""
    monkeypatch.setenv("SVR_JUDGES", str(tmp_path / "judges.toml"))
    (tmp_path / "judges.toml").write_text('[j]\nmodel = "m"\nbase_url = "http://h/v1"\nwire = "opnai"\n')
    with pytest.raises(ConfigError) as caught:
        find_profile("j")
    says = f"judges.toml: judge j: unknown wire 'opnai' — one of {', '.join(NAMES)}"
    assert caught.value.one_line().endswith(says)


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


@pytest.mark.parametrize("client", ["lean", "aiohttp"])
def test_a_new_wire_is_one_file_and_one_name(client: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A judge on it gives a verdict past a rate limit, with either client, and the cache then knows the reply."""
    register(monkeypatch)
    monkeypatch.setenv("SEAL", KEY)
    monkeypatch.setenv("SVR_HTTP", client)
    seen: list[web.Request] = []
    with serving_routes(web.post("/v1/letters", post_office(seen, busy=1))) as address:
        first = prefer(letters(f"{address}/v1"), tmp_path)
        again = prefer(letters(f"{address}/v1"), tmp_path)
    assert first.value == again.value == Preference(margin=1.0, reason="I choose")
    assert len(seen) == 2
    assert seen[-1].headers["X-Edition"] == "3"
    assert "Authorization" not in seen[-1].headers


@pytest.mark.parametrize(
    ("seal", "model", "error"), [("another-key-5678", "writer", AuthError), (KEY, "reader", ModelError)]
)
def test_a_wires_errors_end_a_run_as_openais_do(
    seal: str, model: str, error: type[SvrError], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What its bodies say of a key or a model is one line with a cure, whatever the status."""
    register(monkeypatch)
    monkeypatch.setenv("SEAL", seal)
    with (
        serving_routes(web.post("/v1/letters", post_office([]))) as address,
        pytest.raises(error),
    ):
        prefer(letters(f"{address}/v1", model=model), tmp_path)


def test_an_address_without_the_path_names_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A 404 speaks of what was asked for there, and of nothing of OpenAI's."""
    register(monkeypatch)
    with serving_routes() as address, pytest.raises(ModelError) as caught:
        prefer(letters(f"{address}/v2"), tmp_path)
    assert "no letters here" in caught.value.one_line()


def test_two_wires_at_one_address_share_no_reply(monkeypatch: pytest.MonkeyPatch) -> None:
    """The identity, which cache and run folders go by, has the wire in it; one that the profile gives stays."""
    register(monkeypatch)
    url = "http://127.0.0.1:8000/v1"
    assert letters(url, wire="openai").identity == url
    assert letters(url).identity == f"{url}#letters"
    assert letters(url, identity="mine").identity == "mine"


def test_a_moved_profile_keeps_its_wire(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """--base-url changes the address alone, and the identity with it where the profile names none."""
    register(monkeypatch)
    monkeypatch.setenv("SVR_JUDGES", str(tmp_path / "judges.toml"))
    (tmp_path / "judges.toml").write_text(f'[j]\nmodel = "m"\nbase_url = "http://h/v1"\nwire = "{NAME}"\n')
    moved = find_profile("j", base_url="http://other/v1")
    assert (moved.wire, moved.identity) == (NAME, "http://other/v1#letters")


def test_calls_on_another_wire_are_not_exported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batch files are OpenAI's: an export is refused before a file is written."""
    register(monkeypatch)

    class Run:
        profiles = (letters("http://h/v1"),)
        staged = False

    with pytest.raises(UsageError, match="pen is on the wire letters, which has no batch files"):
        choose_endpoint(Run(), None)  # type: ignore[arg-type]


def test_the_doctor_speaks_the_judges_wire(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It lists models with the wire's headers, and reads its rates."""
    register(monkeypatch)
    monkeypatch.setenv("SEAL", KEY)
    asked, listed = list[web.Request](), list[web.Request]()

    async def models(request: web.Request) -> web.Response:
        listed.append(request)
        return web.json_response({"data": [{"id": "writer"}]})

    with serving_routes(web.post("/v1/letters", post_office(asked)), web.get("/v1/models", models)) as address:
        path = tmp_path / "judges.toml"
        path.write_text(f'[pen]\nmodel = "writer"\nbase_url = "{address}/v1"\nkey_env = "SEAL"\nwire = "{NAME}"')
        monkeypatch.setenv("SVR_JUDGES", str(path))

        async def check() -> dict[str, Finding]:
            return {finding.name: finding async for finding in examine("pen")}

        found = asyncio.run(check())
    assert listed[0].headers["X-Seal"] == KEY
    assert "90 requests" in found["limits"].text
    assert [found[name].state for name in ("key", "verdict", "json")] == ["ok", "ok", "warn"]
