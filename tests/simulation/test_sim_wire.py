"""Every kind of fault, seen from the other end of a real connection."""

from __future__ import annotations

import asyncio
import contextlib
import json
import zlib
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any

import aiohttp
import pytest
import sim_requests as ask

from svr_async.simulation.brain import Simulator
from svr_async.simulation.config import SimConfig
from svr_async.simulation.faults import FAULTS, FaultConfig, Stage
from svr_async.simulation.server import SimServer
from svr_async.simulation.world import World

WORLD = World()
BODY = ask.of_pair(WORLD, WORLD.pair("wire", 0), overall=True)
HONEST = Simulator().answer(BODY)
ROW_IDS = [f"R{n}" for n in range(1, 7)]
MIB = 2**20


def endpoint(kind: str, **settings: Any) -> SimServer:
    """Return a server whose first attempt at any request has the given fault."""
    sizes = {"huge_bytes": MIB, "bomb_bytes": 4 * MIB, "drip_s": 0.001}
    faults = FaultConfig(rate=1.0, kinds=(kind,), max_faulty_attempts=1, **sizes | settings)
    return SimServer(SimConfig(faults=faults))


async def raw(sim: SimServer) -> tuple[bytes, bool]:
    """Send the request over a bare socket; return all bytes that come back, and whether the end was a reset."""
    reader, writer = await asyncio.open_connection("127.0.0.1", sim.port)
    data = json.dumps(BODY).encode()
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nHost: sim\r\nConnection: close\r\nContent-Length: {len(data)}\r\n\r\n"
    )
    writer.write(head.encode() + data)
    got, was_reset = b"", False
    try:
        while piece := await reader.read(65_536):
            got += piece
    except ConnectionResetError:
        was_reset = True
    finally:
        writer.close()
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()
    return got, was_reset


def split(got: bytes) -> tuple[str, bytes]:
    """Return the head in lower case and the body of a raw reply."""
    head, _, body = got.partition(b"\r\n\r\n")
    return head.decode("latin-1").lower(), body


async def parsed(sim: SimServer) -> tuple[int, Mapping[str, str], dict[str, Any]]:
    """Send the request with a real client that follows nothing; return status, headers and JSON."""
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{sim.base_url}/chat/completions", json=BODY, allow_redirects=False) as response,
    ):
        return response.status, response.headers, json.loads(await response.read())


@pytest.mark.parametrize("kind", [name for name, fault in FAULTS.items() if fault.stage is Stage.STATUS])
async def test_error_statuses(kind: str) -> None:
    """Each status comes as such with an error object, unpaid, and the next attempt is answered."""
    async with endpoint(kind) as sim:
        status, headers, reply = await parsed(sim)
        assert status == int(kind.split("-", maxsplit=1)[0])
        assert reply["error"]["message"]
        if kind == "429":
            assert headers["Retry-After"] == "0.050"
        if kind == "429-date":
            assert parsedate_to_datetime(headers["Retry-After"]) >= parsedate_to_datetime(headers["Date"])
        if kind == "429-bare":
            assert "Retry-After" not in headers
            assert headers["x-ratelimit-reset-requests"] == "50ms"
        assert not sim.log()[0].paid
        assert (await parsed(sim))[2]["choices"] == HONEST["choices"]


@pytest.mark.parametrize(
    ("kind", "status", "code"),
    [
        ("401", 401, "invalid_api_key"),
        ("context-length", 400, "context_length_exceeded"),
        ("insufficient-quota", 429, "insufficient_quota"),
        ("307", 307, None),
    ],
)
async def test_final_refusals(kind: str, status: int, code: str | None) -> None:
    """Each comes with the code that a client has to tell it by, unpaid."""
    async with endpoint(kind) as sim:
        got, headers, reply = await parsed(sim)
        assert (got, reply["error"]["code"]) == (status, code)
        assert (kind == "307") == ("Location" in headers)
        assert not sim.log()[0].paid
        assert sim.stats()["redirects_followed"] == 0


async def test_following_a_redirect_is_noticed() -> None:
    """A client that follows the redirect is counted."""
    async with endpoint("307") as sim, aiohttp.ClientSession() as session:
        async with session.post(f"{sim.base_url}/chat/completions", json=BODY) as response:
            await response.read()
        assert sim.stats()["redirects_followed"] == 1


async def test_reset_before_any_byte() -> None:
    """The connection is reset without a byte, and nothing was paid."""
    async with endpoint("reset") as sim:
        assert await raw(sim) == (b"", True)
        assert not sim.log()[0].paid


async def test_reset_in_the_body() -> None:
    """Half of a reply comes, then a reset; the work was paid."""
    async with endpoint("reset-mid") as sim:
        got, was_reset = await raw(sim)
        head, body = split(got)
        assert was_reset
        assert 0 < len(body) < int(head.split("content-length: ")[1].split("\r\n")[0])
        assert sim.log()[0].paid
        assert not sim.log()[0].completed


async def test_truncation_against_the_stated_length() -> None:
    """Fewer bytes come than Content-Length says, and a client notices."""
    async with endpoint("truncated") as sim:
        got, was_reset = await raw(sim)
        head, body = split(got)
        assert not was_reset
        assert len(body) < int(head.split("content-length: ")[1].split("\r\n")[0])
        sim.reset()
        with pytest.raises(aiohttp.ClientPayloadError):
            await parsed(sim)


async def test_truncation_that_looks_like_success() -> None:
    """Without a length the cut body looks complete, but its JSON is not."""
    async with endpoint("close-cut") as sim:
        head, body = split((await raw(sim))[0])
        assert "content-length" not in head
        assert "chunked" not in head
        assert body.startswith(b'{"id"')
        sim.reset()
        with pytest.raises(json.JSONDecodeError):
            await parsed(sim)


async def test_slow_drip() -> None:
    """The whole reply comes in the end, a byte at a time."""
    async with endpoint("slow-drip") as sim:
        reader, writer = await asyncio.open_connection("127.0.0.1", sim.port)
        data = json.dumps(BODY).encode()
        writer.write(
            f"POST /v1/chat/completions HTTP/1.1\r\nHost: s\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data
        )
        await reader.readuntil(b"\r\n\r\n")
        assert await reader.readexactly(5) == b'{"id"'
        writer.close()
        await ask.settle(sim, lambda sim: bool(sim.log()))
        assert sim.log()[0].paid
        assert not sim.log()[0].completed


async def test_a_slow_drip_ends() -> None:
    """Who waits long enough gets the right reply."""
    async with endpoint("slow-drip", drip_s=0.0) as sim:
        assert json.loads(split((await raw(sim))[0])[1])["choices"] == HONEST["choices"]


async def test_hang() -> None:
    """No byte comes until the client gives up; the server notices that it left."""
    async with endpoint("hang") as sim:
        task = asyncio.create_task(raw(sim))
        await ask.settle(sim, lambda sim: bool(sim.stats()["in_flight"]))
        assert not task.done()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert [(record.fault, record.paid) for record in sim.log()] == [("hang", False)]


async def test_a_hang_ends_with_the_connection() -> None:
    """After its time the server gives up by itself."""
    async with endpoint("hang", hang_s=0.01) as sim:
        assert (await raw(sim))[0] == b""


async def test_huge_body() -> None:
    """The body has the configured size and starts like JSON."""
    async with endpoint("huge") as sim:
        head, body = split((await raw(sim))[0])
        assert f"content-length: {MIB}" in head
        assert len(body) == MIB
        assert body[:1] == b"{"


async def test_gzip_bomb() -> None:
    """A few kilobytes unpack to megabytes."""
    async with endpoint("gzip-bomb") as sim:
        head, body = split((await raw(sim))[0])
        assert "content-encoding: gzip" in head
        assert len(body) < 20_000
        assert len(zlib.decompress(body, 31)) == 4 * MIB


async def test_invalid_gzip() -> None:
    """The header promises gzip, the body is none, and a client notices."""
    async with endpoint("bad-gzip") as sim:
        with pytest.raises(aiohttp.ClientPayloadError):
            await parsed(sim)


async def test_bytes_that_are_not_utf8() -> None:
    """The body holds bytes that decode as nothing."""
    async with endpoint("bad-utf8") as sim:
        with pytest.raises(UnicodeDecodeError):
            split((await raw(sim))[0])[1].decode()


async def test_no_http_at_all() -> None:
    """What comes back is not HTTP, and a client notices."""
    async with endpoint("garbage") as sim:
        assert not (await raw(sim))[0].startswith(b"HTTP")
        sim.reset()
        with pytest.raises(aiohttp.ClientError):
            await parsed(sim)


async def test_headers_larger_than_clients_take() -> None:
    """One header has twenty thousand characters."""
    async with endpoint("big-headers") as sim:
        assert len(split((await raw(sim))[0])[0]) > 20_000
        sim.reset()
        with pytest.raises(aiohttp.ClientError):
            await parsed(sim)


async def test_pages_errors_and_nothing_with_status_200() -> None:
    """A sign-in page, an error object and an empty list of choices all come with a 200."""
    async with endpoint("html") as sim:
        head, body = split((await raw(sim))[0])
        assert head.startswith("http/1.1 200")
        assert "text/html" in head
        assert body.startswith(b"<!DOCTYPE html>")
        assert not sim.log()[0].paid
    async with endpoint("error-200") as sim:
        status, _, reply = await parsed(sim)
        assert (status, "error" in reply, "choices" in reply) == (200, True, False)
    async with endpoint("empty-choices") as sim:
        status, _, reply = await parsed(sim)
        assert (status, reply["choices"]) == (200, [])
        assert sim.log()[0].paid


@pytest.mark.parametrize("kind", ["broken-json", "cut-json", "prose", "empty-content", "length", "refusal"])
async def test_bad_content(kind: str) -> None:
    """The completion is proper, its content is no JSON object, and its finish reason tells length and refusal."""
    async with endpoint(kind) as sim:
        _, _, reply = await parsed(sim)
        choice = reply["choices"][0]
        expected = {"length": "length", "refusal": "content_filter"}.get(kind, "stop")
        assert choice["finish_reason"] == expected
        with pytest.raises(json.JSONDecodeError):
            json.loads(choice["message"]["content"] or "")
        assert (kind == "refusal") == bool(choice["message"]["refusal"])
        assert sim.log()[0].paid
        assert not sim.log()[0].completed


@pytest.mark.parametrize("kind", ["missing-rubrics", "duplicate-ids", "unknown-ids"])
async def test_wrong_sets_of_rows(kind: str) -> None:
    """The ids of the rows are not the asked ones, each once."""
    async with endpoint(kind) as sim:
        rows = ask.payload((await parsed(sim))[2])["rubric_comparisons"]
        assert [row["rubric_id"] for row in rows] != ROW_IDS
        assert ask.payload((await parsed(sim))[2])["rubric_comparisons"] != rows


@pytest.mark.parametrize("kind", ["wrong-model", "bad-usage"])
async def test_odd_but_right(kind: str) -> None:
    """The answer is right and counts as completed; the model's name or the usage is odd."""
    async with endpoint(kind) as sim:
        _, _, reply = await parsed(sim)
        assert reply["choices"] == HONEST["choices"]
        assert (reply["model"] != HONEST["model"]) == (kind == "wrong-model")
        assert (reply["usage"] != HONEST["usage"]) == (kind == "bad-usage")
        assert sim.log()[0].completed
