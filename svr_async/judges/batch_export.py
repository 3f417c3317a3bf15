"""An export: a run's missing calls to one endpoint in a folder of batch files, each call in one export only."""

from __future__ import annotations

import contextlib
import shlex
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from svr_async.engine.batch.folder import EXPORT, Export, alone, awaited_beside, load_export, save_export
from svr_async.engine.batch.reader import CallCount
from svr_async.engine.batch.requests import BatchLimits, RequestFiles
from svr_async.engine.batch.results import DamagedLineError, custom_ids
from svr_async.engine.request import Question
from svr_async.errors import UsageError
from svr_async.judges.batch_run import BatchRun, collect
from svr_async.judges.profile import Profile
from svr_async.version import __version__
from svr_async.vocabulary.folders import open_folder


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """What an export came to; `export` is None where nothing was missing, `again` where the folder had it already."""

    export: Export | None
    planned: CallCount
    requests: int
    too_long: int
    cache_hits: int
    again: bool


def export(run: BatchRun, profile: Profile, folder: Path, words: tuple[str, ...], limits: BatchLimits) -> Exported:
    """Write the calls of a run that have no answer; UsageError where the folder holds another export.

    `words` are the command that makes the run.
    """
    open_folder(folder)
    with alone(folder), RequestFiles(folder, limits, dry=(folder / EXPORT).exists()) as files:
        planned = CallCount()

        def take(question: Question[Any]) -> None:
            if files.add(question.request):
                planned.add(question)

        cache_hits = collect(run, profile, take)
        return Exported(
            export=_settled(folder, profile, words, files, planned),
            planned=planned,
            requests=len(files.keys),
            too_long=files.too_long,
            cache_hits=cache_hits,
            again=files.dry,
        )


def _settled(
    folder: Path, profile: Profile, words: tuple[str, ...], files: RequestFiles, planned: CallCount
) -> Export | None:
    """Return the export that the folder holds now: a new one, or the same as before; None where there is nothing."""
    if not files.dry:
        if not files.keys:
            return None
        _refuse_twice(folder, files.keys)
        export = _export_of(profile, words, files, planned)
        save_export(folder, export)
        return export
    held = load_export(folder, checked=True)
    if held.digest != files.digest:
        raise UsageError(
            f"{folder} holds another export: {held.requests:,} requests of svr {shlex.join(held.command)}"[:400],
            hint=f"name another folder, e.g. {next_folder(folder)}",
        )
    return held


def _refuse_twice(folder: Path, keys: set[bytes]) -> None:
    """Refuse requests that are in a batch already whose results are still to come: they would be paid for twice."""
    for path in awaited_beside(folder):
        again = 0
        with contextlib.suppress(DamagedLineError, OSError):
            again = sum(key in keys for key in custom_ids(path))
        if again:
            raise UsageError(
                f"{again:,} of these requests are in {path.parent.name} too, whose batch is not imported yet",
                hint=f"svr batch import {path.parent.name} --wait, or svr batch cancel {path.parent.name}, comes first",
            )


def next_folder(folder: Path) -> Path:
    """Return the name of the next export's folder: batch, batch-2, batch-3."""
    stem, dash, number = folder.name.rpartition("-")
    if dash and number.isdecimal():
        return folder.with_name(f"{stem}-{int(number) + 1}")
    return folder.with_name(f"{folder.name}-2")


def _export_of(profile: Profile, words: tuple[str, ...], files: RequestFiles, planned: CallCount) -> Export:
    return Export(
        command=words,
        judge=profile.name,
        model=profile.model,
        base_url=profile.base_url,
        key_env=profile.key_env,
        version=__version__,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        digest=files.digest,
        files=files.finish(),
        plan=tokens_of(planned) | {"usd": planned.dollars(profile.price)},
    )


def tokens_of(planned: CallCount) -> dict[str, Any]:
    """Return the calls and tokens of an export, for a record."""
    return {
        "calls": planned.calls,
        "prompt_tokens": planned.prompt_tokens,
        "completion_tokens": planned.completion_tokens,
        "max_completion_tokens": planned.max_completion_tokens,
    }
