"""A simulated endpoint on an event loop whose clock jumps: minutes of traffic in milliseconds."""

from __future__ import annotations

import asyncio
import math
import random
import selectors
from collections.abc import Callable, Coroutine, Mapping
from functools import partial, wraps
from typing import Any, TypeVar

import orjson

from svr_async.engine.caller import Caller, EngineConfig
from svr_async.engine.classify import Failure, Kind
from svr_async.engine.money import Budget
from svr_async.engine.request import Request
from svr_async.engine.stats import Counters
from svr_async.engine.transport import CallFailedError, RawReply, Transport

T = TypeVar("T")
ANSWER = orjson.dumps({"choices": [{"message": {"content": "yes"}}], "usage": {"completion_tokens": 250}})


class _Jumping(selectors.SelectSelector):
    """A selector that never waits: its clock jumps instead."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0

    def select(self, timeout: float | None = None) -> list[Any]:
        """Jump to the next timer; without one nothing can happen again."""
        if timeout is None:
            raise AssertionError("a deadlock: everything waits and no timer is set")
        self.now += max(0.0, timeout)
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop on virtual time."""

    def __init__(self) -> None:
        self._jumping = _Jumping()
        super().__init__(self._jumping)
        self._clock_resolution = 1e-6

    def time(self) -> float:
        """Seconds of virtual time."""
        return self._jumping.now


def run_virtual(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine in virtual time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main())


def in_virtual_time(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run an async test in virtual time."""

    @wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        run_virtual(partial(test, *args, **kwargs))

    return run


def now() -> float:
    """Virtual seconds."""
    return asyncio.get_running_loop().time()


class Endpoint:
    """An endpoint in virtual time; its limits may be changed while it serves.

    It admits `rate` calls a second, `burst` at once; others get a 429 with the headers of `headers`. It serves at most
    `seats` calls at a time; others get the status `crowded`. While `down` it refuses connections.
    """

    def __init__(
        self,
        *,
        latency_s: float = 0.2,
        sigma: float = 0.3,
        rate: float | None = None,
        burst: float = 1.0,
        headers: Callable[[Endpoint, float], dict[str, str]] = lambda _, __: {},
        seats: int | None = None,
        crowded: int = 503,
        seed: int = 0,
    ) -> None:
        self.latency_s, self.sigma, self.rate, self.burst, self.headers = latency_s, sigma, rate, burst, headers
        self.seats, self.crowded, self.down = seats, crowded, False
        self.busy = self.served = self.refused = self.peak = self.calls = 0
        self.level, self._at = burst, 0.0
        self._random = random.Random(seed)
        self.fault: Callable[[Request], RawReply | Exception | None] = lambda _: None

    async def send(self, request: Request) -> RawReply:
        """Answer one call."""
        await asyncio.sleep(0.002 + 0.003 * self._random.random())  # the way there
        self.calls += 1
        if self.down:
            raise refused_connection()
        found = self.fault(request)
        if isinstance(found, Exception):
            raise found
        refusal = found or self._refuse()
        if refusal is not None:
            self.refused += 1
            return refusal
        return await self._serve()

    async def _serve(self) -> RawReply:
        self.busy += 1
        self.peak = max(self.peak, self.busy)
        headers = self.headers(self, 0.0)
        try:
            spread = math.exp(self._random.gauss(0.0, self.sigma) - self.sigma**2 / 2)
            await asyncio.sleep(self.latency_s * spread)
        finally:
            self.busy -= 1
        self.served += 1
        return RawReply(status=200, headers=headers, body=ANSWER)

    def _refuse(self) -> RawReply | None:
        if self.seats is not None and self.busy >= self.seats:
            return error(self.crowded)
        if self.rate is None:
            return None
        self.level = min(self.burst, self.level + (now() - self._at) * self.rate)
        self._at = now()
        if self.level < 1:
            return error(429, self.headers(self, (1 - self.level) / self.rate))
        self.level -= 1
        return None

    async def close(self) -> None:
        """Nothing to close."""


def openai_headers(endpoint: Endpoint, wait_s: float) -> dict[str, str]:
    """Return the rate-limit headers of OpenAI."""
    assert endpoint.rate is not None
    found = {
        "x-ratelimit-limit-requests": str(round(60 * endpoint.rate)),
        "x-ratelimit-remaining-requests": str(max(0, int(endpoint.level))),
        "x-ratelimit-reset-requests": f"{(endpoint.burst - endpoint.level) / endpoint.rate:.3f}s",
    }
    return found | ({"retry-after-ms": str(math.ceil(1000 * wait_s))} if wait_s else {})


def retry_after(_: Endpoint, wait_s: float) -> dict[str, str]:
    """Return Retry-After in whole seconds, as most endpoints do."""
    return {"retry-after": str(math.ceil(wait_s))} if wait_s else {}


def error(status: int, headers: dict[str, str] | None = None, *, message: str = "no") -> RawReply:
    """Return an error reply."""
    return RawReply(status=status, headers=headers or {}, body=orjson.dumps({"error": {"message": message}}))


def refused_connection() -> CallFailedError:
    """Return the failure of a call to a port where nothing listens."""
    return CallFailedError(
        Failure(kind=Kind.TRANSIENT, detail="cannot connect: refused", signature="refused", billed=False)
    )


def caller_of(
    transport: Transport | Mapping[str, Transport], asking: Callable[[], int] = lambda: 2, **config: Any
) -> Caller:
    """Return a caller on virtual time."""
    settings = EngineConfig(**{"concurrency": 64, **config})
    return Caller(
        transport,
        settings,
        Counters(),
        budget=Budget(),
        price=None,
        asking=asking,
        clock=asyncio.get_running_loop().time,
    )


def question(number: int) -> Request:
    """Return a request of about a hundred tokens."""
    return Request(endpoint="e", model="m", messages=(("user", f"{number} " + "word " * 70),), max_tokens=400)


async def ask_all(caller: Caller, count: int, *, workers: int = 200) -> list[float]:
    """Ask `count` questions from a pool of workers; return the time of each answer."""
    numbers, answered = iter(range(count)), []

    async def work() -> None:
        for number in numbers:
            await caller.call(question(number))
            answered.append(now())

    await asyncio.gather(*(work() for _ in range(workers)))
    return answered
