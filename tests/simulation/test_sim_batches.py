"""Files and batches of the simulated endpoint; the engine's and the commands' tests reach them over HTTP."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
import sim_requests as ask

from svr_async.simulation.config import SimConfig
from svr_async.simulation.server import SimServer
from svr_async.simulation.simulator import Simulator
from svr_async.simulation.wire import ApiError
from svr_async.simulation.world import World

BODIES = [ask.of_pair(World(), item) for item in World().pairs(30, "batches")]
REQUESTS = b"".join(orjson.dumps({"custom_id": f"r{n}", "body": body}) + b"\n" for n, body in enumerate(BODIES))


def created(sim: SimServer) -> str:
    """Create a batch of all requests; return its id."""
    name = sim.batches.create({"input_file_id": sim.batches.add_file(REQUESTS), "metadata": {"a": "b"}})["id"]
    assert isinstance(name, str)
    return name


def rows(sim: SimServer, batch: dict[str, Any], key: str) -> list[dict[str, Any]]:
    """Return the lines of an output or error file, empty without a file."""
    return [orjson.loads(row) for row in sim.batches.files[batch[key]].splitlines()] if batch[key] else []


def test_a_batch_gives_the_replies_of_live_calls() -> None:
    """Every line's body is what the same request gets live, in another order; all are recorded, and paid."""
    sim = SimServer()
    batch = sim.batches.look(created(sim))
    assert (batch["status"], batch["metadata"], batch["error_file_id"]) == ("completed", {"a": "b"}, None)
    assert batch["request_counts"] == {"total": 30, "completed": 30, "failed": 0}
    output = rows(sim, batch, "output_file_id")
    names = [row["custom_id"] for row in output]
    assert sorted(names) == sorted(f"r{number}" for number in range(30)) != names
    live = {f"r{number}": Simulator().answer(body) for number, body in enumerate(BODIES)}
    assert {row["custom_id"]: row["response"]["body"] for row in output} == live
    assert (sim.stats()["calls"], sim.stats()["paid"], sim.stats()["completed"]) == (30, 30, 30)


def test_an_expired_batch_keeps_what_was_answered() -> None:
    """Later lines are in the error file with the documented code and not paid; a file that is missing is a 404."""
    sim = SimServer()
    sim.batches.window = 12
    batch = sim.batches.look(created(sim))
    errors = rows(sim, batch, "error_file_id")
    assert (batch["status"], sim.stats()["paid"]) == ("expired", 12)
    assert (len(rows(sim, batch, "output_file_id")), len(errors)) == (12, 18)
    assert {(row["error"]["code"], row["response"]) for row in errors} == {("batch_expired", None)}
    with pytest.raises(ApiError, match="No such object: missing"):
        sim.batches.create({"input_file_id": "missing"})


def test_faulty_lines_are_in_the_error_file() -> None:
    """Under faults each line ends in one of the files, with the status and error of the same fault over HTTP."""
    sim = SimServer(SimConfig(fault_rate=0.7, faults=("429", "500", "cut", "hang", "too-long")))
    batch = sim.batches.look(created(sim))
    output, errors = rows(sim, batch, "output_file_id"), rows(sim, batch, "error_file_id")
    assert len(output) + len(errors) == 30
    assert len(errors) > 8
    assert all(row["error"] or row["response"]["body"]["error"] for row in errors)
    assert sum(sim.stats()["faults"].values()) == len(errors)
