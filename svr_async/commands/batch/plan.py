"""Which run a batch is for: the words of its command read as that command reads them, and the run without calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Protocol

import click

from svr_async.commands.options import given_flags
from svr_async.commands.settings import eval_settings
from svr_async.engine.batch.reader import BatchReader
from svr_async.engine.batch.results import ResultFiles
from svr_async.engine.request import Question
from svr_async.engine.stopper import Stopper
from svr_async.errors import UsageError
from svr_async.evaluation.opinions import CONTINGENT
from svr_async.evaluation.run import run_evaluation
from svr_async.evaluation.running.bench import Bench, evaluation_of, open_bench
from svr_async.evaluation.running.prepared import Prepared, prepare
from svr_async.judges.opening import OpenJudge
from svr_async.scoring.decision import Decision

if TYPE_CHECKING:
    from svr_async.judges.profiles import Profile

TRAINING = ("judge", "induce", "train")
OnMissing = Callable[[OpenJudge, Question[Any]], None]


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

    def guessed(self, decision: Decision, /) -> bool:
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


def plan_run(words: Sequence[str]) -> BatchRun:
    """Read a command, e.g. ("eval", "rubricbench", "--judge", …); UsageError where it asks no endpoint."""
    name, args = command_of(words)
    if name == "eval":
        from svr_async.commands.eval.command import evaluate  # noqa: PLC0415  (each command loads only its own parts)

        return plan_eval(params_of(evaluate, name, args))
    if name in TRAINING:
        from svr_async.commands.batch.training import plan_training  # noqa: PLC0415

        return plan_training(name, args)
    raise UsageError(f"svr {name} asks no judge in a way that a batch can", hint=f"eval, {', '.join(TRAINING)} do")


def command_of(words: Sequence[str]) -> tuple[str, list[str]]:
    """Return the command and its arguments; it may be written with `svr` before it, or as `svr-eval`."""
    rest = list(words[1:] if words[:1] == ("svr",) else words)
    if not rest:
        raise UsageError("there is no command to export", hint="svr batch export FOLDER eval rubricbench --judge J")
    return ("eval" if rest[0] == "svr-eval" else rest[0]), rest[1:]


def params_of(command: click.Command, name: str, args: Sequence[str]) -> dict[str, Any]:
    """Return the values of a command's options as it would see them, --config and SVR_… variables included."""
    with command.make_context(f"svr {name}", list(args), auto_envvar_prefix=f"SVR_{name.upper()}") as context:
        return dict(context.params) | {"given": given_flags(context)}


def known_of(record: type[Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that a record of flags has a field for; others, as how to log, do not matter here."""
    names = {one.name for one in fields(record)}
    return {name: value for name, value in values.items() if name in names}


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
    return next(profile for profile in run.profiles if only in {None, profile.name})


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalRun:
    """`svr eval`, without calls."""

    run: Prepared
    profiles: tuple[Profile, ...]

    @property
    def staged(self) -> bool:
        """Whether rubrics are written or reworded before they are judged, or margins decide what else is asked."""
        settings = self.run.settings
        adaptive = settings.audit_below is not None or settings.escalate_to is not None
        return adaptive or self.run.method.facts.staged

    async def open(self) -> Bench:
        """Open the judges."""
        return await open_bench(self.run)

    async def ask(self, opened: Opened, unanswered: Unanswered) -> None:
        """Judge every pair as far as the replies go."""
        assert isinstance(opened, Bench)
        stopper = Stopper()
        await run_evaluation(replace(evaluation_of(self.run, opened), guessed=unanswered.guessed), stopper)
        stopper.reraise()


def plan_eval(params: Mapping[str, Any]) -> EvalRun:
    """Settle data, method and judges of `svr eval`."""
    run = prepare(eval_settings({**params, "dry_run": False, "offline": True}, params["given"]))
    profiles = endpoints_of([judge.profile for judge in run.judges.judges], run.settings.judge)
    return EvalRun(run=run, profiles=profiles)
