"""The engine over real HTTP, against the simulated endpoint with its faults, and against raw sockets."""

from __future__ import annotations

import asyncio
import resource
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from aiohttp import web
from rig import ask, engine_at, judge_at, pairs, shown, until

from svr_async.engine.endpoint import EngineStoppedError
from svr_async.engine.engine import Completion
from svr_async.engine.http import CLIENTS, MAX_BODY_BYTES, HttpTransport
from svr_async.engine.money import Budget
from svr_async.errors import AuthError, EndpointDownError, ModelError, QuotaError, RefusedError, SvrError
from svr_async.judges.model import ModelJudge
from svr_async.judges.protocol import Reasked
from svr_async.simulation.config import SimConfig
from svr_async.simulation.faults import GROUPS, FaultConfig
from svr_async.simulation.server import SimServer
from svr_async.vocabulary.pair import Order, Presentation, present
from svr_async.vocabulary.rubric import Rubric
from svr_async.vocabulary.verdict import Outcome

N_PAIRS = 2
SENTINEL = "sk-sentinel-9f8e7d6c5b"
SMALL: dict[str, Any] = {
    "huge_bytes": 2 * MAX_BODY_BYTES,
    "bomb_bytes": 2 * MAX_BODY_BYTES,
    "retry_after_s": 0.01,
    "drip_s": 0.02,
}


def opened(judge: ModelJudge) -> bool:
    """Whether anything was sent, so that the transport was opened."""
    transport = judge.engine._caller.transport
    assert isinstance(transport, HttpTransport)
    return transport.opened


async def every_role(judge: ModelJudge, count: int = N_PAIRS) -> list[Any]:
    """Ask all questions that a judge answers about some pairs; return the answers without what differs by faults."""
    found: list[Awaitable[Any]] = []
    for pair in pairs(count):
        seen = present(pair, Order.AB)
        rubrics = [Rubric(text=text) for text in pair.rubrics]
        found += [
            judge.prefer(seen),
            judge.compare(seen, rubrics, overall=False),
            judge.compare(seen, rubrics[:3], overall=True),
            judge.write_rubrics(seen.prompt),
            judge.score(seen.prompt, seen.response_a, rubrics),
        ]
    return [
        replace(answer, requests=tuple(key for key in answer.requests if not isinstance(key, Reasked)))
        for answer in await asyncio.gather(*found)
    ]


@pytest.fixture(params=CLIENTS, autouse=True)
def client(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run every test of this file over both HTTP clients."""
    monkeypatch.setenv("SVR_HTTP", request.param)
    return str(request.param)


@pytest.fixture(scope="module")
def smooth(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """Return the answers of an endpoint without faults."""

    async def collect() -> list[Any]:
        async with SimServer() as sim, judge_at(sim.base_url, tmp_path_factory.mktemp("smooth") / "cache") as judge:
            judge_ = replace(judge, writer=same_writer(judge))
            return await every_role(judge_)

    return asyncio.run(collect())


def same_writer(judge: ModelJudge) -> Any:
    """Name the endpoint the same for every server, so that cache keys can be compared."""
    return replace(judge.writer, profile=replace(judge.writer.profile, identity="sim"))


@pytest.mark.parametrize("kind", [*GROUPS["mixed"], "hang", "slow-drip"])
async def test_each_fault_changes_nothing_but_the_number_of_calls(
    cache_folder: Path, smooth: list[Any], kind: str
) -> None:
    """Whatever goes wrong on the first tries, every answer is the one that a smooth endpoint gives."""
    faults = FaultConfig(rate=1.0, kinds=(kind,), max_faulty_attempts=1 if kind == "429-date" else 2, **SMALL)
    timeout_s = 0.25 if kind in {"hang", "slow-drip"} else 20.0
    async with SimServer(SimConfig(faults=faults)) as sim:
        async with judge_at(sim.base_url, cache_folder, timeout_s=timeout_s, concurrency=32) as judge:
            found = await every_role(replace(judge, writer=same_writer(judge)))
            stats = judge.engine.stats()
        assert kind in sim.stats()["faults"]
    assert found == smooth
    assert stats.in_flight == 0
    assert (stats.sent > len(smooth)) == (kind not in {*GROUPS["benign"], "prose"})


@pytest.mark.parametrize("seed", range(3))
async def test_mixed_faults_change_nothing(cache_folder: Path, smooth: list[Any], seed: int) -> None:
    """A third of all calls fail in thirty different ways, and every answer is the same."""
    kinds = tuple(kind for kind in GROUPS["mixed"] if kind != "429-date")
    faults = FaultConfig(rate=0.35, kinds=kinds, **SMALL)
    config = SimConfig(faults=faults)
    config = replace(config, world=config.planted, seed=seed)
    async with SimServer(config) as sim, judge_at(sim.base_url, cache_folder) as judge:
        judge = replace(judge, writer=same_writer(judge))  # noqa: PLW2901  (the same judge under a steady name)
        found = await every_role(judge)
        calls = sim.counts()
        again = await every_role(judge)
        assert sim.counts() == calls
    assert found == again == smooth


async def test_ten_callers_of_each_question_pay_once(cache_folder: Path) -> None:
    """The endpoint's own log has one paid call for each different question, however many callers there were."""
    async with SimServer() as sim, judge_at(sim.base_url, cache_folder) as judge:
        await asyncio.gather(*(every_role(judge) for _ in range(10)))
        assert {row["paid"] for row in sim.counts().values()} == {1}
        assert sim.stats()["peak_in_flight"] <= 16


async def test_two_engines_on_one_cache_see_each_others_replies(cache_folder: Path) -> None:
    """What one engine keeps, another that is open at the same time finds."""
    async with (
        SimServer() as sim,
        judge_at(sim.base_url, cache_folder) as one,
        judge_at(sim.base_url, cache_folder) as other,
    ):
        first = await every_role(one)
        assert await every_role(other) == first
        assert other.engine.stats().sent == 0


async def test_the_endpoints_limits_are_kept_without_losing_a_call(cache_folder: Path) -> None:
    """An endpoint that admits fewer calls than we send turns some away; all get their answers in the end."""
    async with SimServer(SimConfig(rpm=1200.0, burst_s=0.1)) as sim, judge_at(sim.base_url, cache_folder) as judge:
        found = await every_role(judge)
        assert all(answer.value is not None for answer in found)
        assert judge.engine.stats().rate_limited > 0


async def test_our_own_rate_keeps_below_the_endpoints_limit(cache_folder: Path) -> None:
    """With `rpm` set a little below the endpoint's limit not one call is turned away."""
    async with SimServer(SimConfig(rpm=3000.0, burst_s=2.0)) as sim:
        async with judge_at(sim.base_url, cache_folder, rpm=2500.0) as judge:
            await every_role(judge)
        assert sim.stats()["faults"] == {}


@pytest.mark.parametrize(
    ("settings", "error", "needle"),
    [
        ({"api_key": "right"}, AuthError, "environment variable"),
        ({"quota": 3}, QuotaError, "credit"),
        ({"faults": FaultConfig(rate=1.0, kinds=("insufficient-quota",))}, QuotaError, "credit"),
        ({"faults": FaultConfig(rate=1.0, kinds=("307",))}, RefusedError, "final URL"),
        ({"faults": FaultConfig(rate=1.0, kinds=("401",))}, AuthError, "environment variable"),
    ],
)
async def test_fatal_answers_end_the_run_with_few_more_calls(
    cache_folder: Path, settings: dict[str, Any], error: type[SvrError], needle: str
) -> None:
    """Key, quota and redirects end the run with the right error within one round of calls in flight."""
    async with SimServer(SimConfig(**settings)) as sim:
        async with judge_at(sim.base_url, cache_folder, concurrency=4, key=SENTINEL) as judge:
            seen = [present(pair, Order.AB) for pair in pairs(40)]
            found = await asyncio.gather(*(judge.prefer(one) for one in seen), return_exceptions=True)
            assert isinstance(judge.engine.fatal, error)
            assert needle in judge.engine.fatal.one_line()
            assert SENTINEL not in judge.engine.fatal.one_line()
        stats = sim.stats()
        assert stats["calls"] <= settings.get("quota", 0) + 2 * 4
        assert stats["redirects_followed"] == 0
        assert sum(not isinstance(one, Exception) for one in found) == settings.get("quota", 0)


async def test_an_unknown_model_and_a_wrong_path_are_told_apart(cache_folder: Path) -> None:
    """A model that is not served, and a base URL without the API behind it, are both ModelError with their own cure."""
    async with SimServer() as sim, engine_at(sim.base_url, cache_folder) as engine:
        with pytest.raises(ModelError, match="does not exist") as caught:
            await engine.complete(ask())
        assert "svr doctor" in caught.value.hint
    async with SimServer() as sim, engine_at(sim.base_url.removesuffix("/v1") + "/api", cache_folder) as engine:
        with pytest.raises(ModelError) as caught:
            await engine.complete(ask())
        assert "/v1" in caught.value.hint


async def test_a_context_that_is_too_small_halves_the_list_of_rubrics(cache_folder: Path) -> None:
    """Rubrics that do not fit together are judged in parts, with the answers that they have together."""
    seen = shown()
    rubrics = [Rubric(text=f"{text} ({number})") for number in range(8) for text in pairs(1)[0].rubrics]
    async with SimServer() as sim, judge_at(sim.base_url, cache_folder / "a") as judge:
        whole = await judge.compare(seen, rubrics, overall=False)
        assert max(record.status for record in sim.log())
        tokens = judge.writer.compare(seen, rubrics, overall=False)
    small = tokens.request.prompt_chars // 4 - 300
    async with SimServer(SimConfig(context_tokens=small)) as sim, judge_at(sim.base_url, cache_folder / "b") as judge:
        parts = await judge.compare(seen, rubrics, overall=False)
        assert whole.value == parts.value
        assert len(parts.requests) > 1
        alone = await judge.compare(seen, rubrics, overall=True)
        assert alone.outcome is Outcome.CONTEXT_TOO_LONG


async def test_a_pair_that_fits_nowhere_is_context_too_long(cache_folder: Path) -> None:
    """When even one rubric is too much, the outcome says so; what exceeds the profile's context is not even sent."""
    seen = shown()
    rubrics = [Rubric(text=text) for text in pairs(1)[0].rubrics]
    async with SimServer(SimConfig(context_tokens=50)) as sim, judge_at(sim.base_url, cache_folder) as judge:
        assert (await judge.compare(seen, rubrics, overall=False)).outcome is Outcome.CONTEXT_TOO_LONG
        tiny = replace(judge, writer=replace(judge.writer, profile=replace(judge.writer.profile, context_tokens=10)))
        calls = sim.stats()["calls"]
        answer = await tiny.prefer(seen)
        assert (answer.outcome, sim.stats()["calls"]) == (Outcome.CONTEXT_TOO_LONG, calls)
        assert "not sent" in answer.detail


async def test_an_endpoint_that_is_not_there_is_given_up_in_time(cache_folder: Path) -> None:
    """Nothing listens: the run ends with EndpointDownError, and no call counts as perhaps billed."""
    async with SimServer() as sim:
        gone = sim.base_url
    async with judge_at(gone, cache_folder, attempts=2, first_contact_s=0.1) as judge:
        with pytest.raises(EndpointDownError, match="cannot connect"):
            await judge.prefer(shown())
        assert judge.engine.stats().lost == 0


async def test_an_outage_in_the_middle_costs_nothing_but_time(cache_folder: Path, smooth: list[Any]) -> None:
    """The endpoint goes away and comes back: every answer is there in the end."""
    async with SimServer(SimConfig(latency_ms=20.0)) as sim, judge_at(sim.base_url, cache_folder, attempts=3) as judge:
        judge = replace(judge, writer=same_writer(judge))  # noqa: PLW2901  (the same judge under a steady name)
        task = asyncio.create_task(every_role(judge))
        await until(lambda: sim.stats()["completed"] >= 5)
        await sim.go_down()
        await asyncio.sleep(0.3)
        await sim.come_back()
        assert await task == smooth


async def test_offline_opens_no_socket(cache_folder: Path) -> None:
    """Offline, answers come from the cache or not at all; the endpoint sees nothing."""
    async with SimServer() as sim:
        async with judge_at(sim.base_url, cache_folder) as judge:
            first = await judge.prefer(shown(0))
        calls = sim.stats()["calls"]
        async with judge_at(sim.base_url, cache_folder, offline=True) as judge:
            assert await judge.prefer(shown(0)) == first
            missing = await judge.prefer(shown(1))
            assert (missing.outcome, missing.value) == (Outcome.API_ERROR, None)
            assert not opened(judge)
        assert sim.stats()["calls"] == calls


async def test_a_dry_run_opens_no_socket(cache_folder: Path) -> None:
    """A dry run plans every call of a run of several stages and sends none."""
    async with SimServer() as sim, judge_at(sim.base_url, cache_folder, dry_run=True) as judge:
        await every_role(judge)
        assert not opened(judge)
        assert judge.engine.stats().planned_calls == 5 * N_PAIRS
        assert sim.stats()["calls"] == 0


async def test_huge_and_compressed_bodies_stop_at_the_cap(cache_folder: Path) -> None:
    """A body without end, and one that unpacks to gigabytes, are dropped at the cap; memory stays flat."""
    faults = FaultConfig(rate=1.0, kinds=("huge", "gzip-bomb"), huge_bytes=2**31, bomb_bytes=2**27)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    async with SimServer(SimConfig(faults=faults)) as sim, judge_at(sim.base_url, cache_folder) as judge:
        found = await asyncio.gather(*(judge.prefer(shown(n)) for n in range(6)))
        assert all(answer.value is not None for answer in found)
        assert "larger than" in judge.engine.stats().last_failure
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300 * 1024


# --- servers of our own -----------------------------------------------------------------------------------------------

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


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


async def test_a_key_that_the_server_echoes_is_masked_everywhere(cache_folder: Path, tmp_path: Path) -> None:
    """A server that repeats the key in its errors and answers puts it into no error, no cache and no log of ours."""

    async def echo(request: web.Request) -> web.Response:
        text = f"your header was {request.headers['Authorization']}"
        if (await request.json())["messages"][0]["content"] == "fail":
            return web.json_response({"error": {"message": text, "code": "invalid_api_key"}}, status=401)
        message = {"role": "assistant", "content": text}
        return web.json_response({"choices": [{"message": message, "finish_reason": "stop"}]})

    async with serving(echo) as url, engine_at(url, cache_folder, key=SENTINEL) as engine:
        done = await engine.complete(ask("answer"))
        assert done.value == "your header was Bearer [key]"
        with pytest.raises(AuthError) as caught:
            await engine.complete(ask("fail"))
        shown_somewhere = f"{done!r} {caught.value!r} {caught.value.one_line()} {engine.stats()!r} {vars(engine)!r}"
        assert SENTINEL not in shown_somewhere
        assert SENTINEL not in repr(vars(engine._caller.transport))
    assert all(SENTINEL.encode() not in path.read_bytes() for path in files_under(tmp_path))


def files_under(folder: Path) -> list[Path]:
    """Return all files in a folder."""
    return [path for path in folder.rglob("*") if path.is_file()]


async def test_the_key_is_not_sent_to_where_a_redirect_points(cache_folder: Path) -> None:
    """A redirect is an error that names the cure; the other server gets no request at all."""
    visits: list[str] = []

    async def elsewhere(request: web.Request) -> web.Response:
        visits.append(str(request.headers))
        return web.json_response({})

    async with serving(elsewhere) as other:

        async def redirect(_: web.Request) -> web.Response:
            raise web.HTTPTemporaryRedirect(f"{other}/chat/completions")

        async with serving(redirect) as url, engine_at(url, cache_folder, key=SENTINEL) as engine:
            with pytest.raises(RefusedError, match="HTTP 307"):
                await engine.complete(ask())
    assert visits == []


async def test_what_leaves_is_what_an_endpoint_expects(cache_folder: Path) -> None:
    """Key as a bearer token, JSON, no cookies sent back; the repeated try asks caches to stand aside."""
    seen: list[tuple[dict[str, str], Any]] = []

    async def keep(request: web.Request) -> web.Response:
        seen.append((dict(request.headers), await request.json()))
        message = {"content": "bad" if len(seen) == 1 else "good"}
        response = web.json_response({"choices": [{"message": message}]})
        response.set_cookie("track", "me")
        return response

    async with serving(keep) as url, engine_at(url, cache_folder, key=SENTINEL) as engine:
        assert (await engine.complete(ask())).value == "good"
    (first, body), (second, again) = seen
    assert first["Authorization"] == f"Bearer {SENTINEL}"
    assert first["Content-Type"] == "application/json"
    assert "Cookie" not in second
    assert ("Cache-Control" in first, second["Cache-Control"]) == (False, "no-cache")
    assert body == again == orjson.loads(ask().request.body_bytes)


async def test_without_a_key_no_authorization_is_sent(cache_folder: Path) -> None:
    """A local endpoint that needs no key gets no header."""
    seen: list[dict[str, str]] = []

    async def keep(request: web.Request) -> web.Response:
        seen.append(dict(request.headers))
        return web.json_response({"choices": [{"message": {"content": "yes"}}]})

    async with serving(keep) as url, engine_at(url, cache_folder) as engine:
        await engine.complete(ask())
    assert "Authorization" not in seen[0]


async def test_proxies_are_not_for_this_machine(cache_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An endpoint on this machine is asked directly, whatever proxy the environment names."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    async with SimServer() as sim, judge_at(sim.base_url, cache_folder) as judge:
        assert (await judge.prefer(shown())).value is not None


async def test_a_server_that_closes_after_each_reply_loses_nothing(cache_folder: Path) -> None:
    """Connections that the server drops without a word cost retries, not items."""

    async def serve(reader: asyncio.StreamReader, out: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        size = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        await reader.readexactly(size)
        body = b'{"choices": [{"message": {"content": "yes"}}]}'
        out.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        await out.drain()
        out.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, engine_at(f"http://127.0.0.1:{port}/v1", cache_folder) as engine:
        found = await asyncio.gather(*(engine.complete(ask(f"q{n}")) for n in range(300)))
        assert {one.value for one in found} == {"yes"}


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
async def test_no_garbage_on_the_wire_is_more_than_a_lost_call(cache_folder: Path, raw: bytes) -> None:
    """Broken HTTP of any sort is a transient failure; the next good reply is the answer."""
    good = b'{"choices": [{"message": {"content": "yes"}}]}'
    count = 0

    async def serve(reader: asyncio.StreamReader, out: asyncio.StreamWriter) -> None:
        nonlocal count
        count += 1
        await reader.readuntil(b"\r\n\r\n")
        whole = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(good) + good
        out.write(raw if count <= 2 else whole)
        await out.drain()
        out.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, engine_at(f"http://127.0.0.1:{port}/v1", cache_folder, timeout_s=2) as engine:
        done: Completion[str] = await engine.complete(ask())
        assert (done.value, engine.stats().sent >= 3) == ("yes", True) or done.outcome is Outcome.API_ERROR


async def test_a_budget_stop_keeps_what_was_paid(cache_folder: Path) -> None:
    """With a cap on calls, exactly as many are paid, and all of them are in the cache for the next run."""
    async with SimServer() as sim:
        budget = Budget(max_calls=7)
        async with judge_at(sim.base_url, cache_folder, budget=budget, concurrency=3) as judge:
            seen: list[Presentation] = [present(pair, Order.AB) for pair in pairs(20)]
            await asyncio.gather(*(judge.prefer(one) for one in seen), return_exceptions=True)
        assert sim.stats()["paid"] == 7
        async with judge_at(sim.base_url, cache_folder) as judge:
            await asyncio.gather(*(judge.prefer(one) for one in seen))
            assert (judge.engine.stats().cache_hits, judge.engine.stats().sent) == (7, 13)
        assert {row["paid"] for row in sim.counts().values()} == {1}


async def test_stopping_the_engine_drains_what_is_in_flight(cache_folder: Path) -> None:
    """Calls that have left come back and are kept; the others raise."""
    async with SimServer(SimConfig(latency_ms=100.0)) as sim:
        async with judge_at(sim.base_url, cache_folder, concurrency=5) as judge:
            tasks = [asyncio.create_task(judge.prefer(shown(n))) for n in range(15)]
            await until(lambda: sim.stats()["in_flight"] >= 5)
            judge.engine.stop()
            found = await asyncio.gather(*tasks, return_exceptions=True)
            assert sum(isinstance(one, EngineStoppedError) for one in found) == 10
        assert sim.stats()["completed"] == 5
