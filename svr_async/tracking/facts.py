"""What trackers are told: of an evaluation from its folder, of a training or a fit from the bank and its record."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from svr_async.core.dev_pairs import enough
from svr_async.core.integrity import Mark, integrity_marks
from svr_async.core.provenance import command_line, versions
from svr_async.core.statistics import wilson_interval
from svr_async.evaluation.labels import marks
from svr_async.evaluation.run_folder import RunFolder
from svr_async.scoring.bank import RubricBank
from svr_async.scoring.bank_files import PACKAGES
from svr_async.tracking.contract import Tracked, flat_numbers, flat_settings

MOST_BYTES = 64 << 20  # of a report that goes with a run
OF_THE_MACHINE = ("cache", "out", "dry_run", "resume", "force")  # settings that say nothing of the run


def of_evaluation(folder: Path) -> Tracked:
    """Return what is told of the run in a folder; the errors of `RunFolder.load` where there is none."""
    run = RunFolder.load(folder, ())
    config = {name: value for name, value in run.manifest["config"].items() if name not in OF_THE_MACHINE}
    data = run.manifest.get("data") or {}
    told = {"digest": run.manifest.get("digest"), "data_digest": data.get("digest"), "judge_label": run.judge_label}
    about = {"command": run.manifest.get("command"), "versions": run.manifest.get("versions")}
    return Tracked(
        kind="eval",
        name=run.name,
        **_labelled(marks(run)),
        settings=flat_settings({**config, **told, **about, "method": run.metrics["method"]}),
        metrics=flat_numbers(run.metrics),
        files=_small((RunFolder(folder).report,)),
    )


def of_training(kind: str, out: Path, settings: Mapping[str, Any], record: Mapping[str, Any]) -> Tracked:
    """Return what is told of the training or fit whose bank is in `out`/bank: `record` is what it printed of itself."""
    bank = RubricBank.load(out / "bank")
    kept = {name: value for name, value in settings.items() if name not in OF_THE_MACHINE}
    told = {"judge_label": bank.judge, "bank_digest": bank.digest, "data_digests": dict(bank.data_digests)}
    about = {"command": command_line(), "versions": versions(PACKAGES)}
    return Tracked(
        kind=kind,
        name=out.resolve().name,
        **_labelled(integrity_marks(bank.integrity)),
        settings=flat_settings({**kept, **told, **about, "fit": bank.fit_settings}),
        metrics={"rubrics": float(len(bank)), **_told(record), **_accuracy(bank)},
        series=[(int(each["round"]), _told(each, "round/", record)) for each in record.get("rounds", ())],
        files=_small((out / "report.html",)),
    )


def _told(values: Mapping[str, Any], prefix: str = "", record: Mapping[str, Any] | None = None) -> dict[str, float]:
    """Return the numbers of a record, without accuracies that its dev pairs are too few to tell."""
    few = not enough((values if record is None else record)["dev_pairs"])
    found = flat_numbers(values, prefix)
    return {name: value for name, value in found.items() if not (few and "accuracy" in name)}


def _accuracy(bank: RubricBank) -> dict[str, float]:
    """Return the accuracy on the dev split with its 95 % interval, where there are pairs enough to tell one."""
    accuracy, pairs = bank.dev_metrics.get("accuracy"), bank.dev_metrics.get("pairs")
    if not isinstance(accuracy, float) or not isinstance(pairs, int) or not enough(pairs):
        return {}
    interval = list(wilson_interval(accuracy * pairs, pairs))
    return flat_numbers({"dev_accuracy": accuracy, "dev_accuracy_ci95": interval})


def _labelled(found: Iterable[Mark]) -> dict[str, Any]:
    held = list(found)
    return {"labels": [mark.word for mark in held], "note": " ".join(f"{mark.word}: {mark.text}" for mark in held)}


def _small(files: Iterable[Path]) -> list[str]:
    """Return the files that are there and small enough to be copied."""
    return [str(file.resolve()) for file in files if file.is_file() and file.stat().st_size <= MOST_BYTES]
