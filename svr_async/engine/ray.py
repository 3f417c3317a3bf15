"""Ray as a transport: this process decides everything, and one actor on each node of a cluster sends the requests.

Cache, limits, budget, retries and results stay in this process, the driver. Requests travel to the actors in batches,
and replies travel back as they complete. So a lost actor costs a retry of the requests that it was sending.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import logging
import os
import re
import secrets
import sys
from collections import Counter, deque
from dataclasses import dataclass, field, replace
from typing import Any, cast

from svr_async.engine.classify import Failure, Kind
from svr_async.engine.concurrency import descriptors_for
from svr_async.engine.http import NO_EXTRAS, Extras, HttpTransport
from svr_async.engine.request import Request
from svr_async.engine.secrets import Secret
from svr_async.engine.transport import CallFailedError, RawReply
from svr_async.engine.wires import Wire, find_wire
from svr_async.engine.wires.openai import WIRE as OPENAI
from svr_async.errors import UsageError
from svr_async.version import __version__

AUTO, LOCAL = "auto", "local"
SMALLEST_BATCH, LARGEST_BATCH = 8, 32
GATHER_S = 0.002  # how long requests, or replies, are gathered into one message
BEAT_S = 10.0  # an actor without replies answers this often
SILENT_S = 60.0  # an actor that does not answer for this long is lost
START_S = 120.0  # for an actor to start
LOOK_S = 30.0  # between two looks for new nodes
REST_S = 30.0  # a node that cannot reach the endpoint is avoided for this long
STARTS_PER_NODE = 3
MOST_DESCRIPTORS = 16_384  # that an actor asks of its system
_ADDRESS = re.compile(r"(?:\[[0-9a-fA-F:.]+\]|[\w.-]+):\d{1,5}")
_LOOPBACK = re.compile(r"(?:127\.0\.0\.1|localhost|\[::1\]):\d+")


def check_ray(address: str) -> None:
    """Raise UsageError if Ray is not installed or the address is not valid; nothing is loaded or connected."""
    if importlib.util.find_spec("ray") is None:
        raise UsageError("--ray needs Ray, which is not installed", hint="pip install 'svr-async[ray]'")
    if address not in (AUTO, LOCAL) and not _ADDRESS.fullmatch(address):
        hint = "write HOST:PORT, auto for the cluster of this machine, or local to start one here"
        raise UsageError(f"--ray {address[:80]!r} is not an address", hint=hint)


# --- on a node --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The endpoint and how to send to it: what an actor is created with. It holds keys and is never written to disk."""

    base_url: str
    key: str = field(repr=False)
    timeout_s: float
    wire: str
    extras: Extras = field(repr=False)
    secrets: tuple[str, ...] = field(repr=False)  # those of `extras`: a Secret is never serialised

    def transport(self) -> HttpTransport:
        """Return the HTTP client for it."""
        extras = replace(self.extras, secrets=tuple(map(Secret, self.secrets)))
        wire = find_wire(self.wire)
        return HttpTransport(self.base_url, Secret(self.key), timeout_s=self.timeout_s, wire=wire, extras=extras)


@dataclass(frozen=True, slots=True)
class Post:
    """The part of a request that the HTTP client needs; `number` identifies its reply."""

    number: int
    body_bytes: bytes
    no_cache: bool


class Sender:
    """The actor on a node. `submit` starts requests, `collect` returns the results since its last call."""

    def __init__(self, target: Target) -> None:
        descriptors_for(MOST_DESCRIPTORS)
        self._transport = target.transport()
        self._tasks: set[asyncio.Task[None]] = set()
        self._results: list[tuple[int, RawReply | Failure]] = []
        self._some = asyncio.Event()

    async def hello(self) -> str:
        """Return the version of the package on this node."""
        return __version__

    async def submit(self, posts: list[Post]) -> None:
        """Start sending."""
        for post in posts:
            task = asyncio.create_task(self._send(post))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def collect(self) -> list[tuple[int, RawReply | Failure]]:
        """Wait for results and return them; an empty list after a while without any."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(BEAT_S):
                await self._some.wait()
                await asyncio.sleep(GATHER_S)
        self._some.clear()
        results, self._results = self._results, []
        return results

    async def _send(self, post: Post) -> None:
        try:
            raw = await self._transport.send(cast("Request", post))
            headers = {name.lower(): value for name, value in raw.headers.items()}
            result: RawReply | Failure = RawReply(status=raw.status, headers=headers, body=bytes(raw.body))
        except CallFailedError as error:
            result = error.failure
        except Exception as error:  # noqa: BLE001  (an actor reports its errors, the driver decides)
            result = Failure(kind=Kind.RUN, detail=f"a Ray node could not send: {type(error).__name__}: {error}")
        self._results.append((post.number, result))
        self._some.set()


# --- in the driver ----------------------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class _Node:
    """A node with an actor. `in_flight` are the requests that it is sending, by number."""

    id: str
    name: str
    actor: Any = None
    ready: bool = False
    rests_until: float = 0.0
    in_flight: dict[int, tuple[Post, asyncio.Future[RawReply]]] = field(default_factory=dict)


class RayTransport:
    """Send to one endpoint from all nodes of a Ray cluster.

    A base URL on 127.0.0.1 is that of each node's own model server. The node that is sending the fewest requests gets
    the next ones. A lost node's requests fail as transient, and its actor is started again up to three times. The
    connection to the cluster lasts until the process ends.
    """

    def __init__(
        self,
        address: str,
        base_url: str,
        key: Secret,
        *,
        timeout_s: float = 600.0,
        wire: Wire = OPENAI,
        extras: Extras = NO_EXTRAS,
    ) -> None:
        check_ray(address)
        self._address = address
        self._target = Target(
            base_url=base_url,
            key=key.reveal(),
            timeout_s=timeout_s,
            wire=wire.name,
            extras=replace(extras, secrets=()),
            secrets=tuple(secret.reveal() for secret in extras.secrets),
        )
        self._nodes: dict[str, _Node] = {}
        self._starts = Counter[str]()
        self._waiting: deque[tuple[Post, asyncio.Future[RawReply]]] = deque()
        self._sent = 0
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()
        self._problem = "it has no nodes"
        self._final: Failure | None = None

    async def send(self, request: Request) -> RawReply:
        """Send from some node and return the reply; CallFailedError without a reply."""
        if self._final is not None:
            raise CallFailedError(self._final)
        if not self._tasks:
            self._spawn(self._look_after_nodes())
        loop = asyncio.get_running_loop()
        self._sent += 1
        post = Post(self._sent, request.body_bytes, request.no_cache)
        future: asyncio.Future[RawReply] = loop.create_future()
        self._waiting.append((post, future))
        if self._timer is None:
            self._timer = loop.call_later(GATHER_S, self._flush)
        return await future

    async def close(self) -> None:
        """End the actors."""
        tasks, self._tasks = self._tasks, set()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for node in self._nodes.values():
            _kill(node.actor)
        self._nodes.clear()

    def _spawn(self, work: Any) -> None:
        task: asyncio.Task[None] = asyncio.create_task(work)
        self._tasks.add(task)

    def _flush(self) -> None:
        """Hand the waiting requests to nodes; they wait on while no node is ready."""
        self._timer = None
        now = asyncio.get_running_loop().time()
        ready = [node for node in self._nodes.values() if node.ready]
        usable = [node for node in ready if node.rests_until <= now] or ready
        while self._waiting and usable:
            size = min(LARGEST_BATCH, max(SMALLEST_BATCH, -(-len(self._waiting) // len(usable))))
            taken = [self._waiting.popleft() for _ in range(min(size, len(self._waiting)))]
            node = min(usable, key=lambda one: len(one.in_flight))
            wanted = [(post, future) for post, future in taken if not future.done()]  # some may be cancelled by now
            node.in_flight |= {post.number: (post, future) for post, future in wanted}
            node.actor.submit.remote([post for post, _ in wanted])

    async def _look_after_nodes(self) -> None:
        """Connect, then start an actor on each node without one, now and whenever a node is lost or joins."""
        try:
            await asyncio.to_thread(connect, self._address)
            while True:
                for node_id, name in (await asyncio.to_thread(_living_nodes)).items():
                    if node_id not in self._nodes and self._starts[node_id] < STARTS_PER_NODE:
                        self._starts[node_id] += 1
                        node = self._nodes[node_id] = _Node(node_id, name)
                        self._spawn(self._work_with(node))
                if not self._nodes:
                    self._give_up(f"no node of the Ray cluster can send: {self._problem}")
                    return
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_S):
                        await self._changed.wait()
                self._changed.clear()
        except Exception as error:  # noqa: BLE001  (Ray raises errors of many kinds)
            self._give_up(f"the Ray cluster {self._address} cannot be used: {_first_line(error)}")

    async def _work_with(self, node: _Node) -> None:
        """Start the actor of a node and take its results until it is lost."""
        try:
            node.actor = _actor_on(node.id, self._target)
            async with asyncio.timeout(START_S):
                version = await node.actor.hello.remote()
            if version != __version__:
                self._starts[node.id] = STARTS_PER_NODE
                raise RuntimeError(f"svr-async is {version} there and {__version__} here")  # noqa: TRY301
            node.ready = True
            self._flush()
            while True:
                async with asyncio.timeout(SILENT_S):
                    results = await node.actor.collect.remote()
                for number, result in results:
                    self._settle(node, number, result)
        except Exception as error:  # noqa: BLE001  (Ray raises errors of many kinds)
            self._lose(node, error)

    def _settle(self, node: _Node, number: int, result: RawReply | Failure) -> None:
        post, future = node.in_flight.pop(number)
        if isinstance(result, RawReply):
            node.rests_until = 0.0
            if not future.done():
                future.set_result(result)
            return
        now = asyncio.get_running_loop().time()
        if result.kind is Kind.TRANSIENT and result.status == 0 and not result.billed:  # not connected
            node.rests_until = now + REST_S
            if any(other.ready and other.rests_until <= now for other in self._nodes.values()):
                self._waiting.append((post, future))
                self._flush()
                return
        if not future.done():
            future.set_exception(CallFailedError(result))

    def _lose(self, node: _Node, error: Exception) -> None:
        """Give up an actor; the engine repeats its requests."""
        self._problem = f"{node.name}: {_first_line(error)}"
        del self._nodes[node.id]
        _kill(node.actor)
        failure = Failure(
            kind=Kind.TRANSIENT,
            detail=f"the Ray node {node.name} was lost",
            billed=True,
            signature="lost node",
        )
        for _, future in node.in_flight.values():
            if not future.done():
                future.set_exception(CallFailedError(failure))
        self._changed.set()

    def _give_up(self, detail: str) -> None:
        """Fail all requests, those to come too: this ends the run."""
        self._final = Failure(kind=Kind.RUN, detail=detail, hint="ray status shows the cluster; check --ray")
        while self._waiting:
            _, future = self._waiting.popleft()
            if not future.done():
                future.set_exception(CallFailedError(self._final))


# --- Ray itself -------------------------------------------------------------------------------------------------------


def connect(address: str) -> None:
    """Connect this process to a cluster, unless it is connected already; `local` starts one here, on loopback only."""
    variables = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_USAGE_STATS_PROMPT_ENABLED": "0"}
    if address == LOCAL and "RAY_AUTH_MODE" not in os.environ and "ray" not in sys.modules:  # read at import
        variables |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    if address == LOCAL or _LOOPBACK.fullmatch(address):
        variables |= {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}  # or Ray takes 127.0.0.1 for the machine's address
    for name, value in variables.items():
        os.environ.setdefault(name, value)
    import ray

    if ray.is_initialized():
        return
    logging.getLogger("ray").setLevel(logging.ERROR)
    settings: dict[str, Any] = {"log_to_driver": False, "configure_logging": False}
    if address == LOCAL:
        settings |= {"include_dashboard": False, "num_cpus": 1, "_node_ip_address": "127.0.0.1"}
    ray.init(address=address, **settings)


def _living_nodes() -> dict[str, str]:
    """Return the nodes of the cluster: id and host name."""
    import ray

    return {node["NodeID"]: node["NodeManagerHostname"] for node in ray.nodes() if node["Alive"]}


def _actor_on(node: str, target: Target) -> Any:
    """Start an actor on a node; for Ray it uses 0 CPUs."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    where = NodeAffinitySchedulingStrategy(node, soft=False)
    return ray.remote(Sender).options(num_cpus=0, scheduling_strategy=where).remote(target)


def _kill(actor: Any) -> None:
    """End an actor, if it still runs."""
    import ray

    with contextlib.suppress(Exception):
        if actor is not None:
            ray.kill(actor)


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0][:200]
