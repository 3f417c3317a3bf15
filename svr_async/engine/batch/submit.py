"""Batch files at an endpoint: submitted once each, whatever is lost or killed on the way, and looked after."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from svr_async.engine.batch.client import BatchClient, LostAnswerError, id_in
from svr_async.engine.batch.folder import State, Submission, result_path, save_state
from svr_async.errors import EndpointDownError, RefusedError

LOOKS = 3
LOOK_EVERY_S = 2.0


async def submit(
    folder: Path, state: State, client: BatchClient, *, again: bool = False, look_every_s: float = LOOK_EVERY_S
) -> State:
    """Upload and ask for every file that has no batch yet; each step is on disk before the next one.

    A file is asked for once. Where an answer was lost the endpoint's list is searched for our mark before anything is
    asked again. With `again`, files whose batch failed as a whole with nothing done are asked for anew.
    """
    for held in state.batches:
        batch = _renewed(held) if again and held.status == "failed" and not held.done else held
        if batch.batch_id:
            continue
        if not batch.file_id:
            batch = replace(batch, file_id=await client.upload(folder / batch.file))
            state = _kept(folder, state, batch)
        state = _kept(folder, state, await _asked_once(folder, state, batch, client, look_every_s))
    return state


async def _asked_once(
    folder: Path, state: State, batch: Submission, client: BatchClient, look_every_s: float
) -> Submission:
    """Return the submission with its batch: one that is at the endpoint already, or a new one."""
    mark = _mark(state, batch)
    for _ in range(LOOKS):
        if batch.asking:
            found = await _find(client, mark, batch)
            if found is not None:
                return seen(batch, found)
        asked_before = batch.asking  # without an answer: it may be there although the list does not show it yet
        batch = replace(batch, asking=True)
        _kept(folder, state, batch)
        try:
            return seen(batch, await client.create(batch.file_id, state.window, mark))
        except RefusedError:
            _kept(folder, state, replace(batch, asking=asked_before, file_id=""))
            raise
        except LostAnswerError as error:
            problem = str(error)
        await asyncio.sleep(look_every_s)
    raise EndpointDownError(
        f"no answer when {batch.file} was submitted ({problem})",
        hint="run the same command again: it looks first whether the batch is there",
    )


async def _find(client: BatchClient, mark: Mapping[str, str], batch: Submission) -> dict[str, Any] | None:
    try:
        return await client.find(mark)
    except RefusedError as error:
        raise RefusedError(
            f"whether {batch.file} was submitted cannot be told: the endpoint lists no batches ({error.message})",
            hint="look it up there, and put its id into batch.json or take asking out of it",
        ) from error


def _mark(state: State, batch: Submission) -> dict[str, str]:
    """Return the metadata by which a batch of ours is known again: digests, nothing of any text."""
    return {"svr_export": state.digest[:32], "svr_file": batch.sha256[:32], "svr_try": str(batch.tries)}


def _renewed(batch: Submission) -> Submission:
    return Submission(file=batch.file, sha256=batch.sha256, tries=batch.tries + 1)


def _kept(folder: Path, state: State, batch: Submission) -> State:
    state = state.with_batch(batch)
    save_state(folder, state)
    return state


def seen(batch: Submission, value: Mapping[str, Any]) -> Submission:
    """Return a submission with what the endpoint says of its batch."""
    counts = value.get("request_counts")
    counts = counts if isinstance(counts, dict) else {}
    return replace(
        batch,
        batch_id=batch.batch_id or id_in(value, "a batch"),
        asking=False,
        status=str(value.get("status") or "unknown")[:40],
        done=_count(counts.get("completed")),
        failed=_count(counts.get("failed")),
        total=_count(counts.get("total")),
        created=_count(value.get("created_at")),
        seen=int(time.time()),
        output=_optional_id(value, "output_file_id"),
        errors=_optional_id(value, "error_file_id"),
        problem=_problem(value.get("errors")),
    )


async def refresh(folder: Path, state: State, client: BatchClient) -> State:
    """Ask how the batches that have not ended, or not named their files yet, are, and keep that."""
    for batch in state.batches:
        settled = batch.ended and (batch.output or batch.errors or batch.status == "failed")
        if batch.batch_id and not settled:
            state = state.with_batch(seen(batch, await client.retrieve(batch.batch_id)))
    save_state(folder, state)
    return state


async def cancel(folder: Path, state: State, client: BatchClient) -> State:
    """End the batches that have not ended; what is done of them can still be imported."""
    for batch in state.batches:
        if batch.batch_id and not batch.ended and batch.status != "cancelling":
            state = _kept(folder, state, seen(batch, await client.cancel(batch.batch_id)))
    return state


async def download(folder: Path, state: State, client: BatchClient) -> list[Path]:
    """Fetch the results and failures of batches that have ended, those that are not here yet; return the new files."""
    fresh = []
    for batch in state.batches:
        for kind, file_id in (("results", batch.output), ("errors", batch.errors)):
            target = result_path(folder, batch, kind)
            if batch.ended and file_id and not target.exists():
                await _fetch(client, file_id, target, batch.done if kind == "results" else batch.failed)
                fresh.append(target)
    return fresh


async def _fetch(client: BatchClient, file_id: str, target: Path, lines: int) -> None:
    """Fetch a file, once more where it has fewer lines than the endpoint counts (some count otherwise than they write).

    EndpointDownError, and no file, where it ends in the middle of a line: then the next look fetches it again.
    """
    for _ in range(2):
        await client.download(file_id, target)
        if _whole_lines(target) >= lines:
            return


def _whole_lines(path: Path) -> int:
    """Return how many lines a file has, blank ones left out; where the last one is cut off, remove the file."""
    found, last = 0, b"{}"
    with path.open("rb") as file:
        for line in filter(bytes.strip, file):
            found, last = found + 1, line
    if not last.endswith((b"\n", b"}")):
        path.unlink()
        raise EndpointDownError(
            f"{path.name} was cut off in line {found}", hint="run the same command again: it is fetched anew"
        )
    return found


def _optional_id(value: Mapping[str, Any], field: str) -> str:
    try:
        return id_in(value, "a file", field)
    except LostAnswerError:
        return ""


def _problem(errors: Any) -> str:
    rows = errors.get("data") if isinstance(errors, dict) else None
    first = rows[0] if isinstance(rows, list) and rows and isinstance(rows[0], dict) else {}
    return str(first.get("message") or "")[:300]


def _count(value: Any) -> int:
    return value if type(value) is int and value >= 0 else 0
