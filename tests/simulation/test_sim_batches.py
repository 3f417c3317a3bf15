"""The simulated endpoint's files and batches over real HTTP, as OpenAI's Batch API documents them."""

from __future__ import annotations

from typing import Any

import aiohttp
import orjson
import sim_requests as ask

from svr_async.simulation.config import SimConfig
from svr_async.simulation.server import SimServer
from svr_async.simulation.world import World

WORLD = World()
BODIES = [ask.of_pair(WORLD, item) for item in WORLD.pairs(30, "batches")]
ENDED = {"completed", "failed", "expired", "cancelled"}


def line(custom_id: str, body: Any, **changed: Any) -> dict[str, Any]:
    """Return one request of a batch."""
    return {"custom_id": custom_id, "method": "POST", "url": "/v1/chat/completions", "body": body} | changed


def jsonl(rows: list[Any]) -> bytes:
    """Return rows as lines."""
    return b"".join(orjson.dumps(row) + b"\n" for row in rows)


REQUESTS = jsonl([line(f"r{number}", body) for number, body in enumerate(BODIES)])


class Client:
    """The calls of a client, as bare HTTP."""

    def __init__(self, sim: SimServer, session: aiohttp.ClientSession) -> None:
        self.sim = sim
        self.session = session

    async def call(self, method: str, path: str, **more: Any) -> tuple[int, Any]:
        """Return status and JSON."""
        async with self.session.request(method, f"{self.sim.base_url}{path}", **more) as response:
            return response.status, orjson.loads(await response.read())

    async def upload(self, data: bytes, purpose: str = "batch") -> tuple[int, Any]:
        """Upload a file as a form."""
        form = aiohttp.FormData()
        form.add_field("purpose", purpose)
        form.add_field("file", data, filename="in.jsonl")
        return await self.call("POST", "/files", data=form)

    async def create(self, data: bytes = REQUESTS, **changed: Any) -> tuple[int, Any]:
        """Upload a file and ask for its batch."""
        _, file = await self.upload(data)
        asked = {"input_file_id": file["id"], "endpoint": "/v1/chat/completions", "completion_window": "24h"}
        return await self.call("POST", "/batches", json=asked | changed)

    async def ended(self, batch_id: str) -> Any:
        """Wait until a batch has ended; return it."""
        await ask.settle(self.sim, lambda sim: sim.batches.batches[batch_id].status in ENDED)
        return (await self.call("GET", f"/batches/{batch_id}"))[1]

    async def rows(self, file_id: str | None) -> list[dict[str, Any]]:
        """Return the lines of a file at the endpoint."""
        if file_id is None:
            return []
        async with self.session.get(f"{self.sim.base_url}/files/{file_id}/content") as response:
            return [orjson.loads(row) for row in (await response.read()).splitlines()]


async def outcome(sim: SimServer, data: bytes = REQUESTS) -> tuple[Any, list[dict[str, Any]], list[dict[str, Any]]]:
    """Run a batch to its end; return it with the rows of its output and of its errors."""
    async with aiohttp.ClientSession() as session:
        client = Client(sim, session)
        _, begun = await client.create(data)
        batch = await client.ended(begun["id"])
        return batch, await client.rows(batch["output_file_id"]), await client.rows(batch["error_file_id"])


async def test_a_batch_gives_the_replies_of_live_calls() -> None:
    """Every line's body is what the same request gets live, in another order; all are in the history, and paid."""
    async with SimServer() as sim:
        batch, rows, errors = await outcome(sim)
        stats = sim.stats()
    async with SimServer() as live, aiohttp.ClientSession() as session:
        client = Client(live, session)
        answers = [(await client.call("POST", "/chat/completions", json=body))[1] for body in BODIES]
    assert (batch["status"], errors) == ("completed", [])
    assert batch["request_counts"] == {"total": 30, "completed": 30, "failed": 0}
    names = [row["custom_id"] for row in rows]
    assert sorted(names) == sorted(f"r{number}" for number in range(30)) != names
    assert {row["custom_id"]: row["response"]["body"] for row in rows} == {
        f"r{number}": answer for number, answer in enumerate(answers)
    }
    assert {row["response"]["status_code"] for row in rows} == {200}
    assert (stats["calls"], stats["paid"], stats["completed"]) == (30, 30, 30)


async def test_a_batch_goes_through_its_states_and_can_be_cancelled() -> None:
    """A held batch is in progress; cancelling ends it with what was not answered in the error file; never twice."""
    async with SimServer() as sim, aiohttp.ClientSession() as session:
        sim.batches.held = True
        client = Client(sim, session)
        _, begun = await client.create()
        await ask.settle(sim, lambda sim: sim.batches.batches[begun["id"]].status == "in_progress")
        status, cancelled = await client.call("POST", f"/batches/{begun['id']}/cancel")
        assert (status, cancelled["status"]) == (200, "cancelling")
        batch = await client.ended(begun["id"])
        rows = await client.rows(batch["error_file_id"])
        again, _ = await client.call("POST", f"/batches/{begun['id']}/cancel")
    assert (batch["status"], batch["output_file_id"], again) == ("cancelled", None, 409)
    assert {row["error"]["code"] for row in rows} == {"batch_cancelled"}
    assert sim.stats()["paid"] == 0


async def test_an_expired_batch_keeps_what_was_answered() -> None:
    """Lines that the window cut off are in the error file with the documented code; the others are paid and there."""
    async with SimServer() as sim:
        sim.batches.answered = 12
        batch, rows, errors = await outcome(sim)
        paid = sim.stats()["paid"]
    assert batch["status"] == "expired"
    assert (len(rows), len(errors), paid) == (12, 18, 12)
    assert {row["error"]["code"] for row in errors} == {"batch_expired"}
    assert {row["response"] for row in errors} == {None}


async def test_faulty_lines_are_in_the_error_file() -> None:
    """Under faults each line ends in one of the files, with the status and error of the same fault over HTTP."""
    async with SimServer(SimConfig(fault_rate=0.7, faults=("429", "500", "cut", "hang", "too-long"))) as sim:
        batch, rows, errors = await outcome(sim)
        struck = sim.stats()["faults"]
    assert len(rows) + len(errors) == 30
    assert batch["request_counts"] == {"total": 30, "completed": len(rows), "failed": len(errors)}
    assert len(errors) > 8
    assert all(row["error"] or row["response"]["body"]["error"] for row in errors)
    assert sum(struck.values()) >= len(errors)


async def test_batches_are_listed_newest_first_in_pages() -> None:
    """The list has pages of `limit` with has_more, walked with `after`."""
    async with SimServer() as sim, aiohttp.ClientSession() as session:
        client = Client(sim, session)
        made = [(await client.create())[1]["id"] for _ in range(5)]
        _, first = await client.call("GET", "/batches?limit=3")
        _, second = await client.call("GET", f"/batches?limit=3&after={first['data'][-1]['id']}")
        wrong, _ = await client.call("GET", "/batches?after=none")
    assert [row["id"] for row in first["data"] + second["data"]] == made[::-1]
    assert (first["has_more"], second["has_more"]) == (True, False)
    assert wrong == 404
