"""Runs whose calls are made as a batch: export the missing calls, import the replies into the cache.

The run itself is executed without sending anything. Its own questions are exported, and later read the replies, so that
a reply from a batch is treated exactly like a live one.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from svr_async.core.files import LOOPBACK, host_of, open_folder
from svr_async.engine import batch_files
from svr_async.engine.batch_files import Export, Results, State
from svr_async.engine.concurrency import run_whole
from svr_async.engine.fallbacks import find_fallbacks, permanent
from svr_async.engine.reply import Reply, Usage
from svr_async.engine.request import CONTINGENT, Question, ReplyRejectedError, estimate_tokens
from svr_async.engine.secrets import key_from_environment, refuse_key_in_url
from svr_async.errors import SvrError, UsageError
from svr_async.judges.open_judge import OpenJudge, extras_of
from svr_async.judges.profiles import load_profiles, naming_keys

if TYPE_CHECKING:
    from svr_async.engine.batch_api import BatchClient
    from svr_async.engine.cache import Cache
    from svr_async.engine.money import Price
    from svr_async.judges.profiles import Profile

PUTS_AT_ONCE = 1024
OnMissing = Callable[[OpenJudge, Question[Any]], object]


class Opened(Protocol):
    """The open judges of a run."""

    @property
    def judges(self) -> tuple[OpenJudge, ...]:
        """All judges; those without an engine send nothing."""

    async def close(self) -> None:
        """Close their engines."""


class BatchRun(Protocol):
    """A run whose calls can be made as a batch: an evaluation or a training."""

    @property
    def profiles(self) -> tuple[Profile, ...]:
        """The endpoints of its judges, at least one."""

    @property
    def staged(self) -> bool:
        """Whether some calls depend on the replies to others, so that a second export follows the first import."""

    async def open(self) -> Opened:
        """Open the judges."""

    async def ask(self, opened: Opened, unanswered: Unanswered) -> None:
        """Ask all questions that do not depend on missing replies."""


class Unanswered:
    """The questions of a run that the cache does not answer. Its judges send nothing.

    `on_missing` is called for questions that the run asks whatever the missing replies say.
    """

    def __init__(self, opened: Opened, on_missing: OnMissing) -> None:
        self._keys: set[str] = set()
        self._on_missing = on_missing
        for judge in opened.judges:
            if judge.engine is not None:
                judge.engine.config = replace(judge.engine.config, offline=True)
                judge.engine.on_missing = partial(self._add, judge)

    def __len__(self) -> int:
        return len(self._keys)

    def guessed(self, decision: Any, /) -> bool:
        """Whether a decision depends on a missing reply."""
        return not self._keys.isdisjoint(decision.requests)

    def _add(self, judge: OpenJudge, question: Question[Any]) -> None:
        self._keys.add(question.request.key.hex())
        if not CONTINGENT.get():
            self._on_missing(judge, question)


def endpoints_of(profiles: Sequence[Profile | None], judge: str) -> tuple[Profile, ...]:
    """Return the profiles of the judges that call an endpoint; UsageError without any."""
    found = tuple(profile for profile in profiles if profile is not None)
    if not found:
        raise UsageError(f"--judge {judge} sends nothing, so there is nothing to export", hint="svr judges lists some")
    return found


def choose_endpoint(run: BatchRun, only: str | None) -> Profile:
    """Return the endpoint to export for: the only one, or that of the judge that --only names."""
    found = [profile for profile in run.profiles if only in {None, profile.name}]
    names = ", ".join(profile.name for profile in run.profiles)
    if not found:
        raise UsageError(f"--only {only} is not a judge of this run", hint=f"its judges are {names}")
    if only is None and len(found) > 1:
        raise UsageError(f"this run has several judges: {names}", hint="--only J exports the calls of one")
    if not found[0].spoken.batch_url:
        problem = f"judge {found[0].name} is on the wire {found[0].wire}, which has no batch files"
        raise UsageError(problem, hint="run the command itself, which makes live calls")
    return found[0]


@dataclass(slots=True, kw_only=True)
class Exported:
    """The result of an export, with estimated tokens and dollars at the batch price (None if unknown)."""

    judge: str
    staged: bool
    requests: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    max_completion_tokens: int = 0
    usd: float | None = None
    max_usd: float | None = None
    cache_hits: int = 0
    files: tuple[batch_files.RequestFile, ...] = ()


def export(run: BatchRun, profile: Profile, folder: Path, command: tuple[str, ...], *, max_requests: int) -> Exported:
    """Write the calls of a run that the cache does not answer; UsageError if the folder already has an export."""
    open_folder(folder)
    if (folder / batch_files.EXPORT).exists():
        hint = f"submit it, or choose another folder, e.g. {next_folder(folder)}"
        raise UsageError(f"{folder} already holds an export", hint=hint)
    report = Exported(judge=profile.name, staged=run.staged)
    writer = batch_files.RequestWriter(folder, max_requests=max_requests)

    def take(judge: OpenJudge, question: Question[Any]) -> None:
        if judge.profile == profile and writer.add(question.request):
            report.prompt_tokens += estimate_tokens(question.request.prompt_chars)
            report.completion_tokens += question.expected_tokens
            report.max_completion_tokens += question.request.max_tokens

    async def main() -> None:
        opened = await run.open()
        try:
            await run.ask(opened, Unanswered(opened, take))
            engines = [judge.engine for judge in opened.judges if judge.engine is not None]
            report.cache_hits = sum(engine.stats().cache_hits for engine in engines)
        finally:
            await opened.close()

    run_whole(main())
    report.files, report.requests = writer.finish(), len(writer.keys)
    if profile.price is not None:
        usage = Usage(prompt_tokens=report.prompt_tokens, completion_tokens=report.completion_tokens, batch=True)
        report.usd = profile.price.cost(usage)
        report.max_usd = profile.price.cost(
            msgspec.structs.replace(usage, completion_tokens=report.max_completion_tokens)
        )
    _refuse_pending(folder, writer.keys)
    if report.files:
        judge, url, key_env, number = profile.name, profile.base_url, profile.key_env, secrets.token_hex(16)
        made = Export(id=number, command=command, judge=judge, base_url=url, key_env=key_env, files=report.files)
        batch_files.save(folder / batch_files.EXPORT, made)
    return report


def _refuse_pending(folder: Path, keys: set[str]) -> None:
    """Refuse requests that are in a submitted batch next to this folder: they would be paid twice."""
    for other in sorted(path.parent for path in folder.absolute().parent.glob(f"*/{batch_files.STATE}")):
        pending: set[str] = set()
        with contextlib.suppress(SvrError):  # a damaged neighbour does not concern this export
            pending = batch_files.exported_keys(batch_files.unfinished(other)) & keys
        if pending:
            raise UsageError(
                f"{len(pending):,} of these requests are also in {other.name}, which is not imported yet",
                hint=f"first: svr batch import {other.name} --wait, or cancel it at the endpoint",
            )


def next_folder(folder: Path) -> Path:
    """Return the name of the next export's folder: batch, batch-2, batch-3."""
    stem, _, number = folder.name.rpartition("-")
    return folder.with_name(f"{stem}-{int(number) + 1}" if stem and number.isdecimal() else f"{folder.name}-2")


@dataclass(slots=True, kw_only=True)
class Imported:
    """The result of an import: what became of the exported requests, and of the replies.

    `new` replies were stored, for `usd` dollars; `known` ones were in the cache already. `unused` of the new ones
    answer questions that the command no longer asks. `next_stage` counts the calls that can be exported now. `fix`
    names the settings to change if the model refuses one.
    """

    requests: int
    answered: int = 0
    new: int = 0
    known: int = 0
    unused: int = 0
    unreadable: int = 0
    failed: int = 0
    missing: int = 0
    next_stage: int = 0
    usd: float | None = None
    fix: str = ""


def import_results(run: BatchRun, results: Results, exported: set[str], judge: str) -> Imported:
    """Store the replies that answer their questions, then count the questions that remain."""
    price = next((profile.price for profile in run.profiles if profile.name == judge), None)
    report = Imported(requests=len(exported), usd=None if price is None else 0.0)
    missing: dict[str, bool] = {}  # keys of unanswered questions, and whether the results answer them
    left: set[str] = set()

    def check(_: OpenJudge, question: Question[Any]) -> None:
        key = question.request.key.hex()
        missing[key] = missing.get(key, True) and _answers(question, results.get(key))
        if key in results.failed and not report.fix:
            fallbacks = (find_fallbacks(question.request, 400, {"message": message}) for message in results.messages)
            report.fix = next((permanent(refused) for refused in fallbacks if refused), "")

    async def main() -> None:
        opened = await run.open()
        try:
            await run.ask(opened, Unanswered(opened, check))
            cache = next(judge.engine.cache for judge in opened.judges if judge.engine is not None)
            await _store(cache, results, missing, price, report)
            await run.ask(opened, Unanswered(opened, lambda _, question: left.add(question.request.key.hex())))
            kept = {key for key in exported - left if cache.get(bytes.fromhex(key)) is not None}
        finally:
            await opened.close()
        report.answered, report.next_stage = len(kept), len(left - exported)
        lacking = exported - kept - results.positions.keys()
        report.failed, report.missing = len(lacking & results.failed), len(lacking - results.failed)

    run_whole(main())
    return report


async def _store(
    cache: Cache, results: Results, missing: Mapping[str, bool], price: Price | None, report: Imported
) -> None:
    """Put the replies into the cache, except unreadable ones and those it already has."""
    puts: list[Awaitable[None]] = []
    for key in results.positions:
        reply = results.get(key)
        if reply is None or not reply.whole or not missing.get(key, True):
            report.unreadable += 1
        elif key not in missing and cache.get(bytes.fromhex(key)) is not None:
            report.known += 1
        else:
            report.new += 1
            report.unused += key not in missing
            if price is not None:
                report.usd = (report.usd or 0.0) + price.cost(reply.usage)
            puts.append(cache.put(bytes.fromhex(key), reply))
        if len(puts) == PUTS_AT_ONCE:
            await asyncio.gather(*puts)
            puts.clear()
    await asyncio.gather(*puts)


def _answers(question: Question[Any], reply: Reply | None) -> bool:
    if reply is None:
        return False
    try:
        question.parse(reply.answer)
    except ReplyRejectedError:
        return False
    return True


def at_endpoint(
    folder: Path, base_url: str, work: Callable[[Path, State, BatchClient], Awaitable[State]], *, first: bool = False
) -> State:
    """Run some work with a client of the batches' endpoint; with `first`, nothing needs to be submitted yet.

    The folder may come from someone else, so the API key is sent only to an address that the user vouches for.
    """
    from svr_async.engine.batch_api import BatchClient
    from svr_async.engine.http import NO_EXTRAS

    export = batch_files.load_export(folder)
    state = _current_state(folder, export, base_url, first=first)
    address, key, profiles = refuse_key_in_url(state.base_url), key_from_environment(export.key_env), load_profiles()
    if key and not base_url and host_of(address) not in LOOPBACK:
        vouching = [one for one in profiles.values() if one.base_url == address and one.key_env == export.key_env]
        if not vouching:
            raise UsageError(
                f"this export sends ${export.key_env} to {address}, and no profile of yours does",
                hint=f"if that is right: --base-url {address}",
            )
    judge = profiles.get(export.judge)
    extras = NO_EXTRAS if judge is None or judge.base_url != address else extras_of(judge)

    async def main() -> State:
        async with BatchClient(address, key, extras=extras) as client:
            return await work(folder, state, client)

    with naming_keys([export.key_env]):
        return run_whole(main())


def _current_state(folder: Path, export: Export, base_url: str, *, first: bool) -> State:
    """Return the state to continue from; it can move to another endpoint only before anything was submitted."""
    state = batch_files.load_state(folder, export)
    address = refuse_key_in_url(base_url or (export if state is None else state).base_url)
    submitted = state is not None and any(batch.batch_id or batch.requested for batch in state.batches)
    if first and (state is None or (address != state.base_url and not submitted)):
        batches = tuple(batch_files.Batch(file=file.name) for file in export.files)
        return State(id=export.id, base_url=address, batches=batches)
    if state is None:
        raise UsageError(f"{folder} was not submitted", hint=f"svr batch submit {folder}")
    if address != state.base_url:  # batch ids mean nothing at another endpoint
        raise UsageError(f"these batches are at {state.base_url}, not at {base_url}", hint="omit --base-url")
    return state
