"""Trains the banks and makes the runs of a plan; everything finished is kept, a row that fails has its reason."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import orjson

from svr_async.adapters import ADAPTERS, Dataset, get_adapter
from svr_async.adapters.hub import CACHE
from svr_async.core.safetext import one_line
from svr_async.engine.events import Notice, NoticeKind
from svr_async.engine.shutdown import ShutdownController, StoppedError, draining
from svr_async.errors import AuthError, BudgetError, EndpointDownError, StorageError, SvrError, UsageError
from svr_async.evaluation.run import Listener, run_now
from svr_async.evaluation.run_folder import Run
from svr_async.evaluation.settings import EvalSettings
from svr_async.evaluation.setup import PreparedRun, load_dataset, prepare
from svr_async.judges.limits import JudgeLimits
from svr_async.judges.open_judge import JudgeSpec
from svr_async.reproduction.paper import ROLE, BankSpec, Recipe, Recipes, RunSpec
from svr_async.scoring.bank import RubricBank
from svr_async.scoring.methods.registry import NAMES
from svr_async.training.settings import TrainingListener, TrainSettings

Say = Callable[[str], None]
BENCHMARKS = ("rubricbench", "rewardbench", "rewardbench2", "rmbench")
TRAIN = "train"
SUFFIXES = (".jsonl", ".json", ".csv", ".tsv", ".parquet")
FATAL = (BudgetError, StorageError, StoppedError)  # these end a reproduction; other errors end one row
NO_VERDICT = "not one pair got a verdict; the run's folder has the reasons"
MAX_REASON = 200  # characters


@dataclass(frozen=True, slots=True, kw_only=True)
class ReproSettings:
    """A reproduction.

    `data` maps benchmarks to files; others are found in the cache of `svr data fetch`. `train` are the pairs of the
    banks, read by `adapter`. `judge` takes every role that has a default, `judges` are by role. `banks` are trained
    banks by name. `limit` applies to the pairs of each benchmark.
    """

    out: Path
    data: Mapping[str, Path] = field(default_factory=dict)
    train: Path | None = None
    adapter: str = "pairs"
    judge: str = ""
    judges: Mapping[str, str] = field(default_factory=dict)
    banks: Mapping[str, str] = field(default_factory=dict)
    base_url: str = ""
    limits: JudgeLimits = field(default_factory=JudgeLimits)
    preset: str = "default"
    decontaminate: bool = False
    limit: str | None = None
    figures: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Absent:
    """Why a run or bank is missing."""

    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainedBank:
    """A bank with the record of its training, empty for a bank given by --bank, and the judge of its training."""

    bank: RubricBank
    record: Mapping[str, Any]
    judged: str


@dataclass(slots=True)
class Announcer(Listener, TrainingListener):
    """Passes on notices, and ends a run on signals."""

    announce: Say

    def say(self, text: str) -> None:
        """Pass on a step of the training."""
        self.announce(text)

    def judging(self, total: int, stats: object, shutdown: ShutdownController) -> AbstractContextManager[object]:  # noqa: ARG002
        """Drain on signals while pairs are judged."""
        return draining(shutdown, self.announce)

    def listening(self, shutdown: ShutdownController) -> AbstractContextManager[None]:
        """Drain on signals while a training asks."""
        return draining(shutdown, self.announce)

    def on_notice(self, notice: Notice) -> None:
        """Pass on every notice but single retries."""
        if notice.kind is not NoticeKind.RETRY:
            self.announce(notice.text)


@dataclass(slots=True)
class Runner:
    """A reproduction in progress: finished banks and runs or why they are missing, and calls and dollars spent.

    `absent_judges` are the roles that cannot be asked, with the reason; `judges` are by role. `unpriced` calls have no
    known price.
    """

    settings: ReproSettings
    plan: Recipes
    say: Say
    judges: dict[str, str] = field(default_factory=dict)
    absent_judges: dict[str, str] = field(default_factory=dict)
    banks: dict[str, Path | Absent] = field(default_factory=dict)
    runs: dict[RunSpec, Path | Absent] = field(default_factory=dict)
    calls: int = 0
    usd: float = 0.0
    unpriced: int = 0
    _loaded: dict[Path, Run] = field(default_factory=dict)
    _data: dict[str, Dataset] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Choose the judge of each role: --judge without a role never stands in for a model with its own weights."""
        for name, role in self.plan.roles.items():
            judge = self.settings.judges.get(name) or (self.settings.judge if role.judge else "") or role.judge
            self.judges[name] = judge
            try:
                if judge:
                    JudgeSpec.parse(judge, base_url=self.settings.base_url)
                else:
                    self.absent_judges[name] = role.hint
            except SvrError as error:
                self.absent_judges[name] = error.one_line()

    def make_all(self) -> None:
        """Train missing banks and judge missing runs; errors of `FATAL` are raised, with everything finished kept."""
        for number, spec in enumerate(self.plan.banks.values(), start=1):
            self.say(f"bank {number} of {len(self.plan.banks)}: {spec.name}")
            self.banks[spec.name] = self._kept(spec.judge, partial(self._make_bank, spec))
        for number, run in enumerate(self.plan.runs, start=1):
            self.say(f"run {number} of {len(self.plan.runs)}: {run.title}")
            self.runs[run] = self._kept(run.judge, partial(self._make_run, run))

    def _kept(self, role: str, make: Callable[[], Path | Absent]) -> Path | Absent:
        """Return the result, or the error as the reason; a judge that cannot be asked is not tried again."""
        try:
            made = make()
        except FATAL:
            raise
        except SvrError as error:
            made = Absent(why=one_line(error.message, MAX_REASON))
            if isinstance(error, EndpointDownError | AuthError):
                judge = self.judges[role]
                self.absent_judges |= {name: made.why for name, other in self.judges.items() if other == judge}
        if isinstance(made, Absent):
            self.say(f"  absent: {made.why}")
        return made

    def _make_bank(self, spec: BankSpec) -> Path | Absent:
        """Return the folder of a bank: given by --bank, trained before, or trained now."""
        from svr_async.training.train import train

        wanted = self.training_of(spec)
        if not isinstance(wanted, TrainSettings):
            return wanted
        if not is_trained(wanted):
            result = train(wanted, Announcer(self.say))
            for stats, _ in result.used.values():
                self._pay(stats.sent, stats.usd)
        return wanted.out / "bank"

    def _make_run(self, spec: RunSpec) -> Path | Absent:
        """Return the folder of a run, judged now unless it is whole."""
        prepared = self.evaluation_of(spec, self.banks)
        if isinstance(prepared, Absent):
            return prepared
        if not is_whole(prepared):
            result = run_now(prepared, Announcer(self.say))
            self._pay(result.metrics["calls"]["sent"], result.metrics["paid_usd"])
            if result.signal:
                raise StoppedError(result.signal)
        if _read(prepared.folder / "metrics.json").get("coverage") == 0:
            return Absent(why=NO_VERDICT)
        return prepared.folder

    def _pay(self, calls: int, usd: float | None) -> None:
        self.calls += calls
        self.usd += usd or 0.0
        self.unpriced += calls if usd is None else 0

    @property
    def _limits(self) -> JudgeLimits:
        """The limits, with the remaining caps."""
        whole = self.settings.limits
        calls = None if whole.max_calls is None else max(0, whole.max_calls - self.calls)
        usd = None if whole.budget is None else max(0.0, whole.budget - self.usd)
        return replace(whole, max_calls=calls, budget=usd)

    def training_of(self, spec: BankSpec) -> TrainSettings | Path | Absent:
        """Return the training of a bank, the folder that was given, or why it cannot be trained.

        A training has a folder that is named by a digest of everything that shapes it.
        """
        settings = self.settings
        if spec.name in settings.banks:
            return Path(settings.banks[spec.name])
        if spec.judge in self.absent_judges:
            return Absent(why=self.absent_judges[spec.judge])
        path = self._training_pairs()
        if isinstance(path, Absent):
            return path
        evaluated = sorted(settings.data.items()) if settings.decontaminate or settings.preset == "paper" else []
        made: dict[str, Any] = {
            "adapter": settings.adapter,
            "judge": self.judges[spec.judge],
            "base_url": settings.base_url,
            "preset": settings.preset,
            "ablate": spec.ablate,
            "decontaminate": tuple(f"{name}={path}" for name, path in evaluated),
        }
        key = orjson.dumps({**made, "data": self._data[TRAIN].digest}, option=orjson.OPT_SORT_KEYS)
        name = f"{spec.name}-{hashlib.sha256(key).hexdigest()[:8]}"
        return TrainSettings(pairs=path, out=settings.out / "banks" / name, limits=self._limits, **made)

    def _training_pairs(self) -> Path | Absent:
        """Return the file of the training pairs, read once, or the command that gets it."""
        path, adapter = self.settings.train, get_adapter(self.settings.adapter)
        if path is None and not adapter.hub_files:
            return Absent(why="training pairs are needed: --train PATH, --train helpsteer3, or --bank DIR")
        if path is None:
            try:
                path = adapter.fetch(CACHE).files[0]
            except SvrError as error:
                hint = f"svr data fetch {adapter.name}, or --train {adapter.name}=PATH"
                return Absent(why=f"{adapter.title} is needed ({one_line(error.message, MAX_REASON)}): {hint}")
        if TRAIN not in self._data:
            self._data[TRAIN] = adapter.load(path)
        return path

    def evaluation_of(self, spec: RunSpec, banks: Mapping[str, Path | Absent]) -> PreparedRun | Absent:
        """Return a run with everything that it needs read and checked, or why it cannot be made."""
        if spec.method not in NAMES:
            return Absent(why=f"this version has no method {spec.method}")
        if lacking := next((role for role in spec.roles if role in self.absent_judges), None):
            why = self.absent_judges[lacking]
            return Absent(why=why if lacking == spec.judge else f"{lacking}: {why}")
        bank = banks.get(spec.bank, Absent(why="not trained")) if spec.bank else None
        if isinstance(bank, Absent):
            return Absent(why=f"bank {spec.bank}: {bank.why}")
        settings = EvalSettings(
            benchmark=spec.benchmark,
            judge=self.judges[spec.judge],
            base_url=self.settings.base_url,
            limits=self._limits,
            method=spec.method,
            bank=str(bank) if bank else None,
            top_k=spec.top_k,
            data=self.settings.data.get(spec.benchmark),
            limit=self.settings.limit,
            domain=spec.domain,
            option=tuple(ROLE.sub(lambda found: self.address(found[1]), text) for text in spec.option),
            preset=self.settings.preset,
        )
        if spec.benchmark not in self._data:
            self._data[spec.benchmark] = load_dataset(settings, get_adapter(spec.benchmark))
        prepared = prepare(settings, self._data[spec.benchmark])
        folder = self.settings.out / "runs" / f"{spec.title}-{prepared.digest}"
        return replace(prepared, settings=replace(prepared.settings, out=folder))

    def address(self, role: str) -> str:
        """Return a role's judge as a method's option names it: with --base-url, if that replaces its profile's."""
        judge, url = self.judges[role], self.settings.base_url
        profile = JudgeSpec.parse(judge, base_url=url).profile if url else None
        return judge if profile is None or "://" in judge else f"{profile.base_url}#{profile.model}"

    def run(self, spec: RunSpec) -> Run | Absent:
        """Return a finished run with its items, read once, or why it is missing."""
        folder = self.runs.get(spec, Absent(why="not run"))
        if isinstance(folder, Absent):
            return folder
        if folder not in self._loaded:
            self._loaded[folder] = Run.load(folder)
        return self._loaded[folder]

    def runs_of(self, recipe: Recipe) -> list[Run | Absent]:
        """Return the first run of each row of a recipe."""
        return [self.run(next(iter(row.runs.values()))) for row in recipe.rows]

    def bank(self, name: str) -> TrainedBank | Absent:
        """Return a bank, or why it is missing."""
        folder = self.banks.get(name, Absent(why="not trained"))
        if isinstance(folder, Absent):
            return folder
        try:
            bank = RubricBank.load(folder)
        except SvrError as error:
            return Absent(why=f"cannot read the bank {folder}: {error}")
        return TrainedBank(bank=bank, record=_read(folder.parent / "record.json"), judged=bank.judge or "not recorded")


def is_trained(settings: TrainSettings) -> bool:
    """Whether a training has ended; the record is the last file that it writes."""
    return (settings.out / "record.json").is_file() and (settings.out / "bank" / "bank.json").is_file()


def is_whole(run: PreparedRun) -> bool:
    """Whether this very run is in its folder, with a verdict on every pair."""
    manifest, metrics = _read(run.folder / "manifest.json"), _read(run.folder / "metrics.json")
    if manifest.get("digest") != run.digest or metrics.get("complete") is not True:
        return False
    return metrics.get("coverage") in (None, 1.0) and (run.folder / "items.jsonl").is_file()


def _read(path: Path) -> dict[str, Any]:
    try:
        value = orjson.loads(path.read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return {}
    return value if isinstance(value, dict) else {}


def data_files(named: Sequence[str]) -> dict[str, Path]:
    """Return files by benchmark and `train`, from NAME=PATH and from folders with files of these names."""
    known, found = (*BENCHMARKS, TRAIN), dict[str, Path]()
    for text in named:
        name, mark, path = text.partition("=")
        if mark and name in known:
            found[name] = Path(path)
            continue
        inside = {name: one for name in known if (one := _inside(Path(text), name)) is not None}
        if not inside:
            hint = f"name files as rubricbench=PATH, or a folder with {', '.join(known)} (.jsonl, .json, .parquet …)"
            raise UsageError(f"--data {text} holds no benchmark", hint=hint)
        found |= inside
    return found


def _inside(folder: Path, name: str) -> Path | None:
    names = [folder / f"{name}{suffix}{packed}" for suffix in SUFFIXES for packed in ("", ".gz")]
    return next((path for path in [folder / name, *names] if path.exists()), None)


def training_source(text: str, data: Mapping[str, Path]) -> tuple[str, Path | None]:
    """Return the adapter and the file of `--train`: a path, NAME of a training set, or NAME=PATH.

    A NAME alone is a set that `svr data fetch` downloads; without --train `data` may have a file `train`.
    """
    name, mark, path = text.partition("=")
    if name in ADAPTERS and ADAPTERS[name].training:
        return name, Path(path) if mark else None
    return "pairs", Path(text) if text else data.get(TRAIN)


def by_name(named: Sequence[str], flag: str, known: Sequence[str]) -> tuple[str, dict[str, str]]:
    """Return the value without a name ("" if missing) and those of NAME=VALUE; UsageError for an unknown name.

    The text before the first = is a name if it is one of `known`; an address may contain = as well.
    """
    alone, found = "", dict[str, str]()
    for text in named:
        name, mark, value = text.partition("=")
        if mark and value and name in known:
            found[name] = value
        elif mark and name.replace("-", "").replace(".", "").replace("_", "").isalnum():
            raise UsageError(f"--{flag} {text}: unknown name {name!r}", hint=f"there are {', '.join(known)}")
        elif alone:
            raise UsageError(f"--{flag} {alone} and --{flag} {text} have no name", hint="write NAME=… for one of them")
        else:
            alone = text
    return alone, found
