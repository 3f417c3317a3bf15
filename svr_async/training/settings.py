"""What a training is to do: its pairs, its judge, and the parts of Algorithm 1 that can be chosen."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any

from svr_async.adapters import ADAPTERS, Dataset, get_adapter
from svr_async.adapters.hub import CACHE
from svr_async.adapters.pair_files import check_output, select_pairs, usable, write_pairs
from svr_async.core.pair import PreferencePair
from svr_async.core.validation import coerce_fields
from svr_async.engine.shutdown import ShutdownController
from svr_async.errors import DataError, SvrError, UsageError
from svr_async.fit.history import FitWatch
from svr_async.judges.limits import JudgeLimits
from svr_async.judges.open_judge import RULES, JudgeSpec, OpenJudge
from svr_async.judges.templates import PAPER
from svr_async.training.bank.merge import refuse_long_names
from svr_async.training.bank.overlap import contamination, find_contaminated
from svr_async.training.rounds.config import Ablation, Pool, Preset, Publish, SameCriterion, TrainConfig, config_of


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainSettings:
    """A training: of which pairs, by which judge, how, and in which folder. docs/training.md has what each one does.

    `adapter` reads `pairs`, as `columns` and `label_map` say (docs/data.md); `limit` is N or A-B. `author` writes
    rubrics and probes, if that is not the judge. `decontaminate` names benchmarks as `rubricbench=PATH`. The preset
    `paper` takes RubricBench of the hub without it, and the paper's prompts unless `limits` names others. A value of
    None is left to the preset and the judge. UsageError for a value that no training has.
    """

    pairs: Path
    out: Path
    adapter: str = "pairs"
    judge: str
    author: str | None = None
    base_url: str = ""
    limits: JudgeLimits = field(default_factory=JudgeLimits)
    rounds: int = 3
    preset: Preset = "default"
    publish: Publish | None = None
    same_criterion: SameCriterion | None = None
    dev_share: float | None = None
    pool: Pool | None = None
    pool_size: int | None = None
    rubrics_per_call: int | None = None
    top_k: int | None = None
    ablate: tuple[Ablation, ...] = ()
    decontaminate: tuple[str, ...] = ()
    limit: str | None = None
    seed: int = 42
    lenient: bool = False
    columns: str = ""
    label_map: str = ""
    min_coverage: float = 1.0
    learning_curve: bool = False
    licence: str = ""

    def __post_init__(self) -> None:
        coerce_fields(self)
        if self.preset == "paper" and self.limits.prompts is None:
            object.__setattr__(self, "limits", replace(self.limits, prompts=PAPER))
        _ = self.config  # which refuses values that no training has

    @property
    def spec(self) -> JudgeSpec:
        """The judge; ConfigError for an unknown one."""
        spec = JudgeSpec.parse(self.judge, base_url=self.base_url).priced(self.limits.price)
        if spec.scores:
            raise UsageError(f"--judge {self.judge} reads no rubrics", hint="name a judge of `svr judges`, or rules")
        return spec

    @property
    def author_spec(self) -> JudgeSpec | None:
        """The author, if that is not the judge; UsageError for one that writes nothing."""
        if self.author is None:
            return None
        return require_writer(JudgeSpec.parse(self.author, base_url=self.base_url), "author")

    @property
    def config(self) -> TrainConfig:
        """The settings of Algorithm 1; a model as author says which rubrics are one criterion."""
        same_criterion, free = self.same_criterion, self.judge == RULES
        if same_criterion is None and self.preset == "default":
            with suppress(SvrError):  # a judge that is refused later
                same_criterion = "author" if (self.author_spec or self.spec).writes else None
        return config_of(
            self.preset,
            seed=self.seed,
            top_k=self.top_k,
            free=free,
            rounds=self.rounds,
            publish=self.publish,
            pool=self.pool or ("all" if free else None),
            pool_size=self.pool_size,
            dev_share=self.dev_share,
            same_criterion=same_criterion,
            ablate=tuple(sorted(self.ablate)),
        )


def require_writer(spec: JudgeSpec, flag: str) -> JudgeSpec:
    """Return a judge that can induce rubrics; UsageError for others."""
    if not spec.writes and spec.text != RULES:
        hint = "name rules or a text judge with --author"
        raise UsageError(f"--{flag} {spec.text} cannot induce rubrics", hint=hint)
    return spec


class TrainingListener(FitWatch):
    """Follows a training or the fit of a store; each event does nothing unless a subclass handles it."""

    def opened(self, judge: OpenJudge) -> None:
        """Handle that the judge is open."""

    def say(self, text: str) -> None:
        """Handle an event in a sentence."""

    def stage(self, what: str, total: int) -> None:
        """Handle that a stage of `total` questions begins, as `judging`."""

    def count(self, done: int) -> None:
        """Handle how many of the stage's questions are answered."""

    def listening(self, _shutdown: ShutdownController) -> AbstractContextManager[None]:
        """Return the context of running questions, which may pass signals to the shutdown."""
        return nullcontext()


Contaminated = Sequence[Mapping[str, str]] | None  # pairs left out; None if not compared with benchmarks


def load_data(settings: TrainSettings, dataset: Dataset | None = None) -> tuple[Dataset, Contaminated]:
    """Read the data of a training, unless the caller has, and return it with the pairs to train on alone.

    UsageError for a benchmark, and if no pair is left.
    """
    refuse_benchmark_for_training(settings.pairs, settings.adapter)
    dataset = dataset or get_adapter(settings.adapter).load(
        settings.pairs, lenient=settings.lenient, columns=settings.columns, label_map=settings.label_map
    )
    pairs = [pair for pair in select_pairs(dataset.pairs, settings.limit, ()) if usable(pair)]
    if not pairs:
        raise UsageError(
            f"0 of {len(dataset.pairs)} pairs in {settings.pairs} can be learned from",
            hint="a pair needs a preference between two different responses",
        )
    refuse_long_names(pairs)
    against = settings.decontaminate or (_rubricbench() if settings.preset == "paper" else ())
    if not against:
        return replace(dataset, pairs=pairs), None
    found = find_contaminated(pairs, named_benchmarks(against, "--decontaminate"))
    left_out = {hit["pair"] for hit in found}
    kept = [pair for pair in pairs if pair.id not in left_out]
    if not kept:
        raise UsageError(f"all {len(pairs)} pairs overlap with {', '.join(against)}", hint="train on other pairs")
    return replace(dataset, pairs=kept), found


def _rubricbench() -> tuple[str, ...]:
    """Return RubricBench as the hub has it; UsageError where it cannot be had."""
    name = "rubricbench"
    try:
        return (f"{name}={get_adapter(name).fetch(CACHE).files[0]}",)
    except DataError as error:
        raise UsageError(
            f"--preset paper leaves out pairs that overlap with RubricBench, which is not here: {error.message}",
            hint=f"name a file: --decontaminate {name}=PATH",
        ) from error


def named_benchmarks(named: Sequence[str], flag: str) -> list[tuple[str, Sequence[PreferencePair]]]:
    """Return the pairs of benchmarks that a flag names as NAME=PATH; UsageError where it names no file."""
    found: list[tuple[str, Sequence[PreferencePair]]] = []
    for entry in named:
        name, mark, path = entry.partition("=")
        if not mark or not path:
            raise UsageError(f"{flag} {entry} names no file", hint="write it as rubricbench=PATH")
        found.append((name, get_adapter(name).load(Path(path)).pairs))
    return found


def contamination_of(path: Path, adapter: str, against: Sequence[str], out: Path | None = None) -> dict[str, Any]:
    """Count what of a training set overlaps with benchmarks named as NAME=PATH; the clean pairs go to `out`."""
    if out is not None:
        check_output(out, [path, *(Path(file) for entry in against if (file := entry.partition("=")[2]))])
    dataset = get_adapter(adapter).load(path)
    pairs = [pair for pair in dataset.pairs if pair.has_preference]
    counts, clean = contamination(pairs, dataset.tied, named_benchmarks(against, "--against"))
    if out is not None:
        write_pairs(out, clean)
    return counts


def refuse_benchmark_for_training(*names: Path | str) -> None:
    """Raise DataError if a path or format names a benchmark, which is for evaluation only."""
    for name, adapter in product(names, ADAPTERS.values()):
        if not adapter.training and re.search(adapter.spelling or adapter.name, str(name).casefold()):
            hint = "train on preference pairs such as HelpSteer3 or RMB"
            raise DataError(f"{name} is {adapter.title}, and that is for evaluation only", hint=hint)


def keep_bank(out: Path, *traces: str) -> None:
    """Raise UsageError if `out` holds a bank without the files that this command writes next to one."""
    bank = out / "bank"
    if (bank / "bank.json").exists() and not any((out / trace).exists() for trace in traces):
        raise UsageError(
            f"{bank} is a bank that another command made", hint="name another folder with --out, or remove it"
        )
