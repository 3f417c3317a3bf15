"""The calls that most programs need, `evaluate`, `train` and `compare`, and what they return."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypedDict, TypeVar, Unpack

import numpy as np
from numpy.typing import NDArray

from svr_async.adapters import ADAPTERS, Dataset
from svr_async.adapters.pairs import PAIRS, read_unlabelled
from svr_async.adapters.tables import Pairs
from svr_async.core.pair import PreferencePair
from svr_async.engine.concurrency import in_sync, run_on_own_loop, run_sync
from svr_async.errors import UsageError
from svr_async.evaluation.compare import Comparison, compare_runs
from svr_async.evaluation.run import Listener, run_prepared
from svr_async.evaluation.run_folder import PAIRS_FILE, Run
from svr_async.evaluation.settings import EvalSettings
from svr_async.evaluation.setup import PreparedRun, prepare
from svr_async.judges.limits import JudgeLimits, JudgeOptions, check_options
from svr_async.scoring.bank import RubricBank
from svr_async.serving.engine import Engine, EngineLike, opened
from svr_async.serving.pairs import PairVerdict, all_of, decide_pair, judge_of, method_of, score_pair
from svr_async.serving.texts import PromptLike, ResponseLike

if TYPE_CHECKING:
    from svr_async.training.settings import TrainingListener, TrainSettings

Place = str | os.PathLike[str]
S = TypeVar("S")


class DataOptions(TypedDict, total=False):
    """How pairs are read: `columns` and `label_map` as in docs/data.md; `limit` is N or A-B; `lenient` skips rows."""

    columns: str
    label_map: str
    limit: int | str
    lenient: bool


class EvalOptions(JudgeOptions, DataOptions, total=False):
    """The other options of `svr eval`; see `EvalSettings`."""

    jury: str
    jury_rule: str
    escalate_to: str
    escalate_below: float
    method: str
    rubrics: Place
    top_k: int
    rephrase: bool
    option: Sequence[str]
    data: Place
    sample: bool
    domain: Sequence[str]
    preset: str
    order: str
    audit: float
    audit_below: float
    salt: str
    tie_credit: str
    out: Place


class TrainOptions(JudgeOptions, DataOptions, total=False):
    """The other options of `svr train`; see `TrainSettings`."""

    author: str
    rounds: int
    preset: str
    publish: str
    pool: str
    pool_size: int
    rubrics_per_call: int
    top_k: int
    ablate: Sequence[str]
    dev_share: float
    same_criterion: str
    decontaminate: Sequence[str]
    seed: int
    learning_curve: bool
    licence: str
    out: Place


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Bank(RubricBank):
    """A bank of weighted rubrics that predicts which of two responses is better.

    `path` is the folder or hub address that it was read from. `judge=` of each method is a judge's name, an open
    `Engine` or a `Judge`; by default the judge that trained the bank, in `engine` if `train` has just returned it.

    >>> import svr_async as svr
    >>> pairs = [{"prompt": f"Double {n}?", "chosen": f"{2 * n}.", "rejected": "Great question!"} for n in range(60)]
    >>> bank = svr.train(pairs, judge="rules", rounds=1)
    >>> bank.predict([{"prompt": "Double 70?", "response_a": "Great question!", "response_b": "140."}])
    array(['B'], dtype=object)
    >>> bank.score(pairs)
    1.0
    """

    path: str = ""
    engine: Engine | None = None

    @classmethod
    def load(cls, folder: Place, *, offline: bool = False) -> Self:
        """Read and check a bank: a folder, or `hf:user/name` of the hub; `offline` uses downloaded files only.

        UsageError if it is missing, ArtefactError if it fails a check.
        """
        return cls._of(RubricBank.load(str(folder), offline=offline), path=str(folder))

    @classmethod
    def _of(cls, bank: RubricBank, **more: Any) -> Self:
        return cls(**{field.name: getattr(bank, field.name) for field in fields(RubricBank)}, **more)

    def predict(self, pairs: Pairs, *, judge: EngineLike | None = None, columns: str = "") -> NDArray[np.object_]:
        """Return for each pair "A" if its first response is better, "B" for the second, None for a tie or no verdict.

        The first response is response_a, or `chosen` in rows of chosen and rejected; labels are not read.
        """
        return np.array(run_sync(self._winners(read_unlabelled(pairs, columns), judge)), dtype=object)

    def score(self, pairs: Pairs, *, judge: EngineLike | None = None, columns: str = "", label_map: str = "") -> float:
        """Return the accuracy on labelled pairs, a fraction of 1; ties and missing verdicts are wrong."""
        labelled = PAIRS.load(pairs, columns=columns, label_map=label_map).pairs
        winners = run_sync(self._winners(labelled, judge))
        return sum(won == pair.gold for won, pair in zip(winners, labelled, strict=True)) / len(labelled)

    def explain(
        self, prompt: PromptLike, a: ResponseLike, b: ResponseLike, *, judge: EngineLike | None = None
    ) -> PairVerdict:
        """Judge two responses and return the margin with the contribution of each rubric."""
        return score_pair(prompt, a, b, bank=self, engine=self._engine_for(judge))

    def _engine_for(self, judge: EngineLike | None) -> EngineLike:
        asked = judge or self.engine or self.judge.partition(" (")[0]  # without "(offline checks, no model)"
        if not asked:
            raise UsageError("the bank does not record its judge", hint="name one: judge='gpt-4o-mini'")
        return asked

    async def _winners(self, pairs: Sequence[PreferencePair], judge: EngineLike | None) -> list[str | None]:
        async with opened(self._engine_for(judge)) as engine:
            method, asked = method_of(self, engine), judge_of(engine)

            async def winner(pair: PreferencePair) -> str | None:
                decision = await decide_pair(method, asked, pair.prompt, pair.response_a, pair.response_b)
                return None if decision.preferred is None else decision.preferred.value

            return await all_of(winner, pairs, engine)


async def aevaluate(
    pairs: Pairs | None = None,
    *,
    judge: str = "",
    benchmark: str = "",
    bank: RubricBank | Place | None = None,
    listener: Listener | None = None,
    **options: Unpack[EvalOptions],
) -> Run:
    """Judge labelled pairs, write a run folder and return the run; the same call continues one that ended early.

    Args:
        pairs: a path, `hf:org/name`, a list of dictionaries, a pandas DataFrame, an Arrow table or a Hugging Face
            Dataset, with the columns of docs/data.md. Pairs in memory are stored in the run folder.
        judge: a name of `svr judges`, `URL#model`, `rm:URL`, or `rules` (offline checks, no model).
        benchmark: a name of `svr data ls`, in place of `pairs`.
        bank: a `Bank`, its folder or `hf:user/name`; without one the judge is asked directly.
        listener: receives the progress.
        options: the other options of `svr eval`. `out` is the run folder, by default
            `runs/<data>-<method>-<judge>-<digest>`; `budget` is in USD.

    SvrError if the run is impossible, or ends early; the folder then holds what was judged.

    >>> import svr_async as svr
    >>> run = svr.evaluate(benchmark="rubricbench", sample=True, judge="rules")
    >>> f"{run.accuracy:.0%} of {len(run.items)} pairs"
    '50% of 66 pairs'
    """
    return await run_prepared(_prepared(pairs, judge, benchmark, bank, options), listener or Listener())


evaluate = in_sync(aevaluate)


def _prepared(
    pairs: Pairs | None, judge: str, benchmark: str, bank: RubricBank | Place | None, options: EvalOptions
) -> PreparedRun:
    if (pairs is None) == (not benchmark) or (pairs is not None and "data" in options):
        raise UsageError("give pairs, or benchmark= without pairs", hint="svr data ls lists the benchmarks")
    if isinstance(pairs, str) and pairs in ADAPTERS and not Path(pairs).exists():
        raise UsageError(f"{pairs} is a benchmark, not a file of pairs", hint=f"benchmark={pairs!r} without pairs")
    if isinstance(bank, RubricBank):
        if not (path := getattr(bank, "path", "")):
            raise UsageError("the bank is not stored", hint="bank.save(folder), then bank=folder")
        bank = path
    values = {"judge": judge, "benchmark": benchmark or PAIRS.name, "bank": None if bank is None else str(bank)}
    if pairs is None or isinstance(pairs, str | os.PathLike):
        data = {} if pairs is None else {"data": Path(pairs)}
        return prepare(_settings(EvalSettings, options, EvalOptions, **values, **data))
    settings = _settings(EvalSettings, options, EvalOptions, **values)
    run = prepare(settings, _read(pairs, settings))
    return replace(run, settings=replace(settings, data=run.folder / PAIRS_FILE, columns="", label_map=""))


def _read(pairs: Pairs, how: EvalSettings | TrainSettings) -> Dataset:
    return PAIRS.load(pairs, lenient=how.lenient, columns=how.columns, label_map=how.label_map)


def _settings(kind: Callable[..., S], options: Mapping[str, Any], known: Any, **values: Any) -> S:
    """Return settings made of a call's options; UsageError for an unknown option."""
    check_options(options, known)
    limits = JudgeOptions.__annotations__.keys() - {"base_url"}
    own = {name: value for name, value in options.items() if name not in limits}
    given = {name: options[name] for name in limits if name in options}
    return kind(**own, **values, limits=JudgeLimits.from_flags(given))


async def atrain(
    pairs: Pairs, *, judge: str, listener: TrainingListener | None = None, **options: Unpack[TrainOptions]
) -> Bank:
    """Train a bank of rubrics on labelled pairs; the same call continues a training that ended early.

    Args:
        pairs: as of `evaluate`; some hundreds at least. A tenth is held out to choose the round.
        judge: as of `evaluate`; it also writes the rubrics unless `author` names another.
        listener: receives the progress.
        options: the other options of `svr train`. `out` is the folder of the training, by default
            `banks/<data>-<judge>-<digest>`; the bank is in its folder `bank`.

    UsageError for a benchmark and for pairs that teach nothing; SvrError if the training ends early.

    >>> import svr_async as svr
    >>> pairs = [{"prompt": f"Double {n}?", "chosen": f"{2 * n}.", "rejected": "Great question!"} for n in range(60)]
    >>> svr.train(pairs, judge="rules", rounds=1, out="banks/mine").path
    'banks/mine/bank'
    """
    from svr_async.training.settings import TrainSettings
    from svr_async.training.train import atrain as train_bank

    name = Path(pairs if isinstance(pairs, str | os.PathLike) else type(pairs).__name__)
    settings = _settings(TrainSettings, {"out": "", **options}, TrainOptions, pairs=name, judge=judge)
    dataset = _read(pairs, settings)
    if "out" not in options:
        names = [field.name for field in fields(settings) if field.name not in {"pairs", "out", "limits"}]
        made_of = [dataset.digest, settings.limits.prompts, *(getattr(settings, name) for name in names)]
        digest = hashlib.sha256(repr(made_of).encode()).hexdigest()
        judged = "".join(c if c.isalnum() or c in "-_.+" else "-" for c in settings.spec.name)[:60]
        settings = replace(settings, out=Path("banks") / f"{name.stem}-{judged}-{digest[:8]}")
    result = await run_on_own_loop(train_bank(settings, listener, dataset))
    engine = Engine.limited(judge, settings.limits, base_url=settings.base_url)
    return Bank._of(result.bank, path=str(result.folder / "bank"), engine=engine)  # noqa: SLF001  (same module)


train = in_sync(atrain)


def compare(first: Run | Place, second: Run | Place, *more: Run | Place) -> Comparison:
    """Compare runs over the same pairs: accuracies, exact paired tests, and the pairs that one run alone has right.

    Each later run is tested against the first. UsageError if a run shares no labelled pair with it.

    >>> import svr_async as svr
    >>> pairs = [{"prompt": f"Double {n}?", "chosen": f"{2 * n}.", "rejected": "Great question!"} for n in range(60)]
    >>> runs = [svr.evaluate(pairs, judge="rules", order=order, out=f"runs/{order}") for order in ("hash", "both")]
    >>> svr.compare(*runs)
    <Comparison of 2 runs: No difference shown on 60 shared pairs: the gap of 0.0 points may be chance.>
    """
    runs = (first, second, *more)
    return compare_runs([run if isinstance(run, Run) else Run.load(run) for run in runs])
