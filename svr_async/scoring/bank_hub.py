"""Banks on the Hugging Face hub: fetch one by name, upload one, download one into a folder."""

from __future__ import annotations

import logging
import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from svr_async.core.files import HUB_SCHEME, first_line, hub_server, reachable
from svr_async.errors import UsageError
from svr_async.scoring.bank import RubricBank
from svr_async.scoring.bank_card import render_card
from svr_async.scoring.bank_files import BANK, FILES, bank_contents, load_bank, save_bank, sha256_of
from svr_async.scoring.provenance import Provenance

README = "README.md"  # the hub shows it as the repository's card
DOWNLOADS = Path("cache/hub")  # the hub library's own layout, shared with data sets
_NAME = re.compile(r"(?:hf:)?([A-Za-z0-9][\w.-]*/[\w.-]+)(?:@([A-Za-z0-9][\w./-]*))?", re.ASCII)
_STATUS = {
    401: "the repository does not exist, this token may not see it, or the token is not valid",
    403: "the token may not do this",
    404: "the repository or revision does not exist, or this token may not see it",
}


def fetch_bank(name: str, *, offline: bool = False) -> Path:
    """Download the bank `hf:user/name[@revision]` and return its folder, named by the commit.

    Only the files of a bank are downloaded, from HF_ENDPOINT or the public hub. `offline`, or without a connection, an
    earlier download is used. UsageError without a bank.
    """
    repository, revision = _name_parts(name)
    server = hub_server()
    away = "offline" if offline else "" if reachable(server) else f"no connection to {server}"
    hint = "check the name and the network, or copy its files into a folder and name that"
    with _hub(f"could not fetch the bank {name}", hint, away) as hub:
        folder = hub.snapshot_download(
            repository, revision=revision, allow_patterns=list(FILES), cache_dir=DOWNLOADS, endpoint=server,
            local_files_only=bool(away),
        )  # fmt: skip
    if not (Path(folder) / BANK).is_file():
        raise UsageError(f"{repository} is not a bank: it has no {BANK}", hint="svr bank push uploads one")
    return Path(folder)


def _name_parts(name: str) -> tuple[str, str | None]:
    """Split `hf:user/name@revision`; UsageError if it is invalid or could leave the folder of downloads."""
    parts = _NAME.fullmatch(name)
    if parts is None or ".." in name:
        hint = "write hf:user/name, or hf:user/name@ with a branch, tag or commit"
        raise UsageError(f"invalid name of a bank on the hub: {name!r}", hint=hint)
    return parts[1], parts[2]


def upload_files(
    bank: RubricBank, name: str, *, licence: str = "", made: Provenance | None = None
) -> tuple[str, dict[str, bytes]]:
    """Return the repository of `hf:user/name` and the files to upload: those of the bank, and a card.

    `licence` replaces the bank's on the card. UsageError if the name is invalid or has a revision.
    """
    repository, revision = _name_parts(name)
    if revision:
        raise UsageError(f"{name}: a bank is uploaded as the newest commit", hint=f"write {HUB_SCHEME}{repository}")
    card = render_card(bank, HUB_SCHEME + repository, licence, made).encode()
    return repository, {**bank_contents(bank), README: card}


def push_files(repository: str, files: Mapping[str, bytes], *, private: bool = False) -> str:
    """Upload a bank's files in one commit and return the commit's URL.

    The token comes from the hub's settings (`HF_TOKEN`, `hf auth login`). `private` applies to a new repository.
    UsageError in one line on failure.
    """
    server, hint = hub_server(), "check the name, the network and HF_TOKEN, or copy the folder"
    if not reachable(server):  # the library would retry for half a minute
        raise UsageError(f"no connection to {server}", hint="copy the folder")
    with tempfile.TemporaryDirectory() as folder, _hub(f"could not upload the bank to {repository}", hint) as hub:
        if not hub.get_token():
            raise UsageError("the hub needs a token", hint="set HF_TOKEN to one that may write, or hf auth login")
        for name, data in files.items():
            (Path(folder) / name).write_bytes(data)
        api = hub.HfApi(endpoint=server)
        name = api.create_repo(repository, private=private, exist_ok=True).repo_id
        message = f"Rubric bank {sha256_of(files[BANK])[:12]}"
        return str(api.upload_folder(repo_id=name, folder_path=folder, commit_message=message).commit_url)


def pull_bank(name: str, out: Path) -> tuple[RubricBank, str]:
    """Download the bank `hf:user/name[@revision]`, check all of it, then write it to `out`.

    Return the bank and its name with the commit, which stays valid when the repository changes. UsageError
    without a bank or if `out` is not empty, ArtefactError if the bank is invalid.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageError(f"{out} exists already", hint="name another folder, or remove it")
    folder = fetch_bank(name)
    bank = load_bank(folder)
    save_bank(bank, out)
    return bank, f"{HUB_SCHEME}{_name_parts(name)[0]}@{folder.name}"


@contextmanager
def _hub(problem: str, hint: str, away: str = "") -> Iterator[Any]:
    """Yield the hub's library, without its progress bars and warnings, and turn its errors into one line each.

    `away` says why the hub is not asked.
    """
    try:
        import huggingface_hub.utils
    except ImportError as error:
        hint = "pip install 'svr-async[hub]', or copy the bank's folder"
        raise UsageError("banks on the hub need huggingface-hub", hint=hint) from error
    hub: Any = huggingface_hub
    utils = hub.utils
    shown, level = not utils.are_progress_bars_disabled(), utils.logging.get_verbosity()
    utils.disable_progress_bars()
    utils.logging.set_verbosity(logging.CRITICAL)
    try:
        yield hub
    except UsageError:
        raise
    except Exception as error:  # the library's errors differ by version: httpx, requests, its own
        source = error.__cause__ if isinstance(error.__cause__, Exception) else error  # a failed download looks locally
        status = getattr(getattr(source, "response", None), "status_code", 0)
        why = f"{first_line(source).rstrip('.: ')}{f': {_STATUS[status]}' if status in _STATUS else ''}"
        why = f"{away}, and it was not downloaded before" if away else why
        raise UsageError(f"{problem} ({why})", hint=hint) from error
    finally:
        utils.logging.set_verbosity(level)
        if shown:
            utils.enable_progress_bars()
