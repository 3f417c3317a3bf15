"""The HTTP server: who is admitted, every error as a status with one line of JSON, and an orderly end."""

from __future__ import annotations

import asyncio
import hmac
import logging
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

import orjson
from aiohttp import web

from svr_async.core.safetext import one_line
from svr_async.engine.reply import json_value
from svr_async.errors import SvrError, UsageError, system_words
from svr_async.judges.limits import JudgeLimits
from svr_async.observability.prometheus import PrometheusMetrics
from svr_async.scoring.bank import RubricBank
from svr_async.serving.server import nemo, routes
from svr_async.serving.server.rewarder import JudgeSupervisor, Rewarder
from svr_async.serving.server.routes import Answer, Call
from svr_async.serving.server.settings import RefusalError, ServerSettings
from svr_async.version import __version__

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
OPEN = frozenset({"/healthz", "/readyz"})  # without a token: orchestrators do not have it
MAX_HEADER_CHARS = 200
QUIET = logging.Logger("svr serve", logging.CRITICAL + 1)  # noqa: LOG001  (aiohttp logs everything that is not HTTP)
ROUTES: tuple[tuple[Answer, str, tuple[str, ...]], ...] = (
    (routes.compare, "two responses: margin, winner, contribution of each rubric", ("/v1/svr/compare",)),
    (routes.reward, "a reward, or a list for a group (slime, one POST a sample)", ("/reward",)),
    (routes.get_reward, "OpenRLHF: --reward.remote_url http://HOST:PORT/get_reward", ("/get_reward",)),
    (
        routes.rerank,
        "documents (responses) to a query (a prompt), best first: vLLM, Cohere, Jina, TEI",
        ("/rerank", "/v1/rerank", "/v2/rerank"),
    ),
    (routes.infinity, "Infinity, at http://HOST:PORT/infinity: documents as plain texts", ("/infinity/rerank",)),
    (routes.score, "vLLM's score API: each document alone, by the bank", ("/score", "/v1/score")),
    (routes.classify, "vLLM's classify API: a conversation that ends with a response", ("/classify",)),
    (nemo.verify, "NeMo Gym: a resources server's /verify", ("/verify",)),
    (nemo.compare, "NeMo Gym: genrm_compare's /compare", ("/compare",)),
)


def to_stderr(text: str) -> None:
    """Print a line of the server."""
    sys.stderr.write(f"svr: {text}\n")


class RewardServer:
    """Rewards over HTTP while it is entered: `async with RewardServer("gpt-oss-120b", bank=bank) as server: …`.

    `judge`, `limits` and `base_url` are those of an `Engine`. UsageError if the address is taken, or the judge cannot
    judge with this bank. `say` gets one-line reports.
    """

    def __init__(
        self,
        judge: str,
        *,
        settings: ServerSettings | None = None,
        limits: JudgeLimits | None = None,
        base_url: str = "",
        bank: RubricBank | None = None,
        say: Callable[[str], None] = to_stderr,
    ) -> None:
        self.settings = settings or ServerSettings()
        self.requests = 0
        self.running = 0
        self.port = self.settings.port
        self._metrics: PrometheusMetrics | None = None  # without prometheus-client
        with suppress(UsageError):
            self._metrics = PrometheusMetrics()
            self._metrics.registry.register(self)
        observers = () if self._metrics is None else (self._metrics,)
        self.judge = JudgeSupervisor(
            judge, self.settings, limits or JudgeLimits(), base_url=base_url, bank=bank, observers=observers, say=say
        )
        self.rewarder = Rewarder(self.settings, self.judge)
        self._runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        """The address, without a slash at its end."""
        host = f"[{self.settings.host}]" if ":" in self.settings.host else self.settings.host
        return f"http://{host}:{self.port}"

    async def __aenter__(self) -> Self:
        await self.judge.open()
        try:
            await self._listen()
        except BaseException:
            await self.close(at_once=True)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close(at_once=kind is not None)

    async def close(self, *, at_once: bool = False) -> None:
        """Accept no more requests, let running ones end within `drain_s` or end them at once, and close the judge."""
        self.rewarder.pool.close()
        if at_once:
            await self.judge.close()
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()
        await self.judge.close()

    async def _listen(self) -> None:
        app = web.Application(client_max_size=self.settings.max_body, middlewares=[self._outermost])
        app.add_routes([web.post(path, partial(self._judged, answer)) for answer, _, paths in ROUTES for path in paths])
        pages = {"/": self._page, "/healthz": self._healthz, "/readyz": self._readyz, "/v1/models": self._models}
        app.add_routes([web.get(path, page) for path, page in {**pages, "/metrics": self._scraped}.items()])
        self._runner = web.AppRunner(
            app, access_log=None, logger=QUIET, handler_cancellation=True, shutdown_timeout=self.settings.drain_s
        )
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, self.settings.host, self.settings.port, reuse_address=True).start()
        except OSError as error:
            problem = f"cannot listen on {self.settings.host}:{self.settings.port}: {system_words(error)}"
            raise UsageError(problem, hint="choose another port with --listen") from error
        self.port = self._runner.addresses[0][1]

    @web.middleware
    async def _outermost(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        """Count a request, and answer it whatever happens."""
        self.running += 1
        self.requests += 1
        try:
            self._admit(request)
            return await handler(request)
        except RefusalError as error:
            return refused(error.status, error.one_line())
        except SvrError as error:
            return refused(422, error.one_line())
        except web.HTTPException as error:
            words = {404: f"no such path {request.path[:80]} — GET / lists them", 413: "the body is too large"}
            return refused(error.status, words.get(error.status, error.reason))
        except TimeoutError:
            return refused(408, f"the body did not arrive within {self.settings.read_s:g} s")
        except Exception as error:  # noqa: BLE001  (no traceback to clients)
            text = one_line(f"a bug: {type(error).__name__}: {error}", MAX_HEADER_CHARS)
            self.judge.say(f"{text}, at {request.path[:80]} — please report it")
            return refused(500, text)
        finally:
            self.running -= 1

    def _admit(self, request: web.Request) -> None:
        """Raise RefusalError for a client without the token or, if no token is set, from another machine or web page.

        A page in the user's browser may know the port, but it cannot send these headers.
        """
        if self.settings.token:
            scheme, _, bearer = request.headers.get("Authorization", "").partition(" ")
            given = bearer.strip() if scheme.lower() == "bearer" else request.query.get("token", "")
            known = hmac.compare_digest(given.encode("utf-8", "surrogateescape"), self.settings.token.encode())
            if not known and request.path not in OPEN:
                raise RefusalError(401, "the bearer token is missing or wrong", hint="send Authorization: Bearer TOKEN")
            return
        origin = request.headers.get("Origin")
        for name, value, url in (("host", request.host, f"//{request.host}"), ("origin", origin, origin)):
            if value and urlsplit(url).hostname not in LOOPBACK:
                raise RefusalError(403, f"{name} {value[:80]!r} needs a token", hint="start it with --token-env NAME")
        if request.method == "POST" and request.content_type != "application/json":
            raise RefusalError(415, "the body is not application/json", hint="send Content-Type: application/json")

    async def _judged(self, answer: Answer, request: web.Request) -> web.Response:
        async with asyncio.timeout(self.settings.read_s):
            data = await request.read()
        try:
            body = json_value(data)
        except ValueError as error:
            raise RefusalError(400, f"the body is not JSON: {error}") from None
        value, rewards = await answer(self.rewarder, Call(body=body, query=request.query))
        label = "".join(char if " " <= char <= "~" else "?" for char in self.judge.label[:MAX_HEADER_CHARS])
        fallbacks = sum(bool(reward.reason) for reward in rewards)
        return in_json(value, headers={"X-SVR-Fallback": str(fallbacks), "X-SVR-Judge": label})

    async def _healthz(self, _: web.Request) -> web.Response:
        return in_json({"status": "ok"})

    async def _readyz(self, _: web.Request) -> web.Response:
        lost = self.judge.why_lost
        facts = {"status": "no judge" if lost else "ready", "why": lost, **self._facts(), **self.counts()}
        return in_json(facts, status=503 if lost else 200)

    async def _models(self, _: web.Request) -> web.Response:
        return in_json({"object": "list", "data": [{"id": self.judge.label, "object": "model", "owned_by": "svr"}]})

    async def _page(self, _: web.Request) -> web.Response:
        return in_json({**self._facts(), "POST": {path: text for _, text, paths in ROUTES for path in paths}})

    async def _scraped(self, _: web.Request) -> web.Response:
        if self._metrics is None:
            raise RefusalError(404, "metrics need prometheus-client", hint="pip install 'svr-async[prometheus]'")
        import prometheus_client

        body = prometheus_client.generate_latest(self._metrics.registry)
        return web.Response(body=body, headers={"Content-Type": prometheus_client.CONTENT_TYPE_LATEST})

    def counts(self) -> dict[str, int]:
        """Return totals since the start."""
        reasons = self.rewarder.reasons
        rewards = sum(reasons.values())
        return {"requests": self.requests, "rewards": rewards, "fallbacks": rewards - reasons[""]}

    def _facts(self) -> dict[str, Any]:
        bank = None if self.judge.bank is None else self.judge.bank.name or "unnamed"
        facts = {"judge": self.judge.label, "bank": bank, "schedule": self.settings.schedule}
        return facts | {"fallback": self.settings.fallback, "version": __version__}

    def collect(self) -> Iterator[Metric]:
        """Yield the server's metrics, at each scrape."""
        from prometheus_client import core

        text = "Rewards, judged or the reason of the fallback."
        rewards = core.CounterMetricFamily("svr_server_rewards", text, labels=("reason",))
        for reason, count in self.rewarder.reasons.items():
            rewards.add_metric((reason or "judged",), count)
        yield rewards
        yield core.GaugeMetricFamily("svr_server_requests_running", "Requests being answered.", value=self.running)


def in_json(value: Any, *, status: int = 200, headers: dict[str, str] | None = None) -> web.Response:
    """Return a reply of JSON."""
    return web.Response(body=orjson.dumps(value), status=status, headers=headers, content_type="application/json")


def refused(status: int, text: str) -> web.Response:
    """Return a refusal; a connection with an unread body is closed."""
    response = in_json({"error": text, "status": status}, status=status)
    if status in {401, 403, 408, 413, 415}:
        response.force_close()
    return response
