"""Which run a batch is for: the words of its command read as that command reads them, and the run without calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import click

from svr_async.adapters import get_adapter
from svr_async.adapters.selection import select_pairs
from svr_async.commands.eval.data import load_dataset
from svr_async.commands.eval.flags import EvalFlags
from svr_async.commands.eval.method import choose_method
from svr_async.commands.eval.plan import Bench, SettledPlan, open_bench, settle_judges, with_plan
from svr_async.commands.eval.run import make_evaluation, make_record
from svr_async.commands.main import svr
from svr_async.commands.options import given_flags, known_of, with_limits
from svr_async.engine.batch.reader import BatchReader
from svr_async.engine.batch.results import ResultFiles
from svr_async.engine.request import Question
from svr_async.engine.stopper import Stopper
from svr_async.errors import UsageError
from svr_async.evaluation.opinions import CONTINGENT
from svr_async.evaluation.run import run_evaluation
from svr_async.evaluation.writing import RunRecord
from svr_async.judges.opening import OpenJudge
from svr_async.scoring.decision import Decision
from svr_async.scoring.methods.contract import Method

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
        return plan_eval(params_of(name, args))
    if name in TRAINING:
        from svr_async.commands.batch.training import plan_training  # noqa: PLC0415  (a run loads only its own parts)

        return plan_training(name, args)
    raise UsageError(f"svr {name} asks no judge in a way that a batch can", hint=f"eval, {', '.join(TRAINING)} do")


def command_of(words: Sequence[str]) -> tuple[str, list[str]]:
    """Return the command and its arguments; it may be written with `svr` before it, or as `svr-eval`."""
    rest = list(words[1:] if words[:1] == ("svr",) else words)
    if not rest:
        raise UsageError("there is no command to export", hint="svr batch export FOLDER eval rubricbench --judge J")
    return ("eval" if rest[0] == "svr-eval" else rest[0]), rest[1:]


def params_of(name: str, args: Sequence[str]) -> dict[str, Any]:
    """Return the values of a command's options as it would see them, --config and SVR_… variables included."""
    command = svr.get_command(click.Context(svr), name)
    assert command is not None
    with command.make_context(f"svr {name}", list(args), auto_envvar_prefix=f"SVR_{name.upper()}") as context:
        return dict(context.params) | {"given": given_flags(context)}


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

    flags: EvalFlags
    method: Method
    settled: SettledPlan
    record: RunRecord
    folder: Path
    profiles: tuple[Profile, ...]

    @property
    def staged(self) -> bool:
        """Whether rubrics are written or reworded before they are judged, or margins decide what else is asked."""
        flags = self.flags
        adaptive = flags.audit_below is not None or flags.escalate_to is not None
        return adaptive or self.method.facts.staged

    async def open(self) -> Bench:
        """Open the judges."""
        return await open_bench(self.flags, self.settled, self.record.pairs, self.folder)

    async def ask(self, opened: Opened, unanswered: Unanswered) -> None:
        """Judge every pair as far as the replies go."""
        assert isinstance(opened, Bench)
        evaluation = make_evaluation(self.flags, self.record.pairs, self.method, opened)
        stopper = Stopper()
        await run_evaluation(replace(evaluation, guessed=unanswered.guessed), stopper)
        if stopper.error is not None:
            raise stopper.error


def plan_eval(params: Mapping[str, Any]) -> EvalRun:
    """Settle data, method and judges of `svr eval`."""
    asked = with_limits({**params, "salt": params["seed"], "dry_run": False, "offline": True})
    flags = with_plan(EvalFlags(**known_of(EvalFlags, asked)))
    method = choose_method(flags)
    settled = settle_judges(flags, method)
    profiles = endpoints_of([judge.profile for judge in settled.judges], flags.judge)
    adapter = get_adapter(flags.benchmark)
    dataset = load_dataset(flags, adapter)
    pairs = select_pairs(dataset.pairs, flags.limit, flags.domain)
    record = make_record(flags, adapter, dataset, pairs, method, settled)
    folder = flags.out or record.default_folder()
    return EvalRun(flags=flags, method=method, settled=settled, record=record, folder=folder, profiles=profiles)
