"""A stand-in for Ray in this process: an actor is an object on an event loop in a thread, and may be killed any time.

It has what `evaluation/running/cluster/` uses, so that the way of a run on a cluster is tested where Ray is not
installed; `test_ray.py` goes it on a real cluster.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import Future
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest


class RayError(Exception):
    """What Ray's own errors are of."""


class RayActorError(RayError):
    """An actor is gone."""


class Actor:
    """A handle: `actor.method.remote(…)` is to be awaited."""

    def __init__(self, kind: type, job: bytes) -> None:
        self.dead = False
        self._under_way: set[Future[Any]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.made: Any = asyncio.run_coroutine_threadsafe(self._make(kind, job), self._loop).result(20)

    async def _make(self, kind: type, job: bytes) -> Any:
        return kind(job)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return SimpleNamespace(remote=lambda *args: self._call(name, *args))

    def _call(self, name: str, *args: Any) -> asyncio.Future[Any]:
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        answer.add_done_callback(lambda done: done.cancelled() or done.exception())
        if self.dead:
            answer.set_exception(RayActorError("the actor is dead"))
            return answer
        loop = answer.get_loop()
        work = asyncio.run_coroutine_threadsafe(getattr(self.made, name)(*args), self._loop)
        self._under_way.add(work)
        work.add_done_callback(lambda done: loop.call_soon_threadsafe(_settle, answer, done))
        return answer

    def kill(self) -> None:
        """End it where it is: what is under way is lost, what is committed stays."""
        if not self.dead:
            self.dead = True
            asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(20)
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(20)
            self._loop.close()

    async def _end(self) -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        bench = getattr(self.made, "_bench", None)
        if bench is not None:  # the kernel closes files and connections of a process that is killed
            with contextlib.suppress(Exception):
                await bench.close()


def _settle(answer: asyncio.Future[Any], done: Future[Any]) -> None:
    if answer.done():
        return
    error = RayActorError("the actor died") if done.cancelled() else done.exception()
    if error is None:
        answer.set_result(done.result())
    else:
        answer.set_exception(error)


class MadeRay:
    """A cluster of the nodes that are alive; `actors` are all that were started, by name, `began` is told of each."""

    def __init__(self) -> None:
        self.alive = {"n1": True}
        self.actors: dict[str, Actor] = {}
        self.began: Callable[[str, Actor], None] = lambda _name, _actor: None

    def named(self, kind: str) -> list[Actor]:
        """Return the living actors of a kind, by their names."""
        return [actor for name, actor in sorted(self.actors.items()) if f"-{kind}-" in name and not actor.dead]

    def start(self, kind: type, name: str, node: str, job: bytes) -> Actor:
        """Start an actor; RayActorError on a node that is gone."""
        if not self.alive[node]:
            raise RayActorError("its node is gone")
        actor = self.actors[name] = Actor(kind, job)
        self.began(name, actor)
        return actor

    def shutdown(self) -> None:
        """End all."""
        for actor in self.actors.values():
            actor.kill()

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Stand in the place of Ray's modules."""
        ray, exceptions, places = ModuleType("ray"), ModuleType("ray.exceptions"), ModuleType("ray.util.places")

        def options(kind: type, name: str, node: str) -> Any:
            return SimpleNamespace(remote=lambda job: self.start(kind, name, node, job))

        def nodes() -> list[dict[str, Any]]:
            return [{"NodeManagerHostname": "here", "NodeID": node, "Alive": on} for node, on in self.alive.items()]

        names: dict[str, Any] = {
            "init": lambda **_: None,
            "is_initialized": lambda: False,
            "nodes": nodes,
            "kill": lambda actor: actor.kill(),
            "shutdown": self.shutdown,
            "get_runtime_context": lambda: SimpleNamespace(get_node_id=lambda: "n1"),
            "remote": lambda kind: SimpleNamespace(
                options=lambda *, name, scheduling_strategy, **_: options(kind, name, scheduling_strategy)
            ),
            "__spec__": SimpleNamespace(name="ray"),
        }
        vars(ray).update(names)
        vars(exceptions).update(RayError=RayError, RayActorError=RayActorError)
        vars(places).update(NodeAffinitySchedulingStrategy=lambda node, soft: node)
        found = {"ray": ray, "ray.exceptions": exceptions, "ray.util": ModuleType("ray.util")}
        for name, module in (found | {"ray.util.scheduling_strategies": places}).items():
            monkeypatch.setitem(__import__("sys").modules, name, module)
