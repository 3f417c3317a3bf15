"""The work behind `svr batch submit`, `status` and `cancel`: an export's batches at the endpoint."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from svr_async.commands.screen import tell
from svr_async.engine.batch.client import BatchClient
from svr_async.engine.batch.folder import State, alone, load_export, load_state
from svr_async.engine.batch.submit import cancel, refresh, submit
from svr_async.evaluation.running.batch_words import next_step, table_of
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
    words = "\n".join([*table_of(state), next_step(folder, state)])
    tell({**asdict(state), "folder": str(folder)}, words, as_json=as_json)
