"""Who is let in, what is refused, slow clients, an orderly end, and thousands of bad requests without a trace."""

from __future__ import annotations

import asyncio
import gc
import random
from collections import Counter
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from arena import PROMPT, TEXTS, Arena, arena
from rig import until

from svr_async.errors import UsageError
from svr_async.server.listen import RewardServer
from svr_async.server.settings import ServerSettings
from svr_async.simulation.config import SimConfig

ALONE = {"prompt": PROMPT, "response": TEXTS[0]}
WRONG: tuple[tuple[str, Any, int, str], ...] = (
    ("/reward", [], 422, "no 'response'"),
    ("/reward", 7, 422, "the body is int, not an object"),
    ("/reward", {"response": "x"}, 422, "no 'prompt'"),
    ("/reward", {"prompt": PROMPT}, 422, "no 'response'"),
    ("/reward", {"prompt": PROMPT, "responses": ["x", None]}, 422, "a response is null, not a text"),
    ("/reward", {"prompt": PROMPT, "response": 3}, 422, "a response is a text, not int"),
    ("/reward", {"prompt": 3, "response": "x"}, 422, "the prompt cannot be used"),
    ("/reward", {"prompt": [{"role": "ghost", "content": "x"}], "response": "x"}, 422, "unknown role 'ghost'"),
    ("/reward", {**ALONE, "group": "g"}, 422, "send group_size"),
    ("/reward", {**ALONE, "group": ["g"], "group_size": 2}, 422, "'group' is a number or a text"),
    ("/reward", {**ALONE, "group": "g", "group_size": -1}, 422, "group_size is a number from 1"),
    ("/reward", {**ALONE, "group": "g", "group_size": "9" * 5000}, 422, "group_size is a number from 1"),
    ("/reward", {**ALONE, "group": "g", "group_size": 2, "member": {}}, 422, "'member' is a number"),
    ("/reward", {**ALONE, "group": "g", "group_size": 65}, 413, "a group of 65 is larger than 64"),
    ("/reward", {"prompt": PROMPT, "responses": ["x"] * 65}, 413, "a group of 65 is larger than 64"),
    ("/get_reward", {"query": []}, 422, "'query' is not a list of texts"),
    ("/get_reward", {"query": [PROMPT + "x"], "prompts": [PROMPT, "y"]}, 422, "not lists of one length"),
    ("/get_reward", {"query": ["no prompt in it"]}, 422, "does not contain its prompt"),
    ("/verify", {"response": {}}, 422, "no 'responses_create_params.input'"),
    ("/verify", {"responses_create_params": {"input": "x"}, "response": {"output": []}}, 422, "no message"),
    ("/compare", {"conversation_history": []}, 422, "'conversation_history' is not a list of one or more"),
    ("/rerank", {"query": "x", "documents": [3]}, 422, "a document is a text"),
    ("/rerank", {"query": "x", "documents": ["y"], "top_n": -1}, 422, "top_n is a number from 1"),
    ("/score", {"queries": ["x", "y"], "documents": ["z"]}, 422, "2 queries do not go with 1 documents"),
    ("/score", {"queries": "x"}, 422, "no query and documents"),
    ("/classify", {"input": "no marks in it"}, 422, "does not end with a response"),
    ("/v1/svr/compare", {"prompt": "x", "a": "y"}, 422, "no 'b'"),
)  # fmt: skip


async def raw(at: Arena, data: bytes, *, then_wait: bool = True) -> bytes:
    """Send bytes, and return all that comes back before the server hangs up."""
    reader, writer = await asyncio.open_connection("127.0.0.1", at.server.port)
    writer.write(data)
    found = await reader.read() if then_wait else b""
    writer.close()
    return found


async def test_every_wrong_body_is_one_line(tmp_path: Path) -> None:
    """The right status, one line of JSON that says what is wrong, and no call."""
    async with arena(tmp_path) as at:
        for path, body, expected, says in WRONG:
            status, told = await at.post(path, body)
            assert (status, told["status"]) == (expected, expected), (path, body, told)
            assert says in told["error"], (path, body, told)
            assert "\n" not in told["error"]
        for data in (b"", b"{", b"\xff\xfe", b"[" * 100_000):
            async with at.client.post(at.server.url + "/reward", data=data) as reply:
                assert (reply.status, "not JSON" in (await reply.json())["error"]) == (400, True)
        assert (await at.post("/nowhere", {}))[0] == 404
        assert (await at.get("/reward"))[0] == 405
        assert at.sim.stats()["calls"] == 0


async def test_what_is_no_http_is_refused_and_fills_no_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """Anybody may send it, without a token: 400, and not a word, let alone a traceback, for each."""
    head = b"POST /reward HTTP/1.1\r\nHost: x\r\n"
    async with arena(tmp_path, token="word") as at:
        for rest in (b"Content-Length: -1\r\n", b"X: a\n b\r\n", b"X: \x1b[31m\r\n", b"X" * 9000 + b": a\r\n"):
            assert b" 400 " in await raw(at, head + rest + b"\r\n")
    assert (caplog.records, capfd.readouterr().err) == ([], "")


async def test_only_who_has_the_token_is_let_in(tmp_path: Path) -> None:
    """Also to the counts; not needed to see whether the process is there."""
    async with arena(tmp_path, token="wörd") as at:
        body = {"prompt": PROMPT, "responses": TEXTS[:2]}
        for given in ("", "Bearer word", "Bearer", "wörd", "Basic wörd"):
            status, told = await at.post("/reward", body, headers={"Authorization": given})
            assert (status, "token" in told["error"]) == (401, True)
        right = {"Authorization": "Bearer wörd"}
        assert (await at.post("/reward", body, headers=right))[0] == 200
        assert [(await at.get(path))[0] for path in ("/healthz", "/readyz", "/metrics", "/")] == [200, 200, 401, 401]


async def test_bodies_and_requests_are_bounded(tmp_path: Path) -> None:
    """413 for a body that is too large, told or not; 429 with Retry-After while too many are under way."""
    async with arena(tmp_path, SimConfig(latency_ms=150.0), max_body=1000, max_requests=2) as at:
        status, told = await at.post("/reward", {**ALONE, "prompt": "x" * 2000})
        assert (status, "too large" in told["error"]) == (413, True)
        chunked = (
            b"POST /reward HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
            + (b"3e8\r\n" + b"x" * 1000 + b"\r\n") * 3
        )
        assert b" 413 " in await raw(at, chunked)
        short = {"prompt": "Say it.", "a": "x", "b": "y"}
        waiting = [asyncio.create_task(at.told("/v1/svr/compare", {**short, "a": str(n)})) for n in range(2)]
        await until(lambda: at.server.tally.under_way == 2)
        async with at.client.post(at.server.url + "/v1/svr/compare", json=short) as reply:
            assert (reply.status, reply.headers["Retry-After"]) == (429, "1")
        assert (await at.get("/healthz"))[0] == 200
        await asyncio.gather(*waiting)


async def test_slow_clients_are_not_waited_for(tmp_path: Path) -> None:
    """One that is silent, one that stops in its headers, one that stops in its body: none holds a connection."""
    async with arena(tmp_path, read_s=0.2) as at:
        head = b"POST /reward HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        silent, headers, body, none = await asyncio.gather(
            raw(at, b""), raw(at, head), raw(at, head + b"Content-Length: 99\r\n\r\n{"), raw(at, b"nonsense\r\n\r\n"),
            return_exceptions=True,
        )  # fmt: skip
        for cut in (silent, headers):
            assert isinstance(cut, ConnectionError) or cut == b""
        assert b" 408 " in bytes(body)  # type: ignore[arg-type]
        assert b" 400 " in bytes(none)  # type: ignore[arg-type]
        await until(lambda: not connections_of(at))


async def test_the_end_is_orderly(tmp_path: Path) -> None:
    """What is under way is answered, a group that waits is ranked with who is there, new requests are turned away."""
    async with arena(tmp_path, SimConfig(latency_ms=200.0)) as at:
        compared = asyncio.create_task(at.told("/v1/svr/compare", {"prompt": PROMPT, "a": TEXTS[0], "b": TEXTS[1]}))
        members = asyncio.create_task(at.members((0, 1), 3))
        await until(lambda: at.server.tally.under_way == 3)
        async with at.client.get(at.server.url + "/healthz"):
            pass
        closing = asyncio.create_task(at.server.close(5.0))
        await until(lambda: at.server.app.draining)
        status, told = await at.post("/reward", ALONE)  # by the connection that is still open
        assert (status, "stopping" in told["error"]) == (429, True)
        assert (await compared)["margin"] is not None
        assert [one["svr_members"] for one in await members] == [2.0, 2.0]
        await closing
        with pytest.raises(OSError):
            await asyncio.open_connection("127.0.0.1", at.server.port)


async def test_an_end_that_cannot_wait_answers_with_the_fallback(tmp_path: Path) -> None:
    """After the time to finish, groups are ended: their members are told so and not left hanging."""
    async with arena(tmp_path, SimConfig(latency_ms=30_000.0), drain_s=0.1) as at:
        members = asyncio.create_task(at.members((0, 1), 2))
        await until(lambda: at.server.tally.under_way == 2)
        await until(lambda: at.sim.service.history.in_flight >= 1)
        await at.server.close(0.1)
        assert [one["svr_reason"] for one in await members] == ["deadline"] * 2


async def test_what_cannot_be_served_is_said_at_once(tmp_path: Path) -> None:
    """A port that is taken, settings that contradict each other."""
    async with arena(tmp_path) as at:
        taken = RewardServer("rules", settings=ServerSettings(port=at.server.port))
        with pytest.raises(UsageError, match=r"cannot listen on \S+: Address already in use\n.* with --listen"):
            async with taken:
                pass
    for wrong, says in (
        ({"fallback": float("nan")}, "is no reward"),
        ({"gather_s": 200.0}, "is not within --deadline 100"),
        ({"group_size": 100}, "more than --max-group 64"),
        ({"rounds": 3}, "rounds=3 with schedule='circle'"),
    ):
        with pytest.raises(UsageError, match=says):
            ServerSettings(**wrong)


async def bad_requests(at: Arena, count: int, *, at_a_time: int = 80) -> Counter[int]:
    """Send requests of every wrong kind, and return how often each status came back; 0 is a connection that was cut."""
    draw, statuses = random.Random(0), Counter[int]()
    room = asyncio.Semaphore(at_a_time)
    head = b"POST /reward HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer t\r\n"

    async def send(data: bytes) -> None:
        try:
            found = await raw(at, data)
            statuses[int(found.split(b" ", 2)[1]) if found else 0] += 1
        except ConnectionError:
            statuses[0] += 1

    async def one(number: int) -> None:
        async with room:
            kind = number % 8
            if kind == 0:  # unauthorised
                statuses[(await at.post("/reward", ALONE))[0]] += 1
            elif kind == 1:  # malformed HTTP
                await send(draw.randbytes(40) + b"\r\n\r\n")
            elif kind == 2:  # silent, or slow in its body
                await send(head + b"Content-Length: 50\r\n\r\n{" if number % 16 == 2 else b"POST /rew")
            elif kind == 3:  # too large
                await send(head + b"Content-Length: 999999\r\n\r\n" + b"x" * 5000)
            else:
                path, body, *_ = WRONG[draw.randrange(len(WRONG))]
                mine = body if kind != 7 else {**ALONE, "group": f"g{number}", "group_size": 99}
                status, _ = await at.post(path, mine, headers={"Authorization": "Bearer t"})
                statuses[status] += 1

    await asyncio.gather(*map(one, range(count)))
    return statuses


def connections_of(at: Arena) -> list[Any]:
    """Return the server's connections."""
    runner = at.server._runner
    assert runner is not None
    assert runner.server is not None
    return runner.server.connections


async def gone(at: Arena) -> None:
    """Wait until no connection is left but those that the client keeps, and their timers are over."""
    kept = at.client.connector
    assert kept is not None
    await kept.close()
    at.client._connector = aiohttp.TCPConnector(limit=0)
    await until(lambda: not connections_of(at))
    await asyncio.sleep(0)
    gc.collect()


async def survives(tmp_path: Path, count: int, *, read_s: float = 1.0) -> None:
    """Send bad requests, and see that nothing is left of them: no task, no connection, no group, no call."""
    async with arena(tmp_path, read_s=read_s, max_body=10_000, token="t") as at:
        await bad_requests(at, 80)
        await gone(at)
        tasks, objects = len(asyncio.all_tasks()), len(gc.get_objects())
        statuses = await bad_requests(at, count)
        assert sum(statuses.values()) == count
        assert set(statuses) <= {0, 400, 401, 408, 413, 422}
        assert min(statuses[status] for status in (400, 401, 408, 413)) >= count // 16
        await gone(at)
        assert len(asyncio.all_tasks()) <= tasks + 10
        assert len(gc.get_objects()) - objects < 3000
        assert len(at.server.rewarder.pool) == 0
        assert at.server.tally.under_way == 0
        assert at.sim.stats()["calls"] == 0
        assert at.said == []
        right = {"headers": {"Authorization": "Bearer t"}}
        status, told = await at.post("/reward", {"prompt": PROMPT, "responses": TEXTS[:2]}, **right)
        assert (status, len(told)) == (200, 2)


async def test_bad_requests_leave_nothing_behind(tmp_path: Path) -> None:
    """Malformed, oversized, unauthorised and slow ones: the right status, no growth, and the next is answered."""
    await survives(tmp_path, 240)


@pytest.mark.soak
@pytest.mark.timeout(900)
async def test_ten_thousand_bad_requests_leave_nothing_behind(tmp_path: Path) -> None:
    """The same with 10,000; clients have longer to send, since this process may stand still on a busy machine."""
    await survives(tmp_path, 10_000, read_s=4.0)
