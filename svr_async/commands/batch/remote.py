"""The work behind `svr batch submit`, `status` and `cancel`: an export's batches at the endpoint."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from pathlib import Path
from urllib.parse import urlsplit

import click
import orjson

from svr_async.engine.batch.client import BatchClient
from svr_async.engine.batch.folder import Export, State, Submission, alone, fresh_state, load_export, load_state
from svr_async.engine.batch.submit import cancel, refresh, submit
from svr_async.engine.secrets import Secret, key_from_environment, refuse_key_in_url
from svr_async.errors import RefusedError, UsageError
from svr_async.judges.keys import naming_keys
from svr_async.judges.profiles import load_profiles

LOOPBACK = ("127.0.0.1", "::1", "localhost")
Step = Callable[[BatchClient, State], Awaitable[State]]


def run_submit(folder: Path, window: str, base_url: str, *, again: bool, as_json: bool) -> int:
    """Submit what has no batch yet and show all of them."""
    export = load_export(folder, checked=True)
    with alone(folder):
        state = _begun(export, load_state(folder, export), base_url, window)
        if base_url:
            _same_endpoint(state, base_url)

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
    state = _changed(folder, base_url, refresh)
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

    state = _changed(folder, base_url, end)
    show(folder, state, as_json=as_json)
    if not open_before:
        click.echo("nothing to cancel: every batch that was submitted has ended", err=True)
    return 0


def _changed(folder: Path, base_url: str, change: Callable[[Path, State, BatchClient], Awaitable[State]]) -> State:
    export = load_export(folder)
    with alone(folder):
        state = load_state(folder, export)
        if state is None:
            raise UsageError(f"nothing of {folder} was submitted", hint=f"svr batch submit {folder}")
        if base_url:
            _same_endpoint(state, base_url)

        async def step(client: BatchClient, state: State) -> State:
            return await change(folder, state, client)

        return with_client(export, state, base_url, step)


def with_client(export: Export, state: State, base_url: str, step: Step) -> State:
    """Run a step with a client of the endpoint that the state belongs to; `base_url` is what the command was given."""
    key = secret_of(export)
    if key and not _vouched(state.base_url, export.key_env, base_url):
        raise UsageError(
            f"this export wants ${export.key_env} sent to {state.base_url}, where no profile of yours sends it",
            hint=f"if that is right: --base-url {state.base_url}",
        )

    async def main() -> State:
        async with BatchClient(state.base_url, key) as client:
            return await step(client, state)

    with naming_keys([export.key_env]):
        return asyncio.run(main())


def secret_of(export: Export) -> Secret:
    """Return the key of the export's endpoint, from its environment variable."""
    return key_from_environment(export.key_env)


def _vouched(address: str, key_env: str, given: str) -> bool:
    """Whether the user, not the folder alone, says that a key goes to an address: a flag, a profile, this machine."""
    if given or urlsplit(address).hostname in LOOPBACK:
        return True  # a flag that names another address has been refused before
    return any(one.base_url == address and one.key_env == key_env for one in load_profiles().values())


def _begun(export: Export, state: State | None, base_url: str, window: str) -> State:
    """Return the state to go on from: the one on disk, or a fresh one where nothing was asked of another endpoint."""
    if state is None:
        return fresh_state(export, refuse_key_in_url(base_url or export.base_url), window)
    asked = any(one.batch_id or one.asking for one in state.batches)
    moved = base_url and refuse_key_in_url(base_url) != state.base_url
    return fresh_state(export, refuse_key_in_url(base_url), window) if moved and not asked else state


def _same_endpoint(state: State, base_url: str) -> None:
    """Refuse to look for one endpoint's batches at another: ids mean nothing there, and files would be paid twice."""
    if refuse_key_in_url(base_url) != state.base_url:
        raise UsageError(
            f"these batches are at {state.base_url}, not at {base_url}", hint="leave --base-url out, or export anew"
        )


def failed_batch(folder: Path, state: State) -> RefusedError | None:
    """Return the error that tells of a batch that failed as a whole, where there is one."""
    failed = [one for one in state.batches if one.status == "failed"]
    if not failed:
        return None
    return RefusedError(
        f"the batch of {failed[0].file} failed: {failed[0].problem or 'the endpoint does not say why'}",
        hint=f"svr batch submit {folder} --again when that is mended; nothing of it was done",
    )


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
    from svr_async.evaluation.safetext import one_line  # noqa: PLC0415  (--json does not need it)

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
