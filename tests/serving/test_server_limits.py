"""Admission, refusals, and an orderly end."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from arena import PROMPT, TEXTS, arena
from endpoint import SimConfig
from rig import until

from svr_async.errors import UsageError
from svr_async.serving.server.app import RewardServer
from svr_async.serving.server.settings import ServerSettings

ALONE = {"prompt": PROMPT, "response": TEXTS[0]}
WRONG: tuple[tuple[str, Any, int, str], ...] = (
    ("/reward", 7, 422, "the body is int, not an object"),
    ("/reward", {"prompt": 3, "response": "x"}, 422, "the prompt cannot be used"),
    ("/reward", {"prompt": [{"role": "ghost", "content": "x"}], "response": "x"}, 422, "unknown role 'ghost'"),
    ("/reward", {**ALONE, "group": "g"}, 422, "send group_size"),
    ("/reward", {**ALONE, "group": ["g"], "group_size": 2}, 422, "at `$.group`"),
    ("/reward", {**ALONE, "group": "g", "group_size": "9" * 500}, 422, "at `$.group_size`"),
    ("/reward", {**ALONE, "group": "g", "group_size": 65}, 413, "a group of 65 is larger than 64"),
    ("/get_reward", {"query": []}, 422, "'query' is not a list of at least one item"),
    ("/get_reward", {"query": ["no prompt in it"]}, 422, "does not end with a response"),
    ("/verify", {"responses_create_params": {"input": "x"}, "response": {"output": []}}, 422, "no message"),
    ("/rerank", {"query": "x", "documents": [3]}, 422, "a document is a text"),
    ("/score", {"queries": ["x", "y"], "documents": ["z"]}, 422, "2 queries do not match 1 documents"),
    ("/classify", {"input": "no marks in it"}, 422, "does not end with a response"),
    ("/v1/svr/compare", {"prompt": "x", "a": "y"}, 422, "no 'b'"),
    ("/reward", {**ALONE, "rubrics": "x"}, 422, "'rubrics' is a list of criteria"),
    ("/reward", {**ALONE, "rubrics": [{"points": 2}]}, 422, "rubric 1: "),
)  # fmt: skip


async def test_every_invalid_body_is_one_line(tmp_path: Path) -> None:
    """The right status, one line of JSON with the mistake, and no call."""
    async with arena(tmp_path, max_body=9000) as at:
        for path, body, expected, says in WRONG:
            status, found = await at.post(path, body)
            assert (status, found["status"]) == (expected, expected), (path, body, found)
            assert says in found["error"], (path, body, found)
            assert "\n" not in found["error"]
        status, found = await at.post("/reward", {**ALONE, "prompt": "x" * 9000})
        assert (status, "too large" in found["error"]) == (413, True)
        for data in (b"", b"{", b"\xff\xfe", b"[" * 900):
            headers = {"Content-Type": "application/json"}
            async with at.client.post(at.server.url + "/reward", data=data, headers=headers) as reply:
                assert (reply.status, "not JSON" in (await reply.json())["error"]) == (400, True)
        assert (await at.post("/nowhere", {}))[0] == 404
        assert (await at.get("/reward"))[0] == 405
        assert at.sim.stats()["calls"] == 0


async def test_a_web_page_cannot_spend_money(tmp_path: Path) -> None:
    """Without a token, what a page in the user's browser can send is refused: other hosts, origins, plain text."""
    async with arena(tmp_path) as at:
        body = {"prompt": PROMPT, "responses": TEXTS[:2]}
        for headers, status in (
            ({"Host": "evil.example"}, 403),
            ({"Origin": "http://evil.example"}, 403),
            ({"Content-Type": "text/plain"}, 415),
            ({"Origin": "http://localhost:3000"}, 200),
            ({"Host": f"localhost:{at.server.port}"}, 200),
        ):
            found, reply = await at.post("/reward", body, headers=headers)
            assert found == status, (headers, reply)
        assert (await at.get("/v1/models"))[0] == 200
        assert at.sim.stats()["paid"] == 1


async def test_only_clients_with_the_token_are_admitted(tmp_path: Path) -> None:
    """In a header, or in the address for trainers without headers; health checks need no token."""
    async with arena(tmp_path, token="wörd") as at:
        body = {"prompt": PROMPT, "responses": TEXTS[:2]}
        for given in ("", "Bearer word", "Bearer", "wörd", "Basic wörd"):
            status, found = await at.post("/reward", body, headers={"Authorization": given})
            assert (status, "token" in found["error"]) == (401, True)
        assert (await at.post("/reward", body, headers={"Authorization": "Bearer wörd", "Host": "gpu-node-7"}))[
            0
        ] == 200
        assert (await at.post("/reward?token=wörd", body))[0] == 200
        assert [(await at.get(path))[0] for path in ("/healthz", "/readyz", "/metrics", "/")] == [200, 200, 401, 401]


async def test_a_slow_body_is_not_awaited(tmp_path: Path) -> None:
    """A client that stops in its body gets 408."""
    async with arena(tmp_path, read_s=0.2) as at:
        reader, writer = await asyncio.open_connection("127.0.0.1", at.server.port)
        head = b"POST /reward HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        writer.write(head + b"Content-Length: 99\r\n\r\n{")
        assert b" 408 " in await reader.readline()
        writer.close()


async def test_the_end_is_orderly(tmp_path: Path) -> None:
    """Running requests are answered, a waiting group is ranked with its present members, the port is closed."""
    async with arena(tmp_path, SimConfig(latency_ms=200.0)) as at:
        compared = asyncio.create_task(at.answer("/v1/svr/compare", {"prompt": PROMPT, "a": TEXTS[0], "b": TEXTS[1]}))
        members = asyncio.create_task(at.members((0, 1), 3))
        await until(lambda: at.server.running == 3)
        closing = asyncio.create_task(at.server.close())
        assert (await compared)["margin"] is not None
        assert [one["svr_members"] for one in await members] == [2.0, 2.0]
        await closing
        with pytest.raises(OSError):
            await asyncio.open_connection("127.0.0.1", at.server.port)


async def test_invalid_settings_are_refused_at_once(tmp_path: Path) -> None:
    """A port in use, and settings that contradict each other."""
    async with arena(tmp_path) as at:
        taken = RewardServer("rules", settings=ServerSettings(port=at.server.port))
        with pytest.raises(UsageError, match=r"cannot listen on \S+: Address already in use\n.* with --listen"):
            async with taken:
                pass
    for wrong, says in (({"fallback": float("nan")}, "must be finite"), ({"group_size": 100}, "at most 64")):
        with pytest.raises(UsageError, match=says):
            ServerSettings(**wrong)
