"""The HTTP client against real servers on this machine: connections, redirects, caps, proxies, certificates, keys."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from rig import ask, engine_at

from svr_async.engine.http import proxy_for
from svr_async.errors import EndpointDownError, RefusedError

KEY = "sk-sentinel-9f8e7d6c5b"
URL = "http://judge.example/v1"
SAFE = "https://judge.example/v1"
LOCAL = "http://127.0.0.1:8000/v1"
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def serving(handler: Handler) -> AsyncIterator[str]:
    """Serve chat/completions by a function; yields the base URL."""
    app = web.Application()
    app.add_routes([web.post("/v1/chat/completions", handler)])
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.2)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def raw_server(serve: Serve, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """Serve connections by a function; yields host and port."""
    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    async with server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"


def reply(text: str, head: str = "HTTP/1.1 200 OK") -> bytes:
    """Return the bytes of an HTTP reply with a completion."""
    body = json.dumps({"choices": [{"message": {"content": text}}]}).encode()
    return f"{head}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


async def read_request(reader: asyncio.StreamReader) -> bytes:
    """Read one request; return its head."""
    head = await reader.readuntil(b"\r\n\r\n")
    sizes = [int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    await reader.readexactly(sum(sizes))
    return head


def completed(text: str) -> web.Response:
    """Return a completion."""
    return web.json_response({"choices": [{"message": {"content": text}}]})


# --- connections ------------------------------------------------------------------------------------------------------


async def test_connections_are_reused(cache_folder: Path) -> None:
    """A thousand calls, 64 at a time, open at most 80 connections."""
    peers: set[Any] = set()

    async def answer(request: web.Request) -> web.Response:
        assert request.transport is not None
        peers.add(request.transport.get_extra_info("peername"))
        return completed("yes")

    async with serving(answer) as url, engine_at(url, cache_folder, concurrency=64) as engine:
        found = await asyncio.gather(*(engine.complete(ask(f"q{n}")) for n in range(1000)))
        assert {one.value for one in found} == {"yes"}
    assert len(peers) <= 80


@pytest.mark.parametrize(
    ("extra", "closed"), [(reply("from before"), True), (b"garbage", True), (b"HTTP/1.1 200", False)],
    ids=["reply", "garbage", "part of a reply"],
)  # fmt: skip
async def test_unread_bytes_never_answer_another_request(cache_folder: Path, extra: bytes, closed: bool) -> None:
    """An idle connection with unread bytes is closed; part of a status line is dropped."""
    connections = 0

    async def serve(reader: asyncio.StreamReader, out: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        try:
            while True:
                await read_request(reader)
                out.write(reply("yes"))
                await asyncio.sleep(0.01)
                out.write(extra)
        except (asyncio.IncompleteReadError, ConnectionError):
            out.close()

    async with raw_server(serve) as place, engine_at(f"http://{place}/v1", cache_folder, concurrency=1) as engine:
        found = []
        for n in range(5):
            found.append((await engine.complete(ask(f"q{n}"))).value)
            await asyncio.sleep(0.05)
    assert found == ["yes"] * 5
    assert connections == (5 if closed else 1)


@pytest.mark.parametrize(
    "raw",
    [
        b"", b"\x16\x03\x01", b"HTTP/1.1 200 OK\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n{}",
        b"HTTP/1.1 999 Odd\r\n\r\n", b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 40_000 + b"\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: br\r\n\r\n\xff\xff", b"HTTP/1.1 100 Continue\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n\x1f\x8b",
    ],
)  # fmt: skip
async def test_broken_http_is_only_a_lost_call(cache_folder: Path, raw: bytes) -> None:
    """Broken HTTP of any kind is a transient failure; the next good reply is the answer."""
    count = 0

    async def serve(reader: asyncio.StreamReader, out: asyncio.StreamWriter) -> None:
        nonlocal count
        count += 1
        await read_request(reader)
        out.write(raw if count <= 2 else reply("yes"))
        await out.drain()
        out.close()

    async with raw_server(serve) as place, engine_at(f"http://{place}/v1", cache_folder, timeout_s=2) as engine:
        done = await engine.complete(ask())
        assert (done.value, engine.stats().retries) == ("yes", 2)


async def test_a_refused_connection_names_host_and_port(cache_folder: Path) -> None:
    """Nothing listens: the run ends within the first patience, and the hint names a command that starts a server."""

    async def serve(_: asyncio.StreamReader, __: asyncio.StreamWriter) -> None: ...

    async with raw_server(serve) as place:
        pass
    async with engine_at(f"http://{place}/v1", cache_folder, first_contact_s=0.1) as engine:
        with pytest.raises(EndpointDownError, match=f"cannot connect to {place}") as caught:
            await engine.complete(ask())
        assert engine.stats().lost == 0
    assert "vllm serve" in caught.value.hint
    assert "svr sim" in caught.value.hint


# --- requests and replies ---------------------------------------------------------------------------------------------


async def test_redirects_are_not_followed(cache_folder: Path) -> None:
    """A redirect ends the run; the other server gets no request and so no key."""
    visits: list[str] = []

    async def elsewhere(request: web.Request) -> web.Response:
        visits.append(str(request.headers))
        return completed("yes")

    async with serving(elsewhere) as other:

        async def redirect(_: web.Request) -> web.Response:
            raise web.HTTPTemporaryRedirect(f"{other}/chat/completions")

        async with serving(redirect) as url, engine_at(url, cache_folder, key=KEY) as engine:
            with pytest.raises(RefusedError, match="HTTP 307"):
                await engine.complete(ask())
    assert visits == []


# --- proxies and certificates -----------------------------------------------------------------------------------------


@asynccontextmanager
async def proxy(head: str = "HTTP/1.1 200 OK") -> AsyncIterator[tuple[str, list[str]]]:
    """Serve a proxy that answers for any endpoint; yields its address and the heads of the requests."""
    heads: list[str] = []

    async def answer(reader: asyncio.StreamReader, out: asyncio.StreamWriter) -> None:
        heads.append((await read_request(reader)).decode())
        out.write(reply("yes", f"{head}\r\nConnection: close"))
        await out.drain()
        out.close()

    async with raw_server(answer) as place:
        yield place, heads


async def test_an_endpoint_is_asked_through_its_proxy(cache_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The proxy gets the whole address and its own password; the endpoint's key travels with the request."""
    async with proxy() as (address, heads):
        monkeypatch.setenv("HTTP_PROXY", f"http://me:pass@{address}")
        async with engine_at(URL, cache_folder, key=KEY) as engine:
            assert (await engine.complete(ask())).value == "yes"
    assert heads[0].startswith(f"POST {URL}/chat/completions HTTP/1.1\r\n")
    assert f"Proxy-Authorization: Basic {base64.b64encode(b'me:pass').decode()}" in heads[0]
    assert f"Authorization: Bearer {KEY}" in heads[0]


async def test_a_proxy_that_refuses_ends_the_run(cache_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The line names the endpoint and NO_PROXY, without the proxy's password; the key never left."""
    async with proxy("HTTP/1.1 407 Proxy Authentication Required") as (address, heads):
        monkeypatch.setenv("HTTPS_PROXY", f"http://me:secret-word@{address}")
        async with engine_at(SAFE, cache_folder, key=KEY) as engine:
            with pytest.raises(RefusedError, match=r"opens no connection to judge\.example:443: HTTP 407") as caught:
                await engine.complete(ask())
    assert "NO_PROXY" in caught.value.one_line()
    assert "secret-word" not in caught.value.one_line()
    assert KEY not in "".join(heads)


@pytest.mark.parametrize(
    ("url", "variables", "expected"),
    [
        (URL, {}, None), (URL, {"HTTP_PROXY": "http://p:3128"}, "http://p:3128"),
        (URL, {"HTTP_PROXY": "p:3128"}, "http://p:3128"),
        (URL, {"HTTP_PROXY": "http://one", "http_proxy": "http://two"}, "http://two"),
        (URL, {"HTTPS_PROXY": "http://p"}, None), (URL, {"ALL_PROXY": "socks5://p"}, None),
        (SAFE, {"HTTPS_PROXY": "https://p"}, "https://p"),
        (SAFE, {"HTTPS_PROXY": "http://p", "NO_PROXY": "judge.example"}, None),
        (SAFE, {"HTTPS_PROXY": "http://p", "no_proxy": ".example, other"}, None),
        (SAFE, {"HTTPS_PROXY": "http://p", "NO_PROXY": "*"}, None),
        (SAFE, {"HTTPS_PROXY": "http://p", "NO_PROXY": "other.example"}, "http://p"),
        ("http://localhost:8000/v1", {"HTTP_PROXY": "http://p"}, None), (LOCAL, {"HTTP_PROXY": "http://p"}, None),
        ("http://[::1]:8000/v1", {"HTTP_PROXY": "http://p"}, None),
        ("http://10.0.0.7:8000/v1", {"HTTP_PROXY": "http://p"}, "http://p"),
    ],
)  # fmt: skip
def test_the_proxy_of_an_endpoint(
    url: str, variables: dict[str, str], expected: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the scheme of the address; hosts in NO_PROXY or on this machine need no proxy."""
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert proxy_for(url) == expected


async def test_a_certificate_that_is_not_accepted_ends_the_run(cache_folder: Path) -> None:
    """No retry can cure it: one call, and a hint about certificates."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(Path(__file__).parents[1] / "commands" / "self_signed.pem")

    async def serve(_: asyncio.StreamReader, out: asyncio.StreamWriter) -> None:
        out.close()

    async with raw_server(serve, tls) as place, engine_at(f"https://{place}/v1", cache_folder) as engine:
        with pytest.raises(RefusedError, match=f"the certificate of {place} is not accepted") as caught:
            await engine.complete(ask())
        assert engine.stats().sent == 1
    assert "SSL_CERT_FILE" in caught.value.hint
