"""A run whose calls are made as a batch: what it has no answer to is collected, and the replies go into the cache."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Protocol

from svr_async.engine.batch.reader import BatchReader, CallCount, Kept, Readers
from svr_async.engine.batch.results import LineKind, ResultFiles
from svr_async.engine.concurrency import run_whole
from svr_async.engine.fallbacks import find_fallbacks, permanent
from svr_async.engine.request import CONTINGENT, Question, Request
from svr_async.errors import UsageError
from svr_async.judges.open_judge import OpenJudge

if TYPE_CHECKING:
    from svr_async.judges.profile import Profile

ASK_LIVE = "run the command itself, which asks call by call"
OnMissing = Callable[[OpenJudge, Question[Any]], None]


class Decided(Protocol):
    """What was decided, and the replies that it rests on."""

    @property
    def requests(self) -> Iterable[str]:
        """The cache keys of the replies."""


class Opened(Protocol):
    """The judges of a run, open."""

    @property
    def judges(self) -> tuple[OpenJudge, ...]:
        """All of them; those without an engine send nothing."""

    async def close(self) -> None:
        """Close their engines."""


@dataclass(frozen=True, slots=True)
class Unanswered:
    """The questions of a run that have no answer yet, of all its judges."""

    readers: tuple[BatchReader, ...]

    @classmethod
    def watch(cls, opened: Opened, results: ResultFiles | None, on_missing: OnMissing) -> Unanswered:
        """Let no judge send anything; what is missing for sure, whatever the replies to come, is told."""

        def reader(judge: OpenJudge) -> BatchReader:
            assert judge.engine is not None
            return BatchReader(judge.engine, results, on_missing=lambda question: _tell(on_missing, judge, question))

        return cls(tuple(reader(judge) for judge in opened.judges if judge.engine is not None))

    def __len__(self) -> int:
        return sum(len(reader.told) for reader in self.readers)

    def guessed(self, decision: Decided, /) -> bool:
        """Whether a decision rests on a reply that is not there yet."""
        return any(not reader.told.isdisjoint(decision.requests) for reader in self.readers)


def _tell(on_missing: OnMissing, judge: OpenJudge, question: Question[Any]) -> None:
    if not CONTINGENT.get():
        on_missing(judge, question)


class BatchRun(Protocol):
    """A run whose calls may be made as a batch. `staged`: some of its calls depend on the replies to others."""

    @property
    def profiles(self) -> tuple[Profile, ...]:
        """The endpoints that are asked, at least one."""

    @property
    def staged(self) -> bool:
        """Whether a second export may follow the first import."""

    async def open(self) -> Opened:
        """Open the judges."""

    async def ask(self, opened: Opened, unanswered: Unanswered) -> None:
        """Ask everything that can be asked without the replies that are not there."""


def endpoints_of(profiles: Sequence[Profile | None], judge: str) -> tuple[Profile, ...]:
    """Return the profiles of the judges behind endpoints; UsageError where no judge sends anything."""
    found = tuple(profile for profile in profiles if profile is not None)
    if not found:
        raise UsageError(f"--judge {judge} sends nothing, so there is nothing to export", hint="svr judges lists some")
    return found


def choose_endpoint(run: BatchRun, only: str | None) -> Profile:
    """Return the endpoint that an export is for: the one there is, or that of the judge named by --only."""
    names = [profile.name for profile in run.profiles]
    if only is None and len(names) > 1:
        raise UsageError(f"this run asks {', '.join(names)}", hint="--only J exports the calls of one of them")
    if only is not None and only not in names:
        raise UsageError(f"--only {only} names no judge of this run", hint=f"it asks {', '.join(names)}")
    found = next(profile for profile in run.profiles if only in {None, profile.name})
    if not found.spoken.batch_url:
        raise UsageError(f"judge {found.name} is on the wire {found.wire}, which has no batch files", hint=ASK_LIVE)
    return found


def collect(run: BatchRun, profile: Profile, take: Callable[[Question[Any]], None]) -> int:
    """Go through a run without a call, handing over the questions to one endpoint; return the answers it found."""

    def missing(judge: OpenJudge, question: Question[Any]) -> None:
        if judge.profile == profile:
            take(question)

    async def main() -> int:
        opened = await run.open()
        try:
            await run.ask(opened, Unanswered.watch(opened, None, missing))
            return sum(judge.engine.stats().cache_hits for judge in opened.judges if judge.engine is not None)
        finally:
            await opened.close()

    return run_whole(main())


@dataclass(slots=True)
class Imported:
    """What an import came to: the cache's gain, requests without a reply by cause, and the next stage's calls."""

    requests: int
    kept: Kept = field(default_factory=Kept)
    answered: int = 0
    failed: int = 0
    expired: int = 0
    missing: int = 0
    later: CallCount = field(default_factory=CallCount)

    @property
    def complete(self) -> bool:
        """Whether every exported request has an answer in the cache."""
        return self.answered == self.requests


def refused_settings(profile: Profile | None, details: Iterable[str]) -> str:
    """Return the settings that say so for good where the failures of a batch name one that is refused; "" else."""
    if profile is None:
        return ""
    request = Request(
        endpoint=profile.endpoint,
        model=profile.model,
        messages=(),
        max_tokens=profile.max_tokens,
        max_tokens_field=profile.max_tokens_field,
        params=profile.params(structured=True),
        wire=profile.spoken,
    )
    found = (find_fallbacks(request, HTTPStatus.BAD_REQUEST, {"message": detail}) for detail in details)
    cures = next(filter(None, found), ())
    return permanent(cures) if cures else ""


def read_into_cache(run: BatchRun, results: ResultFiles, own: set[bytes]) -> Imported:
    """Let the run read the results, keep those that are answers, and count what is left to ask."""
    report = Imported(requests=len(own))
    later: set[bytes] = set()

    def missing(_: OpenJudge, question: Question[Any]) -> None:
        key = question.request.key
        if key not in own and key not in later:
            later.add(key)
            report.later.add(question)

    async def main() -> None:
        opened = await run.open()
        try:
            unanswered = Unanswered.watch(opened, results, missing)
            await run.ask(opened, unanswered)
            readers = Readers(unanswered.readers, results)
            report.kept = await readers.keep()
            _count(report, readers, own)
        finally:
            await opened.close()

    run_whole(main())
    return report


def _count(report: Imported, readers: Readers, own: set[bytes]) -> None:
    """Count what became of each exported request; those with a reply that is no answer are in `kept`."""
    for key in own:
        if readers.answered(key):
            report.answered += 1
        elif key not in readers.results:
            kind = readers.results.failed.get(key)
            report.failed += kind is LineKind.FAILED
            report.expired += kind is LineKind.EXPIRED
            report.missing += kind is None
