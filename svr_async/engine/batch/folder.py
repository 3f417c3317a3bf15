"""The folder of an export: what was exported (export.json) and what became of it at the endpoint (batch.json)."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import orjson

from svr_async.engine.batch.requests import RequestFile, file_sha256
from svr_async.engine.secrets import is_base_url
from svr_async.errors import ArtefactError, StorageError, SvrError, UsageError
from svr_async.vocabulary.atomic import reason, write_atomic
from svr_async.vocabulary.fitting import misfit

FORMAT = 1
EXPORT = "export.json"
STATE = "batch.json"
ENDED = frozenset({"completed", "failed", "expired", "cancelled"})
REMOVE = "export again into another folder"
NAMED = re.compile(r"requests-[0-9]{4,9}\.jsonl")  # as `requests.NAME` calls them


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    """What was exported: the command whose calls these are, their endpoint, the files, what a dry run counts.

    `key_env` names the variable with the key; the key itself is nowhere. `digest` is that of all cache keys.
    """

    command: tuple[str, ...]
    judge: str
    model: str
    base_url: str
    key_env: str
    version: str
    created: str
    digest: str
    files: tuple[RequestFile, ...]
    plan: Mapping[str, Any]

    @property
    def requests(self) -> int:
        """How many requests were exported."""
        return sum(file.requests for file in self.files)


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """One file at the endpoint. `asking` is set before a batch is asked for, so that a lost answer is looked up.

    `tries` counts the batches asked for: a second one only where the first failed as a whole, with nothing done.
    `status` and the counts are the endpoint's, as of `seen` (Unix seconds); `output` and `errors` are its file ids.
    """

    file: str
    sha256: str
    file_id: str = ""
    asking: bool = False
    tries: int = 0
    batch_id: str = ""
    status: str = ""
    done: int = 0
    failed: int = 0
    total: int = 0
    created: int = 0
    seen: int = 0
    output: str = ""
    errors: str = ""
    problem: str = ""

    @property
    def ended(self) -> bool:
        """Whether the endpoint will do nothing more for it."""
        return self.status in ENDED


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """What became of an export at an endpoint, a submission for each of its files."""

    digest: str
    base_url: str
    window: str
    batches: tuple[Submission, ...]

    def with_batch(self, changed: Submission) -> State:
        """Return the state with one submission replaced."""
        batches = tuple(changed if one.file == changed.file else one for one in self.batches)
        return replace(self, batches=batches)


def save_export(folder: Path, export: Export) -> None:
    """Write export.json; it comes last, so that a folder with it is whole."""
    write_atomic(folder / EXPORT, _json({"format": FORMAT, **asdict(export)}), hint="name another folder")


def load_export(folder: Path, *, checked: bool = False) -> Export:
    """Read export.json; UsageError where there is none, ArtefactError where it is damaged.

    With `checked` the files of requests are compared with their digests too.
    """
    if not (folder / EXPORT).exists():
        raise UsageError(f"{folder} holds no export", hint="svr batch export FOLDER eval … makes one")
    value = _load(folder / EXPORT)
    try:
        files = tuple(RequestFile(**row) for row in value.pop("files"))
        export = Export(**{**value, "command": tuple(value["command"]), "files": files})
        good = all(_is_ours(file.name) for file in files) and not any(map(misfit, (export, *files)))
        good = good and not any("\0" in word for word in export.command)  # no command line can hold one
        good = good and is_base_url(export.base_url)
    except (TypeError, KeyError, AttributeError):
        good = False
    if not good:
        raise ArtefactError(f"{folder / EXPORT} is damaged", hint=REMOVE)
    if checked:
        _check_files(folder, export)
    return export


def _check_files(folder: Path, export: Export) -> None:
    for file in export.files:
        path = folder / file.name
        try:
            same = file_sha256(path) == file.sha256
        except OSError as error:
            raise ArtefactError(f"{path} cannot be read: {reason(error)}", hint=REMOVE) from error
        if not same:
            raise ArtefactError(f"{path} was changed since it was exported", hint=REMOVE)


def save_state(folder: Path, state: State) -> None:
    """Write batch.json whole; it is durable when this returns."""
    write_atomic(folder / STATE, _json({"format": FORMAT, **asdict(state)}), hint="make the folder writable")


def load_state(folder: Path, export: Export) -> State | None:
    """Read batch.json, or None where nothing was submitted; ArtefactError where it is damaged or of another export."""
    path = folder / STATE
    if not path.exists():
        return None
    value = _load(path)
    hint = "mend it from a copy, or look up the ids with the endpoint: without them the batch would be paid for twice"
    try:
        batches = tuple(Submission(**row) for row in value.pop("batches"))
        state = State(**value, batches=batches)
        good = not any(map(misfit, (state, *batches))) and is_base_url(state.base_url)
    except (TypeError, KeyError, AttributeError):
        good = False
    if not good:
        raise ArtefactError(f"{path} is damaged", hint=hint)
    submitted, exported = [(b.file, b.sha256) for b in batches], [(f.name, f.sha256) for f in export.files]
    if state.digest != export.digest or submitted != exported:
        raise ArtefactError(f"{path} belongs to another export", hint=hint)
    return state


def fresh_state(export: Export, base_url: str, window: str) -> State:
    """Return the state of an export of which nothing was submitted yet."""
    batches = tuple(Submission(file=file.name, sha256=file.sha256) for file in export.files)
    return State(digest=export.digest, base_url=base_url, window=window, batches=batches)


def result_path(folder: Path, submission: Submission, kind: str) -> Path:
    """Return where the results (`results`) or the failures (`errors`) of a file of requests are downloaded to."""
    return folder / submission.file.replace("requests-", f"{kind}-")


def result_paths(folder: Path) -> tuple[Path, ...]:
    """Return the files of results and failures that lie in a folder, downloaded ones and those of `vllm run-batch`."""
    return tuple(sorted([*folder.glob("results-*.jsonl"), *folder.glob("errors-*.jsonl")]))


def awaited_in(folder: Path) -> list[Path]:
    """Return the files of requests in a folder that are at an endpoint, with results that are not here yet."""
    with contextlib.suppress(SvrError):  # what is damaged there is not this question's to say
        state = load_state(folder, load_export(folder))
        return [folder / one.file for one in (state.batches if state else ()) if _is_awaited(folder, one)]
    return []


def awaited_beside(folder: Path) -> list[Path]:
    """Return such files of all other folders beside this one."""
    others = sorted({path.parent for path in folder.absolute().parent.glob(f"*/{STATE}")} - {folder.absolute()})
    return [path for other in others for path in awaited_in(other)]


def _is_awaited(folder: Path, one: Submission) -> bool:
    wanted = [kind for kind, name in (("results", one.output), ("errors", one.errors)) if name]
    here = all(result_path(folder, one, kind).exists() for kind in wanted)
    return bool(one.batch_id or one.asking) and not (one.ended and here)


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Hold the folder for this process; UsageError where another one works in it. The hold ends with the process."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise StorageError(f"cannot open {folder}: {reason(error)}", hint="name another folder") from error
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(f"another svr batch works in {folder}", hint="wait for it to end") from None
        yield
    finally:
        os.close(handle)


def _load(path: Path) -> dict[str, Any]:
    try:
        value = orjson.loads(path.read_bytes())
    except OSError as error:
        raise StorageError(f"cannot read {path}: {reason(error)}", hint="make it readable") from error
    except orjson.JSONDecodeError as error:
        raise ArtefactError(f"{path} is damaged: it is not JSON", hint=REMOVE) from error
    if not isinstance(value, dict) or value.pop("format", None) != FORMAT:
        raise ArtefactError(f"{path} has a format that this version does not read", hint=REMOVE)
    return value


def _is_ours(name: Any) -> bool:
    """Whether a file of requests is called as exports call it: results are written beside it, under a name like it."""
    return isinstance(name, str) and NAMED.fullmatch(name) is not None


def _json(value: Mapping[str, Any]) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_INDENT_2)
