"""A server from its first connection to its last: limits on connections, silent clients, and an orderly end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Self

from aiohttp import web

from svr_async.engine.concurrency import descriptors_for
from svr_async.errors import UsageError, system_words
from svr_async.judges.limits import JudgeLimits
from svr_async.observability.prometheus import PrometheusMetrics
from svr_async.scoring.bank import RubricBank
from svr_async.server.app import ServerApp
from svr_async.server.gate import Gate
from svr_async.server.metrics import ServerMetrics
from svr_async.server.referee import Referee, to_standard_error
from svr_async.server.rewarder import Rewarder
from svr_async.server.settings import ServerSettings
from svr_async.server.tally import Tally

SPARE_CONNECTIONS = 256  # beyond requests under way: for those that look, and for refusals
KEEPALIVE_S = 75.0
LAST_WORDS_S = 0.5  # for the fallback to reach those whose judgement is ended
LINGER_S = 1.0  # for the rest of a body that is refused
BACKLOG = 1024
UNHEARD = logging.Logger("svr serve", logging.CRITICAL + 1)  # noqa: LOG001  (aiohttp would log all that is no HTTP)


class RewardServer:
    """Rewards over HTTP while it is entered: `async with RewardServer("gpt-oss-120b", bank=bank) as server: …`.

    `judge`, `limits` and `base_url` are those of an `Engine`. UsageError where the address is taken, or the judge
    cannot judge with this bank. `say` hears, in a line each, what a person should know.
    """

    def __init__(
        self,
        judge: str,
        *,
        settings: ServerSettings | None = None,
        limits: JudgeLimits | None = None,
        base_url: str = "",
        bank: RubricBank | None = None,
        say: Callable[[str], None] = to_standard_error,
    ) -> None:
        self.settings = settings or ServerSettings()
        self.tally = Tally()
        exporter = _exporter()
        self.referee = Referee(
            judge,
            limits or JudgeLimits(),
            tally=self.tally,
            base_url=base_url,
            bank=bank,
            order=self.settings.order,
            top_k=self.settings.top_k,
            observers=() if exporter is None else (exporter,),
            say=say,
        )
        self.rewarder = Rewarder(self.settings, self.referee, self.tally)
        metrics = None if exporter is None else ServerMetrics(self.tally, self.rewarder.pool, exporter)
        self.app = ServerApp(self.rewarder, metrics)
        self.app.say = say
        self.port = self.settings.port
        self._runner: web.AppRunner | None = None
        self._listener: asyncio.Server | None = None

    @property
    def url(self) -> str:
        """The address, without a slash at its end."""
        host = f"[{self.settings.host}]" if ":" in self.settings.host else self.settings.host
        return f"http://{host}:{self.port}"

    async def __aenter__(self) -> Self:
        await self.referee.open()
        try:
            await self._listen()
        except BaseException:
            await self.close(0.0)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close(self.settings.drain_s if kind is None else 0.0)

    async def close(self, limit_s: float) -> None:
        """Accept nothing more, let what is under way end for so long, then end it, and close the judge."""
        self.app.draining = True
        if self._listener is not None:
            self._listener.close()
            self._listener = None
            self.rewarder.pool.close_gates()
            await self._idle(limit_s)
        await self.rewarder.end()
        if self._runner is not None:
            await self._idle(LAST_WORDS_S)
            await self._runner.cleanup()
            self._runner = None
        await self.referee.close()

    async def _idle(self, limit_s: float) -> None:
        """Wait until every request is answered, for so long at most."""
        with suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                await self.app.idle.wait()

    async def _listen(self) -> None:
        settings = self.settings
        most = settings.max_requests + SPARE_CONNECTIONS
        room = descriptors_for(2 * most)
        gate = Gate(settings.read_s, most if room is None else min(most, room // 2))
        self.app.heard = gate.heard
        self._runner = web.AppRunner(
            self.app.build(),
            access_log=None,
            logger=UNHEARD,
            handler_cancellation=True,
            shutdown_timeout=LAST_WORDS_S,
            keepalive_timeout=KEEPALIVE_S,
            lingering_time=LINGER_S,
        )
        await self._runner.setup()
        assert self._runner.server is not None
        try:
            self._listener = await asyncio.get_running_loop().create_server(
                gate.over(self._runner.server), settings.host, settings.port, backlog=BACKLOG, reuse_address=True
            )
        except OSError as error:
            what = f"cannot listen on {settings.host}:{settings.port}: {system_words(error)}"
            raise UsageError(what, hint="choose another port with --listen") from error
        self.port = self._listener.sockets[0].getsockname()[1]


def _exporter() -> PrometheusMetrics | None:
    """Return an observer of engines for /metrics, None where prometheus-client is not installed."""
    try:
        return PrometheusMetrics()
    except UsageError:
        return None
