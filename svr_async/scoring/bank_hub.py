"""Banks on the Hugging Face hub: fetch one by name, upload one, download one into a folder."""

from __future__ import annotations

import logging
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from svr_async.core.files import HUB_SCHEME, first_line, hub_server, reachable, reason, sync_folder
from svr_async.errors import ArtefactError, StorageError, SvrError, UsageError
from svr_async.scoring.bank import RubricBank
from svr_async.scoring.bank_card import OnHub, render_card
from svr_async.scoring.bank_files import (
    BANK,
    CARD,
    FILES,
    MAX_BYTES,
    bank_contents,
    bank_digest,
    load_bank,
    save_bank,
)  # fmt: skip
from svr_async.scoring.provenance import Provenance, without_folders

README = "README.md"  # the hub shows it as the repository's card
DOWNLOADS = Path("cache/banks")
FETCH_HINT = "check the name and the network, or copy its files into a folder and name that"
_REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+", re.ASCII)
_REVISION = re.compile(r"[A-Za-z0-9][\w./-]*", re.ASCII)  # a branch, a tag, refs/pr/1, or a commit
_UNREACHABLE = re.compile(r"Connect(?:ion)?(?:Error|Timeout)|LocalEntryNotFoundError")
_STATUS = {
    401: "the repository does not exist, this token may not see it, or the token is not valid",
    403: "the token may not do this",
    404: "the repository or revision does not exist, or this token may not see it",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """The files to upload: those of a bank, and the repository's card."""

    repository: str
    files: Mapping[str, bytes]
    digest: str


def locate_bank(name: str, *, offline: bool = False) -> Path:
    """Return the folder of a bank: a path, or that of `hf:user/name`; `offline` uses only earlier downloads."""
    if not name.startswith(HUB_SCHEME):
        return Path(name)
    if not offline:
        return fetch_bank(name)
    folder = download_folder(name)
    if not (folder / BANK).is_file():
        raise UsageError(f"the bank {name} was not downloaded before", hint="leave --offline out once")
    return folder


def fetch_bank(name: str, *, endpoint: str | None = None) -> Path:
    """Download the bank `hf:user/name[@revision]` and return its folder.

    Only the files of a bank are downloaded. What was downloaded before is reused, also if the hub cannot be reached.
    `endpoint` (default: HF_ENDPOINT, else the public hub) names another server. UsageError if there is no bank.
    """
    repository, revision = name_parts(name)
    hub, target, server = _library(), download_folder(name), hub_server(endpoint)
    with _one_line(f"could not fetch the bank {name}", server, FETCH_HINT), _quiet(hub):
        _snapshot(hub, repository, revision, target, server)
    if not (target / BANK).is_file():
        raise _no_bank(repository)
    return target


def _snapshot(hub: Any, repository: str, revision: str, target: Path, server: str) -> None:
    hub.snapshot_download(
        repository, allow_patterns=list(FILES), revision=revision or None, local_dir=target, endpoint=server
    )


def download_folder(name: str) -> Path:
    """Return where the bank `hf:user/name@revision` is kept, a folder for each revision."""
    repository, revision = name_parts(name)
    return DOWNLOADS / f"{repository}{f'@{revision}' if revision else ''}".replace("/", "--")


def name_parts(name: str) -> tuple[str, str]:
    """Split `hf:user/name@revision`; UsageError if it is invalid or could leave the folder of downloads."""
    repository, mark, revision = name.removeprefix(HUB_SCHEME).partition("@")
    if mark and (not _REVISION.fullmatch(revision) or ".." in revision):
        raise UsageError(f"invalid revision {revision!r}", hint="write user/name@branch, @tag or @commit")
    if not _REPOSITORY.fullmatch(repository) or ".." in repository:
        raise UsageError(f"invalid name of a repository: {repository!r}", hint="write user/name")
    return repository, revision


def planned_upload(bank: RubricBank, name: str, *, licence: str = "", made: Provenance | None = None) -> Upload:
    """Return what `push_bank` uploads to `hf:user/name`; `licence` replaces the bank's on the card.

    UsageError if the name is invalid or has a revision.
    """
    repository, revision = name_parts(name)
    if revision:
        raise UsageError(f"{name}: a bank is uploaded as the newest commit", hint=f"write {HUB_SCHEME}{repository}")
    digest = bank_digest(bank)
    command, ran_with = ("", {}) if made is None else (without_folders(made.command), dict(made.versions))
    at = OnHub(name=HUB_SCHEME + repository, digest=digest, licence=licence, command=command, versions=ran_with)
    files = {name: data for name, data in bank_contents(bank).items() if name != CARD}
    return Upload(repository=repository, files={**files, README: render_card(bank, at).encode()}, digest=digest)


def push_bank(upload: Upload, *, private: bool = False, endpoint: str | None = None) -> str:
    """Upload a bank in one commit and return the commit's URL.

    The token comes from the hub's settings (`HF_TOKEN`, `hf auth login`). `private` applies to a new repository.
    UsageError in one line on failure.
    """
    hub, server = _library(), hub_server(endpoint)
    if not reachable(server):
        raise UsageError(f"no connection to {server}", hint="copy the folder")
    if not hub.get_token():
        raise UsageError("the hub needs a token", hint="set HF_TOKEN to one that may write, or hf auth login")
    hint = "check the name, the network and HF_TOKEN, or copy the folder"
    with (
        tempfile.TemporaryDirectory() as folder,
        _one_line(f"could not upload the bank to {upload.repository}", server, hint),
        _quiet(hub),
    ):
        for name, data in upload.files.items():
            (Path(folder) / name).write_bytes(data)
        api = hub.HfApi(endpoint=server)
        name = api.create_repo(upload.repository, private=private, exist_ok=True).repo_id
        message = f"Rubric bank {upload.digest[:12]}"
        return str(api.upload_folder(repo_id=name, folder_path=folder, commit_message=message).commit_url)


def pull_bank(name: str, out: Path, *, endpoint: str | None = None) -> tuple[RubricBank, str]:
    """Download the bank `hf:user/name[@revision]`, check all of it, then move it to `out` whole.

    Return the bank and its name with the commit, which stays valid when the repository changes. UsageError if there is
    no bank or `out` is not empty, ArtefactError if the bank is invalid.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageError(f"{out} exists already", hint="name another folder, or remove it")
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{out.name[:60]}.", suffix=".tmp", dir=out.parent) as passing:
        files = Path(passing) / "files"
        commit = _download(name, files, hub_server(endpoint))
        try:
            bank = load_bank(files, RubricBank)
        except SvrError as error:  # name the repository, not the temporary folder
            raise type(error)(error.message.replace(f"{files}{os.sep}", f"{name}: "), hint=error.hint) from error
        save_bank(bank, Path(passing) / "bank")
        try:
            (Path(passing) / "bank").rename(out)  # onto nothing, or an empty folder
        except OSError as error:
            raise StorageError(f"cannot write {out}: {reason(error)}", hint="name another folder") from error
        sync_folder(out.parent)
    return bank, f"{HUB_SCHEME}{name_parts(name)[0]}@{commit}"


def _download(name: str, target: Path, server: str) -> str:
    """Download the files of a bank at one commit, none larger than allowed, and return the commit."""
    repository, revision = name_parts(name)
    hub, problem = _library(), f"could not fetch the bank {name}"
    if not reachable(server):
        raise UsageError(f"{problem} (no connection to {server})", hint=FETCH_HINT)
    with _one_line(problem, server, FETCH_HINT), _quiet(hub):
        info = hub.HfApi(endpoint=server).model_info(repository, revision=revision or None, files_metadata=True)
        sizes = {file.rfilename: file.size or 0 for file in info.siblings or ()}
        if BANK not in sizes:
            raise _no_bank(repository)
        for file, most in MAX_BYTES.items():
            if sizes.get(file, 0) > most:
                raise ArtefactError(f"{repository}: {file} has {sizes[file]:,} bytes, at most {most:,} are allowed")
        _snapshot(hub, repository, info.sha, target, server)
    return str(info.sha)


def _no_bank(repository: str) -> UsageError:
    return UsageError(f"{repository} is not a bank: it has no {BANK}", hint="svr bank push uploads one")


def _library() -> Any:
    try:
        import huggingface_hub.utils
    except ImportError as error:
        hint = "pip install 'svr-async[hub]', or copy the bank's folder"
        raise UsageError("banks on the hub need huggingface-hub", hint=hint) from error
    return huggingface_hub


@contextmanager
def _quiet(hub: Any) -> Iterator[None]:
    """Silence the library's progress bars and warnings: a bank is small, and an error is one line."""
    shown, level = not hub.utils.are_progress_bars_disabled(), hub.utils.logging.get_verbosity()
    hub.utils.disable_progress_bars()
    hub.utils.logging.set_verbosity(logging.CRITICAL)
    try:
        yield
    finally:
        hub.utils.logging.set_verbosity(level)
        if shown:
            hub.utils.enable_progress_bars()


@contextmanager
def _one_line(problem: str, server: str, hint: str) -> Iterator[None]:
    """Turn the library's errors into a UsageError: in our words what users can fix, else in the library's."""
    try:
        yield
    except SvrError:
        raise
    except Exception as error:  # the library's errors differ by version: httpx, requests, its own
        why = first_line(error)
        status = getattr(getattr(error, "response", None), "status_code", None)
        if _UNREACHABLE.search(why):
            why = f"no connection to {server}"
        elif status in _STATUS:
            why = f"{why.rstrip('.: ')}: {_STATUS[status]}"
        raise UsageError(f"{problem} ({why})", hint=hint) from error
