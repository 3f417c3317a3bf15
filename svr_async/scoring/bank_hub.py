"""Banks on the Hugging Face hub: uploading one in a single commit, downloading one and checking it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from svr_async.errors import UsageError
from svr_async.scoring.bank import RubricBank
from svr_async.scoring.bank_files import CARD, FILES, bank_contents

SCHEME = "hf:"
DOWNLOADS = Path("cache/banks")
README = "README.md"  # what the hub shows as a repository's card
_REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")


def push_bank(bank: RubricBank, repository: str, *, private: bool = False, endpoint: str | None = None) -> str:
    """Upload a bank's files in one commit, its card also as the repository's, and return the commit's address.

    The key comes from the hub's own settings (`HF_TOKEN`, `hf auth login`). UsageError in one line where it fails.
    """
    hub, repository = _library(), _checked(repository)
    files = bank_contents(bank)
    files[README] = files[CARD]
    api = hub.HfApi(endpoint=endpoint)
    try:
        name = api.create_repo(repository, private=private, exist_ok=True).repo_id
        operations = [hub.CommitOperationAdd(path, data) for path, data in sorted(files.items())]
        commit = api.create_commit(name, operations, commit_message=f"Rubric bank {bank.digest[:12]}")
    except Exception as error:  # the library's errors differ by version: httpx, requests, its own
        raise UsageError(
            f"could not upload the bank to {repository} ({_first_line(error)})",
            hint="check the name, the network and HF_TOKEN, or copy the folder with --to DIR",
        ) from error
    return str(commit.commit_url)


def fetch_bank(name: str, *, folder: Path | None = None, endpoint: str | None = None) -> Path:
    """Download the bank `hf:user/name` or `hf:user/name@revision` and return the folder where it lies.

    Only the files of a bank are fetched, and nothing that comes with them is run.
    """
    repository, _, revision = name.removeprefix(SCHEME).partition("@")
    hub, repository = _library(), _checked(repository)
    target = folder or DOWNLOADS / f"{repository.replace('/', '--')}{f'@{revision}' if revision else ''}"
    try:
        hub.snapshot_download(
            repository, revision=revision or None, local_dir=target, allow_patterns=list(FILES), endpoint=endpoint
        )
    except Exception as error:  # as above
        raise UsageError(
            f"could not fetch the bank {name} ({_first_line(error)})",
            hint=f"copy its files into a folder and name that with --bank; {target} holds what was fetched before",
        ) from error
    return target


def locate_bank(name: str) -> Path:
    """Return the folder of a bank that is named by a path or as `hf:user/name`."""
    return fetch_bank(name) if name.startswith(SCHEME) else Path(name)


def _library() -> Any:
    try:
        import huggingface_hub  # noqa: PLC0415  (an extra, and slow to import)
    except ImportError as error:
        raise UsageError(
            "banks on the hub need huggingface-hub", hint="pip install 'svr-async[hub]', or copy the bank's folder"
        ) from error
    return huggingface_hub


def _checked(repository: str) -> str:
    if not _REPOSITORY.fullmatch(repository) or ".." in repository:
        raise UsageError(f"{repository!r} is no repository of the hub", hint="write user/name")
    return repository


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
