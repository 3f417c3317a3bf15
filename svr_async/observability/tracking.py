"""Hand a run that has ended to experiment trackers. Its numbers are those of its summary.

Each tracker runs in a separate process with a time limit: a failure costs the run one line.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import msgspec

from svr_async import errors
from svr_async.core.integrity import Mark
from svr_async.core.statistics import Interval
from svr_async.core.verdict import is_number
from svr_async.engine.secrets import environment_secrets
from svr_async.evaluation.run_folder import Run
from svr_async.observability import trackers
from svr_async.observability.trackers import TrackedRun
from svr_async.reports.bank_summary import summarise_bank
from svr_async.reports.facts import cost_facts, flat_facts, how_facts
from svr_async.scoring.bank import RubricBank
from svr_async.scoring.provenance import command_line

LIMIT_S = 180.0  # a first run creates MLflow's database: a minute on a slow disk
MAX_FILE_BYTES = 64 << 20
MAX_CHARS = 300
LOCAL_SETTINGS = ("cache", "out", "dry_run", "resume", "force")  # they do not describe the run


def evaluation_facts(folder: Path) -> TrackedRun:
    """Return the facts of an evaluation; the errors of `Run.load` if it is missing."""
    run = Run.load(folder)
    summary, config = run.summary, flat_facts(run.manifest["config"])
    facts = [*config, *how_facts(summary), *cost_facts(summary.metrics)]
    metrics: dict[str, float] = {"tokens_per_pair": summary.tokens_per_pair}
    for number in summary.numbers:
        grouped = number.group in {"domain", "subset", "outcome"}
        name = f"{number.group}/{number.name}" if grouped else number.key
        metrics |= dict(_with_interval(name, number.value, number.ci95))
    return TrackedRun(
        kind="eval",
        name=summary.name,
        **_common(folder, summary.marks, {fact.name: fact.value for fact in facts} | {"judge_label": summary.judge}),
        metrics=metrics,
    )


def training_facts(kind: str, out: Path, settings: Mapping[str, Any], record: Mapping[str, Any]) -> TrackedRun:
    """Return the facts of a training or fit whose bank is in `out`/bank; `record` is the result as printed."""
    bank = RubricBank.load(out / "bank")
    summary = summarise_bank(bank)

    def numbers(values: Mapping[str, Any], prefix: str = "") -> dict[str, float]:
        """Return plain numbers; accuracies only if there are enough held-out pairs for the summary to have one."""
        kept = {name: value for name, value in values.items() if is_number(value)}
        return {
            f"{prefix}{n}": float(v) for n, v in kept.items() if "accuracy" not in n or summary.accuracy is not None
        }

    made = {"command": " ".join(command_line()), "judge_label": summary.judge, "bank_digest": bank.digest}
    given = {fact.name: fact.value for fact in (*flat_facts(settings), *summary.settings)}
    return TrackedRun(
        kind=kind,
        name=out.resolve().name,
        **_common(out, summary.marks, given | made),
        metrics=numbers(record)
        | {"rubrics": float(summary.n_rubrics)}
        | dict(_with_interval("dev_accuracy", summary.accuracy, summary.ci95)),
        series=[(int(each["round"]), numbers(each, "round/")) for each in record.get("rounds", ())],
    )


def _common(folder: Path, marks: Sequence[Mark], settings: Mapping[str, str]) -> dict[str, Any]:
    file = folder / "report.html"
    small = file.is_file() and file.stat().st_size <= MAX_FILE_BYTES
    return {
        "labels": [mark.word for mark in marks],
        "note": " ".join(f"{mark.word}: {mark.text}" for mark in marks),
        "settings": {n: v for n, v in settings.items() if n not in LOCAL_SETTINGS and v not in {"", "null", "[]"}},
        "files": [str(file.resolve())] if small else [],
    }


def _with_interval(name: str, value: float | None, ends: Interval | None) -> Iterator[tuple[str, float]]:
    if value is not None:
        yield name, float(value)
    if ends is not None:
        yield from zip((f"{name}/low", f"{name}/high"), map(float, ends), strict=True)


def hand_over(
    names: Sequence[str], facts: Callable[[], TrackedRun], say: Callable[[str], None], *, limit_s: float = LIMIT_S
) -> None:
    """Store a run in each tracker; `say` gets one line for each: its place, or a warning. Nothing is raised."""
    if not names:
        return
    secrets = environment_secrets()
    try:
        data = secrets.mask_bytes(msgspec.json.encode(facts()))
    except Exception as error:  # noqa: BLE001  (the run is complete: no error may cost it now)
        say(f"warning: this run is not in {', '.join(names)}: {type(error).__name__}: {error}")
        return
    for name in names:
        stored, line = _store(name, data, limit_s)
        say(secrets.mask(f"{name}: {line}" if stored else f"warning: this run is not in {name}: {line}"))


def _store(name: str, data: bytes, limit_s: float) -> tuple[bool, str]:
    """Run a tracker; return whether it stored the run, and where, or why not."""
    root = str(Path(errors.__file__).parents[1])  # a checkout need not be installed
    path = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
    command = [sys.executable, "-P", "-m", trackers.__name__, name]  # -P: nothing is imported from the working folder
    # Files, not pipes: a tracker's helpers may hold a pipe open long after it has ended.
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        try:
            done = subprocess.run(  # noqa: S603
                command, input=data, stdout=out, stderr=err, timeout=limit_s, check=False,
                env={**trackers.DEFAULTS, **os.environ, "PYTHONPATH": path},
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return False, f"no answer in {limit_s:.0f} s"
        except OSError as error:
            return False, str(error.strerror)
        if done.returncode == 0:
            return True, _last_line(out)
        return False, _last_line(err) or f"it ended with {done.returncode}"


def _last_line(file: IO[bytes]) -> str:
    file.seek(0)
    lines = [line for line in file.read().decode("utf-8", "replace").splitlines() if line.strip()]
    return "".join(char for char in lines[-1] if char.isprintable())[:MAX_CHARS] if lines else ""
