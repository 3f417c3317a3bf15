"""Proxies of the environment: which endpoints are asked through one, how, and what is said of one that refuses."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from rig import ask, engine_at

from svr_async.engine.batch_api import BatchClient
from svr_async.engine.http import HttpTransport, proxy_for
from svr_async.engine.secrets import Secret
from svr_async.errors import RefusedError, UsageError

URL = "http://judge.example/v1"
SAFE = "https://judge.example/v1"
ANSWER = b'{"choices": [{"message": {"content": "yes"}}], "id": "batch_1", "object": "batch"}'


@asynccontextmanager
async def proxy(status: str = "200 OK") -> AsyncIterator[tuple[str, list[str]]]:
    """Serve a proxy that answers in the place of any endpoint; yields its address and the heads that it was sent."""
    heads: list[str] = []

    async def answer(reader: asyncio.StreamReader, out: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        heads.append(head)
        length = [int(line.split(":")[1]) for line in head.splitlines() if line.lower().startswith("content-length:")]
        await reader.readexactly(sum(length))
        kind = "Content-Type: application/json\r\nConnection: close"
        out.write(f"HTTP/1.1 {status}\r\n{kind}\r\nContent-Length: {len(ANSWER)}\r\n\r\n".encode() + ANSWER)
        await out.drain()
        out.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}", heads


async def test_an_endpoint_is_asked_through_its_proxy(cache_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The proxy gets the whole address and its own password; the endpoint's key goes with the question."""
    async with proxy() as (address, heads):
        monkeypatch.setenv("HTTP_PROXY", f"http://me:pass@{address}")
        async with engine_at(URL, cache_folder, key="sk-1") as engine:
            assert (await engine.complete(ask())).value == "yes"
    assert heads[0].startswith(f"POST {URL}/chat/completions HTTP/1.1\r\n")
    assert f"Proxy-Authorization: Basic {base64.b64encode(b'me:pass').decode()}" in heads[0]
    assert "Authorization: Bearer sk-1" in heads[0]


async def test_batch_files_go_through_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files and batches take the way of the calls."""
    async with proxy() as (address, heads):
        monkeypatch.setenv("http_proxy", address)
        async with BatchClient(URL, Secret("")) as client:
            assert (await client.retrieve("batch_1"))["id"] == "batch_1"
    assert heads[0].startswith(f"GET {URL}/batches/batch_1 ")


async def test_a_proxy_that_refuses_ends_the_run_in_one_line(
    cache_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A way to an https endpoint that is not opened is no fault that passes; the key never left."""
    async with proxy("407 Proxy Authentication Required") as (address, heads):
        monkeypatch.setenv("HTTPS_PROXY", f"http://me:secret-word@{address}")
        async with engine_at(SAFE, cache_folder, key="sk-1") as engine:
            with pytest.raises(RefusedError, match="the proxy opens no connection: HTTP 407") as caught:
                await engine.complete(ask())
    assert "NO_PROXY" in caught.value.one_line()
    assert "secret-word" not in caught.value.one_line()
    assert heads[0].startswith("CONNECT judge.example:443")
    assert "sk-1" not in "".join(heads)


@pytest.mark.parametrize(
    ("url", "variables", "expected"),
    [
        (URL, {}, None),
        (URL, {"HTTP_PROXY": "http://p:3128"}, "http://p:3128"),
        (URL, {"HTTP_PROXY": "p:3128"}, "http://p:3128"),
        (URL, {"HTTP_PROXY": "http://one", "http_proxy": "http://two"}, "http://two"),
        (URL, {"HTTPS_PROXY": "http://p"}, None),
        (URL, {"ALL_PROXY": "socks5://p"}, None),
        (SAFE, {"HTTPS_PROXY": "https://p"}, "https://p"),
        (SAFE, {"HTTPS_PROXY": "http://p", "NO_PROXY": "judge.example"}, None),
        (SAFE, {"HTTPS_PROXY": "http://p", "no_proxy": ".example, other"}, None),
        (SAFE, {"HTTPS_PROXY": "http://p", "NO_PROXY": "*"}, None),
        (SAFE, {"HTTPS_PROXY": "http://p", "NO_PROXY": "other.example"}, "http://p"),
        ("http://localhost:8000/v1", {"HTTP_PROXY": "http://p"}, None),
        ("http://127.1.2.3:8000/v1", {"HTTP_PROXY": "http://p"}, None),
        ("http://[::1]:8000/v1", {"HTTP_PROXY": "http://p"}, None),
        ("http://10.0.0.7:8000/v1", {"HTTP_PROXY": "http://p"}, "http://p"),
    ],
)
def test_which_proxy_an_endpoint_has(
    url: str, variables: dict[str, str], expected: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the scheme of its address, not where NO_PROXY names its host, never on this machine; the client follows."""
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert proxy_for(url) == expected
    assert HttpTransport(url, Secret("")).client == ("aiohttp" if expected else "lean")
    assert HttpTransport(url, Secret(""), client="lean").client == "lean"


@pytest.mark.parametrize(
    "value", ["socks5://me:secret-word@p:1080", "http://", "http://p:port", "http://me:secret-word@"]
)
def test_what_is_no_http_proxy_is_refused_without_its_password(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The line names the variable and the way out, and shows nothing of its value."""
    monkeypatch.setenv("HTTP_PROXY", value)
    with pytest.raises(UsageError, match="HTTP_PROXY holds no address of an http proxy") as caught:
        HttpTransport(URL, Secret(""))
    assert "secret-word" not in caught.value.one_line()
