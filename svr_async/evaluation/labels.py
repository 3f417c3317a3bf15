"""Titles of runs, and marks: caveats on their numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from svr_async.adapters import ADAPTERS, Adapter
from svr_async.core.integrity import Integrity, Mark, integrity_marks
from svr_async.evaluation.run_folder import Run
from svr_async.evaluation.wording import count, plural
from svr_async.scoring.methods.simple import PREFERS

SAMPLE_SUFFIX = "-sample"  # after a benchmark's name: the shipped sample was judged in its format


def adapter_of(metrics: Mapping[str, Any]) -> Adapter | None:
    """Return the adapter of a run's benchmark, or of that of its sample; None if unknown."""
    return ADAPTERS.get(str(metrics["benchmark"]).removesuffix(SAMPLE_SUFFIX))


def benchmark_name(run: Run) -> str:
    """Return the benchmark's name as its authors write it."""
    key = str(run.metrics["benchmark"])
    plain = key.removesuffix(SAMPLE_SUFFIX)
    adapter = adapter_of(run.metrics)
    name = adapter.title if adapter else plain
    return name if plain == key else f"{name} sample"


def run_title(run: Run) -> str:
    """Return `method · judge label`."""
    return f"{run.metrics['method']} · {run.judge_label}"


def run_titles(runs: Sequence[Run]) -> tuple[str, ...]:
    """Return a title for each run; equal titles get the folder's name, then a number."""
    titles = [run_title(run) for run in runs]
    titles = [f"{t} · {run.name}" if titles.count(t) > 1 else t for t, run in zip(titles, runs, strict=True)]
    return tuple(f"{t} ({i})" if titles.count(t) > 1 else t for i, t in enumerate(titles, start=1))


def marks(run: Run) -> tuple[Mark, ...]:
    """Return the caveats of a run, the gravest first; none for a finished run of a real judge on official data."""
    found = (_partial(run), *integrity_marks(run.integrity), _sample(run), _unofficial(run), _blind(run))
    return tuple(mark for mark in found if mark is not None)


def mark_words(run: Run) -> tuple[str, ...]:
    """Return the caveats as words for a caption, as `("PARTIAL", "SIMULATED")`."""
    return tuple(mark.word for mark in marks(run))


def caption(run: Run) -> str:
    """Return benchmark, method, judge label and marks in one line."""
    words = "".join(f" [{word}]" for word in mark_words(run))
    return f"{benchmark_name(run)} · {run_title(run)}{words}"


def _partial(run: Run) -> Mark | None:
    if run.complete:
        return None
    planned = (run.manifest.get("data") or {}).get("n_pairs")
    done, total = run.metrics["n_scored"], planned if isinstance(planned, int) else run.metrics["n_total"]
    text = f"The run did not finish: {count(done)} of {plural(total, 'pair')} have a verdict. Its numbers will change."
    return Mark(word="PARTIAL", text=text)


def _sample(run: Run) -> Mark | None:
    if run.manifest.get("sample") is not True:
        return None
    text = "The small sample that ships with the package was judged, not the benchmark itself."
    return Mark(word="SAMPLE DATA", text=text)


def _unofficial(run: Run) -> Mark | None:
    data: Mapping[str, Any] = run.manifest.get("data") or {}
    adapter = ADAPTERS.get(str(run.metrics["benchmark"]))
    if data.get("official") is not False or adapter is None or adapter.training:
        return None
    notes = data.get("notes") or ()
    why = "; ".join(str(note) for note in notes) if isinstance(notes, list | tuple) else str(notes)
    text = "The data does not have the official counts, so the scores are not comparable with published ones."
    return Mark(word="NOT OFFICIAL COUNTS", text=f"{text} {why}".strip())


def _blind(run: Run) -> Mark | None:
    if Integrity.CONTENT_BLIND not in run.integrity:
        return None
    prefers = PREFERS.get(str(run.metrics["method"]))
    always = f": it always prefers {prefers}" if prefers else ""
    return Mark(word="CONTENT-BLIND", text=f"A baseline that reads nothing{always}.")
