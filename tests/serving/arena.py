"""A server over a simulated judge, both on the test's own event loop and over loopback, and a client of it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
from endpoint import SimConfig, SimServer
from rig import pairs, write_bank

from svr_async import Engine, arank
from svr_async.judges.limits import JudgeLimits
from svr_async.scoring.bank import RubricBank
from svr_async.serving.server.app import RewardServer
from svr_async.serving.server.settings import ServerSettings

PAIRS = pairs(8)
PROMPT = PAIRS[0].prompt[0].content
TEXTS = [text for pair in PAIRS for text in (pair.chosen, pair.rejected)]
KEYS = {"svr_score", "svr_fallback", "svr_coverage", "svr_members"}
FACTS = KEYS | {"svr_reason", "svr_judge"}


@dataclass(slots=True)
class Arena:
    """A server that listens, the endpoint behind it, and a client of it."""

    server: RewardServer
    sim: SimServer
    client: aiohttp.ClientSession
    cache: Path
    said: list[str] = field(default_factory=list)

    async def post(self, path: str, body: Any, **settings: Any) -> tuple[int, Any]:
        """Return status and JSON of a reply."""
        async with self.client.post(self.server.url + path, json=body, **settings) as reply:
            return reply.status, await reply.json()

    async def answer(self, path: str, body: Any) -> Any:
        """Return the JSON of a reply that is an answer."""
        status, value = await self.post(path, body)
        assert status == 200, value
        return value

    async def get(self, path: str) -> tuple[int, str]:
        """Return status and text of a page."""
        async with self.client.get(self.server.url + path) as reply:
            return reply.status, await reply.text()

    async def member(self, place: int, size: int, **more: Any) -> Any:
        """Return the reply to one member of a group."""
        body = {"prompt": PROMPT, "response": TEXTS[place], "group": "g", "member": place, "group_size": size}
        return await self.answer("/reward?key=reward", body | more)

    async def members(self, places: Sequence[int], size: int, **more: Any) -> list[Any]:
        """Return the replies to members of a group that ask at once."""
        return list(await asyncio.gather(*(self.member(place, size, **more) for place in places)))

    async def ranked(self, texts: Sequence[str], **how: Any) -> list[float | None]:
        """Return the scores that the library gives, from the replies that the server has paid for."""
        async with Engine(self.judge, cache=self.cache) as engine:
            found = await arank(PROMPT, texts, bank=self.server.judge.bank, engine=engine, **how)
        return list(found.scores)

    @property
    def judge(self) -> str:
        """The judge behind the server."""
        return f"{self.sim.base_url}#gpt-oss-120b"


@contextlib.asynccontextmanager
async def arena(
    folder: Path,
    config: SimConfig | None = None,
    *,
    bank: bool = True,
    judge: str = "",
    limits: Mapping[str, Any] | None = None,
    **settings: Any,
) -> AsyncIterator[Arena]:
    """Open a server with these settings over an endpoint of this config."""
    held: RubricBank | None = RubricBank.load(write_bank(folder / "bank")) if bank else None
    cache, said = folder / "cache", list[str]()
    usual: dict[str, Any] = {"port": 0, "deadline_s": 20.0, "drain_s": 5.0}
    async with SimServer(config) as sim, aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as client:
        server = RewardServer(
            judge or f"{sim.base_url}#gpt-oss-120b",
            settings=ServerSettings(**(usual | settings)),
            limits=JudgeLimits(cache=cache, **(limits or {})),
            bank=held,
            say=said.append,
        )
        async with server:
            yield Arena(server, sim, client, cache, said)


def rollout(place: int, **more: Any) -> dict[str, Any]:
    """Return the body of one rollout as NeMo Gym's agents send it."""
    return {
        "responses_create_params": {"input": [{"role": "user", "content": PROMPT}]},
        "response": output(TEXTS[place]),
        "_ng_task_index": 3,
        "_ng_rollout_index": place,
        **more,
    }


def output(text: str) -> dict[str, Any]:
    """Return a response in the shape of the Responses API, with its reasoning ahead of it."""
    said = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}
    return {"id": "r", "output": [{"type": "reasoning", "summary": []}, said]}
