"""A stand-in for Ray in this process: actors are objects on the running event loop, and nodes can be lost."""

from __future__ import annotations

import asyncio
import pickle
import sys
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

NODES = ("n1", "n2")


class RayActorError(Exception):
    """An actor is gone."""


class Actor:
    """A handle: `actor.method.remote(…)` is awaitable. Arguments and results are copied, as between processes."""

    def __init__(self, kind: type, node: str, target: Any) -> None:
        self.node, self.dead = node, False
        self.posts = 0
        self.on_posts: Callable[[], None] = lambda: None
        self.made = kind(copied(target))
        self._calls: set[asyncio.Task[Any]] = set()

    def __getattr__(self, name: str) -> Any:
        return SimpleNamespace(remote=lambda *args: self._start(name, copied(args)))

    def _start(self, name: str, args: Any) -> asyncio.Future[Any]:
        if name == "submit":
            self.posts += len(args[0])
            asyncio.get_running_loop().call_soon(self.on_posts)
        call = asyncio.get_running_loop().create_task(self._call(name, args))
        self._calls.add(call)
        call.add_done_callback(lambda done: done.cancelled() or done.exception())
        return call

    async def _call(self, name: str, args: Any) -> Any:
        if self.dead:
            raise RayActorError("the actor died")
        try:
            return copied(await getattr(self.made, name)(*args))
        except asyncio.CancelledError:
            raise RayActorError("the actor died") from None

    def kill(self) -> None:
        """End it: what it is sending is lost."""
        if not self.dead:
            self.dead = True
            for task in (*self.made._tasks, *self._calls):
                task.cancel()
            self._closing = asyncio.get_running_loop().create_task(self.made._transport.close())


def copied(value: Any) -> Any:
    """Return a copy that went through pickle."""
    return pickle.loads(pickle.dumps(value))


class FakeRay:
    """A cluster of `NODES`. `actors` are all that were started, in order; `on_start` sees each of them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.alive = dict.fromkeys(NODES, True)
        self.actors: list[Actor] = []
        self.dies_after: dict[str, int] = {}  # nodes that are lost with this many requests
        self.on_start: Callable[[Actor], None] = lambda _: None
        self.addresses: list[str] = []
        ray, places = ModuleType("ray"), ModuleType("ray.util.scheduling_strategies")
        names: dict[str, Any] = {
            "init": lambda address, **_: self.addresses.append(address),
            "is_initialized": lambda: False,
            "nodes": lambda: [{"NodeID": n, "NodeManagerHostname": n, "Alive": on} for n, on in self.alive.items()],
            "kill": lambda actor: actor.kill(),
            "remote": self._remote,
            "__spec__": SimpleNamespace(name="ray"),
        }
        vars(ray).update(names)
        vars(places)["NodeAffinitySchedulingStrategy"] = lambda node, soft: node
        for name, module in (("ray", ray), ("ray.util", ModuleType("ray.util")), (places.__name__, places)):
            monkeypatch.setitem(sys.modules, name, module)

    def _remote(self, kind: type) -> Any:
        def start(node: str, target: Any) -> Actor:
            if not self.alive[node]:
                raise RayActorError("the node is gone")
            actor = Actor(kind, node, target)
            self.actors.append(actor)
            actor.on_posts = lambda: self._note_posts(actor)
            self.on_start(actor)
            return actor

        def options(*, num_cpus: int, scheduling_strategy: str) -> Any:
            assert num_cpus == 0
            return SimpleNamespace(remote=lambda target: start(scheduling_strategy, target))

        return SimpleNamespace(options=options)

    def _note_posts(self, actor: Actor) -> None:
        if actor.posts >= self.dies_after.get(actor.node, actor.posts + 1):
            self.alive[actor.node] = False
            actor.kill()
