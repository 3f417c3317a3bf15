"""What a training is to do: the pairs, the judge, and the parts of Algorithm 1 that can be chosen."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from svr_async.core.validation import coerce_fields
from svr_async.errors import SvrError, UsageError
from svr_async.judges.limits import JudgeLimits
from svr_async.judges.open_judge import RULES, JudgeSpec
from svr_async.judges.templates import PAPER
from svr_async.training.rounds.config import (
    FitTerms,
    Pool,
    Publish,
    SameCriterion,
    TrainConfig,
    config_of,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainSettings:
    """A training: of which pairs, by which judge, how, and in which folder. docs/training.md has what each one does.

    `adapter` reads `pairs`, as `columns` and `label_map` say (docs/data.md); `limit` is N or A-B. `author` writes
    rubrics and probes, if that is not the judge. `decontaminate` names benchmarks as `rubricbench=PATH`. The preset
    `paper` takes RubricBench of the hub without it, and the paper's prompts unless `limits` names others. `out` holds
    the stages, the rounds' feature stores, record.json and, in `out`/bank, the bank. `pool` is cross, own or all. A
    value of None is left to the preset and the judge. UsageError for a value that no training has.
    """

    pairs: Path
    out: Path
    adapter: str = "pairs"
    judge: str
    author: str | None = None
    base_url: str = ""
    limits: JudgeLimits = field(default_factory=JudgeLimits)
    rounds: int = 3
    preset: str = "default"
    publish: Publish | None = None
    same_criterion: SameCriterion | None = None
    dev_share: float | None = None
    pool: Pool | None = None
    pool_size: int | None = None
    rubrics_per_call: int | None = None
    top_k: int | None = None
    ablate: tuple[str, ...] = ()
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
        try:
            train_config(self)
        except ValueError as error:
            raise UsageError(f"these settings are not valid: {error}", hint="see docs/training.md") from error

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
        spec = JudgeSpec.parse(self.author, base_url=self.base_url)
        if not spec.writes and spec.text != RULES:
            raise UsageError(f"--author {self.author} cannot induce rubrics", hint="name rules or a text judge")
        return spec

    @property
    def terms(self) -> FitTerms:
        """What `svr-fit` needs to fit as this training does; a model as author says which rubrics are one criterion."""
        return FitTerms(
            preset=self.preset,
            seed=self.seed,
            top_k=self.top_k,
            free=self.judge == RULES,
            ablate=tuple(sorted(self.ablate)),
            same_criterion=self.same_criterion or ("author" if self._model_writes else None),
        )

    @property
    def _model_writes(self) -> bool:
        """Whether a model writes rubrics for the default preset; False for a judge that is refused later."""
        with suppress(SvrError):
            return self.preset == "default" and (self.author_spec or self.spec).writes
        return False


def train_config(settings: TrainSettings) -> TrainConfig:
    """Return the settings of Algorithm 1 for those of a training."""
    terms = settings.terms
    config = config_of(terms)
    return replace(
        config,
        rounds=settings.rounds,
        publish=settings.publish or config.publish,
        pool=settings.pool or ("all" if terms.free else "cross"),
        pool_size=settings.pool_size,
        dev_share=config.dev_share if settings.dev_share is None else settings.dev_share,
    )
