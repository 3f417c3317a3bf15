"""The work behind `svr batch submit`, `status` and `cancel`: an export's batches at the endpoint."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path

import click
import orjson

from svr_async.engine.batch.client import BatchClient
from svr_async.engine.batch.folder import State, Submission, alone, load_export, load_state
from svr_async.engine.batch.submit import cancel, refresh, submit
from svr_async.judges.batch_remote import begun, changed, failed_batch, refuse_other_endpoint, with_client


def run_submit(folder: Path, window: str, base_url: str, *, again: bool, as_json: bool) -> int:
    """Submit what has no batch yet and show all of them."""
    export = load_export(folder, checked=True)
    with alone(folder):
        state = begun(export, load_state(folder, export), base_url, window)
        if base_url:
            refuse_other_endpoint(state, base_url)

        async def step(client: BatchClient, state: State) -> State:
            if again:
                state = await refresh(folder, state, client)
            return await submit(folder, state, client, again=again)

        state = with_client(export, state, base_url, step)
    show(folder, state, as_json=as_json)
    error = failed_batch(folder, state)
    if error is not None:
        raise error
    return 0


def run_status(folder: Path, base_url: str, *, as_json: bool) -> int:
    """Ask how the batches are and show it."""
    state = changed(folder, base_url, refresh)
    show(folder, state, as_json=as_json)
    return 0


def run_cancel(folder: Path, base_url: str, *, as_json: bool) -> int:
    """End the batches and show them; where all had ended already, say that there was nothing to cancel."""
    open_before = True

    async def end(folder: Path, state: State, client: BatchClient) -> State:
        nonlocal open_before
        state = await refresh(folder, state, client)  # what ended meanwhile cannot be cancelled
        open_before = any(one.batch_id and not one.ended for one in state.batches)
        return await cancel(folder, state, client)

    state = changed(folder, base_url, end)
    show(folder, state, as_json=as_json)
    if not open_before:
        click.echo("nothing to cancel: every batch that was submitted has ended", err=True)
    return 0


def show(folder: Path, state: State, *, as_json: bool) -> None:
    """Print a row a file: how its batch is, how many lines are done, failed and asked for, its age and its id."""
    if as_json:
        click.echo(orjson.dumps({**asdict(state), "folder": str(folder)}, option=orjson.OPT_INDENT_2))
        return
    for line in table_of(state):
        click.echo(line)
    click.echo(next_step(folder, state))


def table_of(state: State) -> list[str]:
    """Return the state as the lines of a table; ids come last, since they are the longest."""
    heads = ("file", "state", "done", "failed", "of", "age", "batch")
    rows = [heads, *(_row(one) for one in state.batches)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(heads))]
    lines = []
    for row in rows:
        cells = [_aligned(row[column], widths[column], right=2 <= column < 6) for column in range(len(heads))]
        lines.append("  ".join(cells).rstrip())
    return lines


def _aligned(text: str, width: int, *, right: bool) -> str:
    return text.rjust(width) if right else text.ljust(width)


def _row(one: Submission) -> tuple[str, ...]:
    from svr_async.vocabulary.safetext import one_line

    state = one_line(one.status, 40) if one.status else "not submitted"
    state += f": {one_line(one.problem, 120)}" if one.problem else ""
    return one.file, state, f"{one.done:,}", f"{one.failed:,}", f"{one.total:,}", _age(one), one.batch_id or "–"


def _age(one: Submission) -> str:
    if not one.created:
        return "–"
    minutes = max(0, int(time.time()) - one.created) // 60
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min"


def next_step(folder: Path, state: State) -> str:
    """Say what to do next."""
    if not all(one.batch_id for one in state.batches):
        return f"Next: svr batch submit {folder}"
    if all(one.ended for one in state.batches):
        return f"Next: svr batch import {folder}"
    return f"Next: svr batch import {folder} --wait, or look again: svr batch status {folder}"
