"""Banks on the Hugging Face hub: uploading one in a single commit, downloading one and checking it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from svr_async.errors import UsageError
from svr_async.scoring.bank_content import BankContent
from svr_async.scoring.bank_files import BANK, CARD, FILES, bank_contents, bank_digest

SCHEME = "hf:"
DOWNLOADS = Path("cache/banks")
PUBLIC_HUB = "https://huggingface.co"  # where the library looks if no other server is named
README = "README.md"  # what the hub shows as a repository's card
_REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+", re.ASCII)
_UNREACHABLE = re.compile(r"Connect(?:ion)?(?:Error|Timeout)|LocalEntryNotFoundError")
_REVISION = re.compile(r"[A-Za-z0-9][\w./-]*", re.ASCII)  # a branch, a tag, refs/pr/1, or a commit


def push_bank(bank: BankContent, repository: str, *, private: bool = False, endpoint: str | None = None) -> str:
    """Upload a bank's files in one commit, its card also as the repository's, and return the commit's address.

    The key comes from the hub's own settings (`HF_TOKEN`, `hf auth login`). UsageError in one line where it fails.
    """
    hub, repository = _library(), checked_repository(repository)
    files = bank_contents(bank)
    files[README] = files[CARD]
    api = hub.HfApi(endpoint=endpoint)
    try:
        name = api.create_repo(repository, private=private, exist_ok=True).repo_id
        operations = [hub.CommitOperationAdd(path, data) for path, data in sorted(files.items())]
        commit = api.create_commit(name, operations, commit_message=f"Rubric bank {bank_digest(bank)[:12]}")
    except Exception as error:  # the library's errors differ by version: httpx, requests, its own
        raise UsageError(
            f"could not upload the bank to {repository} ({_why(error, endpoint)})",
            hint="check the name, the network and HF_TOKEN, or copy the folder with --to DIR",
        ) from error
    return str(commit.commit_url)


def fetch_bank(name: str, *, folder: Path | None = None, endpoint: str | None = None) -> Path:
    """Download the bank `hf:user/name` or `hf:user/name@revision` and return the folder where it lies.

    `endpoint` (default: the variable HF_ENDPOINT, else the library's) names another server. Only the files of a bank
    are fetched, and nothing that comes with them is run. What is there already is not fetched again, and is used
    where the server cannot be reached. UsageError in one line where there is no bank to be had.
    """
    repository, revision = _parts(name)
    hub, target = _library(), folder or download_folder(name)
    server = endpoint or os.environ.get("HF_ENDPOINT") or None
    try:
        with _without_bars(hub):
            hub.snapshot_download(
                repository,
                revision=revision or None,
                local_dir=target,
                allow_patterns=list(FILES),
                endpoint=server,
            )
    except Exception as error:  # as above
        raise UsageError(
            f"could not fetch the bank {name} ({_why(error, server)})",
            hint="check the name and the network, or copy its files into a folder and name that",
        ) from error
    if not (target / BANK).is_file():
        raise UsageError(f"{repository} holds no bank: it has no {BANK}", hint="svr bank export --hub uploads one")
    return target


def download_folder(name: str) -> Path:
    """Return where the bank `hf:user/name@revision` is kept, a folder for each revision that is named."""
    repository, revision = _parts(name)
    return DOWNLOADS / f"{repository}{f'@{revision}' if revision else ''}".replace("/", "--")


def locate_bank(name: str, *, offline: bool = False) -> Path:
    """Return the folder of a bank: a path, or that of `hf:user/name`; `offline` takes what was fetched before."""
    if not name.startswith(SCHEME):
        return Path(name)
    if not offline:
        return fetch_bank(name)
    folder = download_folder(name)
    if not (folder / BANK).is_file():
        raise UsageError(f"the bank {name} was not fetched before", hint="leave --offline out once")
    return folder


def _parts(name: str) -> tuple[str, str]:
    """Split `hf:user/name@revision`; UsageError where it is none, or could lead out of the folder of downloads."""
    repository, mark, revision = name.removeprefix(SCHEME).partition("@")
    if mark and (not _REVISION.fullmatch(revision) or ".." in revision):
        raise UsageError(f"{revision!r} is no revision", hint="write user/name@branch, @tag or @commit")
    return checked_repository(repository), revision


@contextmanager
def _without_bars(hub: Any) -> Iterator[None]:
    """Keep the library's progress bars off the screen: a bank is small, and a command's errors are one line."""
    shown = not hub.utils.are_progress_bars_disabled()
    hub.utils.disable_progress_bars()
    try:
        yield
    finally:
        if shown:
            hub.utils.enable_progress_bars()


def _library() -> Any:
    try:
        import huggingface_hub.utils
    except ImportError as error:
        raise UsageError(
            "banks on the hub need huggingface-hub", hint="pip install 'svr-async[hub]', or copy the bank's folder"
        ) from error
    return huggingface_hub


def checked_repository(repository: str) -> str:
    """Return the name of a repository, user/name; UsageError where it is none."""
    if not _REPOSITORY.fullmatch(repository) or ".." in repository:
        raise UsageError(f"{repository!r} is no repository of the hub", hint="write user/name")
    return repository


def _why(error: Exception, server: str | None) -> str:
    """Return why the hub could not be used: that there is no connection in our words, the rest in the library's."""
    told = _first_line(error)
    return f"no connection to {server or PUBLIC_HUB}" if _UNREACHABLE.search(told) else told


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
