"""Batches at an endpoint: which key goes where, what goes on from which state, and what failed as a whole."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from svr_async.engine.batch.client import BatchClient
from svr_async.engine.batch.folder import Export, State, alone, fresh_state, load_export, load_state, result_paths
from svr_async.engine.batch.submit import download, refresh
from svr_async.engine.http import NO_EXTRAS, Extras
from svr_async.engine.secrets import Secret, key_from_environment, refuse_key_in_url
from svr_async.errors import CoverageError, RefusedError, UsageError
from svr_async.judges.access import extras_of
from svr_async.judges.keys import naming_keys
from svr_async.judges.profiles import load_profiles
from svr_async.judges.trust import refuse_unasked
from svr_async.vocabulary.address import LOOPBACK, host_of

FIRST_LOOK_S, LONGEST_LOOK_S = 1.0, 60.0
Step = Callable[[BatchClient, State], Awaitable[State]]


def changed(folder: Path, base_url: str, change: Callable[[Path, State, BatchClient], Awaitable[State]]) -> State:
    """Return the state of an export's batches after a change at the endpoint; UsageError where none was submitted."""
    export = load_export(folder)
    with alone(folder):
        state = load_state(folder, export)
        if state is None:
            raise UsageError(f"nothing of {folder} was submitted", hint=f"svr batch submit {folder}")
        if base_url:
            refuse_other_endpoint(state, base_url)

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

    extras = _extras_at(state.base_url, export.judge)

    async def main() -> State:
        async with BatchClient(state.base_url, key, extras=extras) as client:
            return await step(client, state)

    with naming_keys([export.key_env]):
        return asyncio.run(main())


def _extras_at(address: str, judge: str) -> Extras:
    """Return the headers and parameters of the judge's profile, where the address is the profile's own."""
    profile = load_profiles().get(judge)
    return NO_EXTRAS if profile is None or profile.base_url != address else extras_of(profile)


def secret_of(export: Export) -> Secret:
    """Return the key of the export's endpoint, from its environment variable."""
    return key_from_environment(export.key_env)


def _vouched(address: str, key_env: str, given: str) -> bool:
    """Whether the user, not the folder alone, says that a key goes to an address: a flag, a profile, this machine."""
    if given or host_of(address) in LOOPBACK:
        return True  # a flag that names another address has been refused before
    vouching = [one for one in load_profiles().values() if one.base_url == address and one.key_env == key_env]
    for profile in vouching:
        refuse_unasked(profile)
    return bool(vouching)


def begun(export: Export, state: State | None, base_url: str, window: str) -> State:
    """Return the state to go on from: the one on disk, or a fresh one where nothing was asked of another endpoint."""
    if state is None:
        return fresh_state(export, refuse_key_in_url(base_url or export.base_url), window)
    asked = any(one.batch_id or one.asking for one in state.batches)
    moved = base_url and refuse_key_in_url(base_url) != state.base_url
    return fresh_state(export, refuse_key_in_url(base_url), window) if moved and not asked else state


def refuse_other_endpoint(state: State, base_url: str) -> None:
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


def fetch_results(
    folder: Path, export: Export, base_url: str, *, wait: bool, tell: Callable[[State], None]
) -> tuple[tuple[Path, ...], RefusedError | None]:
    """Download what the endpoint has ready; return all files of results, and the error of a batch that failed.

    With `wait`, once all batches have ended. CoverageError where there is no result yet.
    """
    state = load_state(folder, export)
    if state is not None and any(one.batch_id for one in state.batches):
        if base_url and base_url.rstrip("/") != state.base_url:
            raise UsageError(f"these batches are at {state.base_url}, not at {base_url}", hint="leave --base-url out")

        async def step(client: BatchClient, held: State) -> State:
            return await _ready(folder, held, client, wait=wait, tell=tell)

        state = with_client(export, state, base_url, step)
    failed = None if state is None else failed_batch(folder, state)
    paths = result_paths(folder)
    if paths:
        return paths, failed
    if failed is not None:
        raise failed
    if state is None:
        hint = f"svr batch submit {folder}, or name the files of vllm run-batch"
        raise UsageError(f"{folder} holds no results and nothing of it was submitted", hint=hint)
    states = ", ".join(sorted({one.status or "not submitted" for one in state.batches}))
    raise CoverageError(f"0 of {export.requests:,} replies are there: {states}", hint=f"svr batch status {folder}")


async def _ready(
    folder: Path, state: State, client: BatchClient, *, wait: bool, tell: Callable[[State], None]
) -> State:
    """Return the state with all results of ended batches downloaded; with `wait`, once all have ended."""
    pause_s = FIRST_LOOK_S
    while True:
        state = await refresh(folder, state, client)
        tell(state)
        await download(folder, state, client)
        if not wait or all(one.ended or not one.batch_id for one in state.batches):
            return state
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, LONGEST_LOOK_S)
