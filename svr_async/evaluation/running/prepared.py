"""An evaluation that is settled and has begun nothing yet: its method, judges, pairs, identity and folder."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from svr_async.adapters import Dataset, get_adapter
from svr_async.adapters.pair_files import select_pairs
from svr_async.core.provenance import command_line
from svr_async.errors import UsageError
from svr_async.evaluation.running.data import load_dataset, pairs_of
from svr_async.evaluation.running.judges import SettledJudges, settle_judges
from svr_async.evaluation.running.method import choose_method
from svr_async.evaluation.running.record import RunRecord
from svr_async.evaluation.running.settings import EvalSettings
from svr_async.scoring.methods.contract import Method
from svr_async.version import __version__


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """An evaluation with everything that its settings name, read and checked."""

    settings: EvalSettings
    method: Method
    judges: SettledJudges
    record: RunRecord

    @property
    def folder(self) -> Path:
        """Where the run is written."""
        return self.settings.out or self.record.default_folder()


def prepare(settings: EvalSettings, dataset: Dataset | None = None) -> Prepared:
    """Settle method and judges and load the pairs, opening nothing; SvrError for what makes the run impossible.

    `dataset` is what the settings name, where the caller has read it already.
    """
    method = choose_method(settings)
    judges = settle_judges(settings, method)
    return Prepared(settings=settings, method=method, judges=judges, record=_record(settings, method, judges, dataset))


def _record(settings: EvalSettings, method: Method, judges: SettledJudges, dataset: Dataset | None) -> RunRecord:
    """Return what the run folder says about the run; its digest covers all that can change an item.

    It is that of the whole run, also where only a share of it is judged here.
    """
    adapter = get_adapter(settings.benchmark)
    dataset = load_dataset(settings, adapter) if dataset is None else dataset
    pairs = select_pairs(dataset.pairs, settings.limit, settings.domain)
    if method.facts.human_rubrics and not any(pair.rubrics for pair in pairs):
        raise UsageError(
            f"--method {method.name} judges the human rubrics of the data, and {dataset.source} has none",
            hint="--method self-rubric has the judge write them, --rubrics FILE gives yours",
        )
    identity = {
        "rubrics": [],
        "bank": None,
        **method.facts.identity,
        "version": __version__,
        "data": dataset.digest,
        "pairs": [len(pairs), pairs[0].id, pairs[-1].id],
        "domains": sorted(settings.domain),
        "method": method.name,
        "order": [settings.order, settings.audit, settings.salt],
        "tie_credit": settings.tie_credit,
        **judges.identity(),
    }
    return RunRecord(
        settings=settings,
        adapter=adapter,
        dataset=dataset,
        pairs=pairs_of(pairs, settings.limits.share),
        method=method.name,
        judge=judges.name,
        identity=identity,
        command=command_line(),
        prompts=judges.prompts,
        started=datetime.now(UTC),
    )
