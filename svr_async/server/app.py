"""The application: who is let in, what is refused, and every error as a status and one line of JSON."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import orjson
from aiohttp import web

from svr_async.core.safetext import one_line
from svr_async.errors import SvrError
from svr_async.server.metrics import ServerMetrics
from svr_async.server.openapi import document, page
from svr_async.server.reading import parsed
from svr_async.server.refusal import RefusalError
from svr_async.server.rewarder import Rewarder
from svr_async.server.shapes.contract import Call, Route
from svr_async.server.shapes.registry import ROUTES
from svr_async.version import __version__

OPEN = frozenset({"/healthz", "/readyz"})  # without a token: orchestrators have none
UNKNOWN = "unknown"  # the route of what there is no route for, in counts
TOO_LARGE = "the body is too large — send fewer or shorter texts, or raise --max-body"
WRITE_S = 30.0  # for a client to take its reply
MOST_LABEL_CHARS = 200
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class ServerApp:
    """The routes of a server over a rewarder; `draining` says that it is about to stop."""

    def __init__(self, rewarder: Rewarder, metrics: ServerMetrics | None = None) -> None:
        self.rewarder = rewarder
        self.settings = rewarder.settings
        self.draining = False
        self.idle = asyncio.Event()
        self.idle.set()
        self.say: Callable[[str], None] = lambda _: None
        self.heard: Callable[[web.Request], None] = lambda _: None
        self._metrics = metrics
        self._token = self.settings.token.encode()
        self._document = orjson.dumps(document(with_token=bool(self._token)))

    def build(self) -> web.Application:
        """Return the application."""
        app = web.Application(client_max_size=self.settings.max_body, middlewares=[self._outermost])
        for route in ROUTES:
            app.add_routes([web.post(path, partial(self._judged, route)) for path in route.paths])
        looks = {
            "/": self._page,
            "/healthz": self._healthz,
            "/readyz": self._readyz,
            "/metrics": self._scraped,
            "/openapi.json": self._openapi,
        }
        app.add_routes([web.get(path, handler) for path, handler in looks.items()])
        return app

    @web.middleware
    async def _outermost(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Count a request, answer it whatever happens, and write the reply within a time."""
        self.heard(request)
        tally = self.rewarder.tally
        tally.under_way += 1
        self.idle.clear()
        try:
            response = await self._answered(request, handler)
            resource = request.match_info.route.resource
            tally.requests[UNKNOWN if resource is None else resource.canonical, response.status] += 1
            await _written(request, response)
        finally:
            tally.under_way -= 1
            if not tally.under_way:
                self.idle.set()
        return response

    async def _answered(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            self._admit(request)
            return await handler(request)
        except RefusalError as error:
            return refused(error.status, error.one_line())
        except SvrError as error:
            return refused(422, error.one_line())
        except web.HTTPException as error:
            return refused(error.status, _words(error, request))
        except TimeoutError:
            return refused(408, f"the body did not come within {self.settings.read_s:g} s")
        except Exception as error:  # noqa: BLE001  (no traceback to anybody; the line says what happened)
            told = one_line(f"a bug: {type(error).__name__}: {error}", MOST_LABEL_CHARS)
            self.say(f"{told}, at {request.path[:80]} — please report it")
            return refused(500, told)

    def _admit(self, request: web.Request) -> None:
        """Refuse who has no token, and more requests than may be under way."""
        if self._token and request.path not in OPEN:
            scheme, _, given = request.headers.get("Authorization", "").partition(" ")
            same = hmac.compare_digest(given.strip().encode("utf-8", "surrogateescape"), self._token)
            if not same or scheme.lower() != "bearer":
                raise RefusalError(401, "the bearer token is missing or wrong", hint="send Authorization: Bearer TOKEN")
        if (request.content_length or 0) > self.settings.max_body:
            raise RefusalError(413, TOO_LARGE)
        if request.method == "POST" and self.draining:
            raise RefusalError(429, "the server is stopping", hint="ask again later")
        if request.method == "POST" and self.rewarder.tally.under_way > self.settings.max_requests:
            raise RefusalError(429, f"{self.settings.max_requests} requests are under way", hint="ask again later")

    async def _judged(self, route: Route, request: web.Request) -> web.Response:
        async with asyncio.timeout(self.settings.read_s):
            body = await request.read()
        told = await route.answer(self.rewarder, Call(body=parsed(body), query=request.query))
        headers = {"X-SVR-Fallback": str(told.fallbacks), "X-SVR-Judge": header_of(self.rewarder.label)}
        return in_json(told.value, headers=headers)

    async def _healthz(self, _: web.Request) -> web.Response:
        return in_json({"status": "ok"})

    async def _readyz(self, _: web.Request) -> web.Response:
        lost = self.rewarder.referee.lost
        status = "stopping" if self.draining else "no judge" if lost else "ready"
        told = {"status": status, "why": lost, **self._facts(), **self.rewarder.tally.facts()}
        return in_json(told, status=200 if status == "ready" else 503)

    async def _scraped(self, _: web.Request) -> web.Response:
        if self._metrics is None:
            hint = "pip install 'svr-async[prometheus]'"
            raise RefusalError(404, "metrics need the package prometheus-client", hint=hint)
        body, kind = self._metrics.text()
        return web.Response(body=body, headers={"Content-Type": kind})

    async def _openapi(self, _: web.Request) -> web.Response:
        return web.Response(body=self._document, content_type="application/json")

    async def _page(self, _: web.Request) -> web.Response:
        return web.Response(text=page(self._facts()), content_type="text/html")

    def _facts(self) -> dict[str, Any]:
        bank = self.rewarder.referee.bank
        return {
            "judge": self.rewarder.label,
            "bank": "none" if bank is None else bank.name or "without a name",
            "schedule": self.settings.schedule,
            "relative": self.settings.relative,
            "fallback": self.settings.fallback,
            "version": __version__,
        }


def in_json(value: Any, *, status: int = 200, headers: dict[str, str] | None = None) -> web.Response:
    """Return a reply of JSON."""
    return web.Response(body=orjson.dumps(value), status=status, headers=headers, content_type="application/json")


def refused(status: int, text: str) -> web.Response:
    """Return a refusal; a connection whose body was not read is not used again."""
    response = in_json({"error": text, "status": status}, status=status)
    if status == 429:
        response.headers["Retry-After"] = "1"
    if status in {401, 408, 413, 429}:
        response.force_close()
    return response


def header_of(text: str) -> str:
    """Return a text as a header may hold it."""
    return "".join(one if " " <= one <= "~" else "?" for one in text[:MOST_LABEL_CHARS])


async def _written(request: web.Request, response: web.StreamResponse) -> None:
    """Write a reply; a client that does not take it in time is cut off, and one that has left is let go."""
    try:
        async with asyncio.timeout(WRITE_S):
            await response.prepare(request)
            await response.write_eof()
    except (TimeoutError, ConnectionError):
        if request.transport is not None:
            request.transport.abort()


def _words(error: web.HTTPException, request: web.Request) -> str:
    if error.status == 404:
        return f"there is no {request.path[:80]} — GET / lists what there is"
    if error.status == 405:
        return f"{request.path} does not take {request.method}"
    if error.status == 413:
        return TOO_LARGE
    return error.reason
