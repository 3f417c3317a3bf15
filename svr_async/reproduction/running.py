"""From settings to finished runs and banks: what is done is kept, what cannot be done is absent with a reason."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import orjson

from svr_async.adapters import Dataset, get_adapter
from svr_async.core.safetext import one_line
from svr_async.engine.concurrency import ShutdownController, StoppedError, draining
from svr_async.engine.events import Notice, NoticeKind
from svr_async.errors import BudgetError, StorageError, SvrError
from svr_async.evaluation.run import Listener, run_now
from svr_async.evaluation.run_folder import Run, RunFolder
from svr_async.evaluation.setup import PreparedRun, load_dataset, prepare
from svr_async.judges.limits import JudgeLimits
from svr_async.reproduction.plan import Plan, eval_settings, train_settings
from svr_async.reproduction.recipe import BankSpec, RunSpec
from svr_async.reproduction.results import Absent, Results
from svr_async.reproduction.seats import Seat, seats_of
from svr_async.reproduction.settings import TRAIN, ReproSettings
from svr_async.scoring.methods.registry import NAMES
from svr_async.training.running.run import Silent
from svr_async.training.running.settings import TrainSettings

Say = Callable[[str], None]
ENDING = (BudgetError, StorageError, StoppedError)  # what ends a reproduction, and not a row of it alone
NO_VERDICT = "not one pair got a verdict; the run's folder says why"
MOST_REASON = 200  # characters of why a row is absent
NO_PAIRS = "there are no training pairs: --data train=PATH, or --bank DIR for a bank that is trained"


@dataclass(slots=True)
class Hearer(Listener, Silent):
    """Lets an evaluation or a training end on signals, and passes on what a person has to know."""

    tell: Say

    def say(self, text: str) -> None:
        """Pass on what happened."""
        self.tell(text)

    def judging(self, total: int, stats: object, shutdown: ShutdownController) -> AbstractContextManager[object]:  # noqa: ARG002
        """Drain on signals while pairs are judged."""
        return draining(shutdown, self.tell)

    def listening(self, shutdown: ShutdownController) -> AbstractContextManager[None]:
        """Drain on signals while questions are asked."""
        return draining(shutdown, self.tell)

    def on_notice(self, notice: Notice) -> None:
        """Pass on what is said once, and long waits."""
        if notice.kind is not NoticeKind.RETRY:
            self.tell(notice.text)


@dataclass(slots=True)
class Work:
    """A reproduction under way: what is found so far, and what is spent of the caps."""

    settings: ReproSettings
    plan: Plan
    say: Say
    seats: dict[str, Seat]
    banks: dict[str, Path | Absent] = field(default_factory=dict)
    runs: dict[RunSpec, Path | Absent] = field(default_factory=dict)
    held: dict[Path, Run] = field(default_factory=dict)
    calls: int = 0
    usd: float = 0.0
    _data: dict[str, Dataset] = field(default_factory=dict)

    @property
    def limits(self) -> JudgeLimits:
        """The limits, with what is left of the caps."""
        whole = self.settings.limits
        return replace(
            whole,
            max_calls=None if whole.max_calls is None else max(0, whole.max_calls - self.calls),
            budget=None if whole.budget is None else max(0.0, whole.budget - self.usd),
        )

    @property
    def results(self) -> Results:
        """What tables are built from."""
        return Results(runs=self.runs, banks=self.banks, preset=self.settings.preset, held=self.held)

    def dataset(self, name: str, load: Callable[[], Dataset]) -> Dataset:
        """Return a data set, read once."""
        if name not in self._data:
            self._data[name] = load()
        return self._data[name]


def open_work(settings: ReproSettings, plan: Plan, say: Say) -> Work:
    """Find out who can be asked; nothing is judged yet."""
    return Work(settings=settings, plan=plan, say=say, seats=seats_of(plan.roles, settings))


def do_all(work: Work) -> Results:
    """Train what is missing and judge what is missing; what ends all of it is raised, with what is done kept."""
    for number, spec in enumerate(work.plan.banks, start=1):
        work.say(f"bank {number} of {len(work.plan.banks)}: {spec.name}")
        work.banks[spec.name] = _kept(work, lambda spec=spec: bank_of(work, spec))  # type: ignore[misc]
    for number, run in enumerate(work.plan.runs, start=1):
        work.say(f"run {number} of {len(work.plan.runs)}: {run.name}")
        work.runs[run] = _kept(work, lambda run=run: run_of(work, run))  # type: ignore[misc]
    return work.results


def _kept(work: Work, make: Callable[[], Path | Absent]) -> Path | Absent:
    """Return what is made, or the error's line as the reason why there is nothing."""
    try:
        found = make()
    except ENDING:
        raise
    except SvrError as error:
        found = Absent(why=one_line(error.one_line(), MOST_REASON))
    if isinstance(found, Absent):
        work.say(f"  absent: {found.why}")
    return found


def bank_of(work: Work, spec: BankSpec) -> Path | Absent:
    """Return the folder of a bank: as given, as trained before, or trained now."""
    from svr_async.training.running.train import train

    asked = training_of(work, spec)
    if not isinstance(asked, TrainSettings):
        return asked
    if not trained(asked):
        found = train(asked, Hearer(work.say))
        for stats in (found.stats, found.written[0] if found.written else None):
            if stats is not None:
                work.calls += stats.sent
                work.usd += stats.usd or 0.0
    return asked.out / "bank"


def training_of(work: Work, spec: BankSpec) -> TrainSettings | Path | Absent:
    """Return the training that a bank needs, its folder where it was given, or why it cannot be trained."""
    if spec.name in work.settings.banks:
        return Path(work.settings.banks[spec.name])
    seat = work.seats[spec.judge]
    if seat.absent:
        return Absent(why=seat.absent)
    if TRAIN not in work.settings.data:
        return Absent(why=NO_PAIRS)
    pairs = work.dataset(TRAIN, lambda: get_adapter(work.settings.adapter).load(work.settings.data[TRAIN]))
    return train_settings(work.settings, spec, seat.judge, pairs.digest, work.limits)


def trained(settings: TrainSettings) -> bool:
    """Whether a training has come to its end; the record is the last file that it writes."""
    return (settings.out / "record.json").is_file() and (settings.out / "bank" / "bank.json").is_file()


def run_of(work: Work, spec: RunSpec) -> Path | Absent:
    """Return the folder of a run, judged now where it is not whole yet."""
    prepared = evaluation_of(work, spec)
    if isinstance(prepared, Absent):
        return prepared
    if not whole(prepared):
        result = run_now(prepared, Hearer(work.say))
        work.calls += result.metrics["calls"]["sent"]
        work.usd += result.metrics["paid_usd"] or 0.0
        work.held[result.folder] = RunFolder.load(result.folder, result.items)
        if result.signal:
            raise StoppedError(result.signal)
    if _read(prepared.folder / "metrics.json").get("coverage") == 0:
        return Absent(why=NO_VERDICT)
    return prepared.folder


def evaluation_of(work: Work, spec: RunSpec, banks: dict[str, Path] | None = None) -> PreparedRun | Absent:
    """Return a run with all that it needs read and checked, or why it cannot be made."""
    seats = [work.seats[role] for role in spec.roles]
    if spec.method not in NAMES:
        return Absent(why=f"this version has no method {spec.method}")
    if lacking := next((seat for seat in seats if seat.absent), None):
        return Absent(why=lacking.absent if lacking is seats[0] else f"{lacking.role}: {lacking.absent}")
    held = dict(banks or {})
    if spec.bank and spec.bank not in held:
        bank = work.banks.get(spec.bank, Absent(why="its bank is not trained"))
        if isinstance(bank, Absent):
            return Absent(why=f"bank {spec.bank}: {bank.why}")
        held[spec.bank] = bank
    settings = eval_settings(work.settings, spec, {seat.role: seat.judge for seat in seats}, held, work.limits)
    dataset = work.dataset(spec.benchmark, lambda: load_dataset(settings, get_adapter(spec.benchmark)))
    if not {pair.domain for pair in dataset.pairs} & set(spec.domain):  # another file in the form of the benchmark
        settings = replace(settings, domain=())
    prepared = prepare(settings, dataset)
    folder = work.settings.out / "runs" / f"{spec.name}-{prepared.record.digest}"
    return replace(prepared, settings=replace(prepared.settings, out=folder))


def whole(run: PreparedRun) -> bool:
    """Whether this very run is in its folder already, with a verdict on every pair."""
    manifest, metrics = _read(run.folder / "manifest.json"), _read(run.folder / "metrics.json")
    if manifest.get("digest") != run.record.digest or metrics.get("complete") is not True:
        return False
    return metrics.get("coverage") in (None, 1.0) and (run.folder / "items.jsonl").is_file()


def _read(path: Path) -> dict[str, Any]:
    try:
        value = orjson.loads(path.read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return {}
    return value if isinstance(value, dict) else {}
