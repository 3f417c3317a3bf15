"""Uploading a bank to the Hugging Face hub, and downloading one into a folder of its own."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from svr_async.core.files import HUB_SCHEME, hub_server, reachable, reason, sync_folder
from svr_async.errors import ArtefactError, StorageError, SvrError, UsageError
from svr_async.scoring.bank_card import OnHub, render_card
from svr_async.scoring.bank_content import BankContent
from svr_async.scoring.bank_files import (
    BANK,
    CARD,
    FILES,
    MAX_BYTES,
    bank_contents,
    bank_digest,
    load_bank,
    save_bank,
)
from svr_async.scoring.bank_hub import FETCHING, library, name_parts, quietly, why_not
from svr_async.scoring.bank_made import MadeWith, without_places

README = "README.md"  # what the hub shows as a repository's card
B = TypeVar("B", bound=BankContent)


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """What is uploaded of a bank: its files and the repository's card, and nothing else that lies beside them."""

    repository: str
    files: Mapping[str, bytes]
    digest: str

    @property
    def card(self) -> str:
        """The card, as the repository's page shows it."""
        return self.files[README].decode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Pulled:
    """A bank that was downloaded: where it lies, and the commit that it is of, in a name that stays what it is."""

    folder: Path
    name: str
    bank: BankContent
    digest: str


def planned_upload(bank: BankContent, name: str, *, licence: str = "", made: MadeWith | None = None) -> Upload:
    """Return what `push_bank` uploads to `hf:user/name`, asking nobody; `licence` is the card's in place of the bank's.

    UsageError where the name is none, or names a revision.
    """
    repository, revision = name_parts(name)
    if revision:
        raise UsageError(f"{name}: a bank is uploaded as the newest commit", hint=f"write {HUB_SCHEME}{repository}")
    digest = bank_digest(bank)
    command, ran_with = ("", {}) if made is None else (without_places(made.command), dict(made.versions))
    at = OnHub(name=HUB_SCHEME + repository, digest=digest, licence=licence, command=command, versions=ran_with)
    files = {name: data for name, data in bank_contents(bank).items() if name != CARD}
    return Upload(repository=repository, files={**files, README: render_card(bank, at).encode()}, digest=digest)


def push_bank(upload: Upload, *, private: bool = False, endpoint: str | None = None) -> str:
    """Upload a bank in one commit and return the commit's address.

    The token comes from the hub's own settings (`HF_TOKEN`, `hf auth login`). `private` makes a new repository so.
    UsageError in one line where it fails.
    """
    hub, server = library(), hub_server(endpoint)
    if not reachable(server):
        raise UsageError(f"no connection to {server}", hint="copy the folder")
    if not hub.get_token():
        raise UsageError("there is no token of the hub", hint="set HF_TOKEN to one that may write, or hf auth login")
    try:
        with quietly(hub):
            api = hub.HfApi(endpoint=server)
            name = api.create_repo(upload.repository, private=private, exist_ok=True).repo_id
            operations = [hub.CommitOperationAdd(path, data) for path, data in sorted(upload.files.items())]
            message = f"Rubric bank {upload.digest[:12]}"
            return str(api.create_commit(name, operations, commit_message=message).commit_url)
    except Exception as error:  # the library's errors differ by version: httpx, requests, its own
        raise UsageError(
            f"could not upload the bank to {upload.repository} ({why_not(error, server)})",
            hint="check the name, the network and HF_TOKEN, or copy the folder",
        ) from error


def pull_bank(name: str, out: Path, kind: type[B], *, endpoint: str | None = None) -> Pulled:
    """Download the bank `hf:user/name[@revision]`, check all of it, and only then put it into `out`, whole.

    The revision is settled to a commit first, and files that are larger than a bank's may be are not fetched.
    UsageError where there is no bank to be had or `out` holds something else, ArtefactError where it fails a check.
    """
    _refuse_other(out)
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{out.name[:60]}.", suffix=".tmp", dir=out.parent) as passing:
        commit = _download(name, Path(passing) / "files", hub_server(endpoint))
        bank = _checked_bank(Path(passing) / "files", kind, f"{name}: ")
        digest = save_bank(bank, Path(passing) / "bank")
        try:
            (Path(passing) / "bank").rename(out)  # onto nothing, or an empty folder
        except OSError as error:
            raise StorageError(f"cannot write {out}: {reason(error)}", hint="name another folder") from error
        sync_folder(out.parent)
    return Pulled(folder=out, name=f"{HUB_SCHEME}{name_parts(name)[0]}@{commit}", bank=bank, digest=digest)


def _checked_bank(folder: Path, kind: type[B], name: str) -> B:
    """Read a downloaded bank; an error names the repository, not the folder that is gone when it is read."""
    try:
        return load_bank(folder, kind)
    except SvrError as error:
        raise type(error)(error.message.replace(f"{folder}{os.sep}", name), hint=error.hint) from error


def _refuse_other(out: Path) -> None:
    """Refuse to write over what lies in the place of a bank."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UsageError(f"{out} is there already", hint="name a folder that is not, or remove it")


def _download(name: str, target: Path, server: str) -> str:
    """Download the files of a bank and return the commit that they are of."""
    repository, revision = name_parts(name)
    hub = library()
    if not reachable(server):
        raise UsageError(f"could not fetch the bank {name} (no connection to {server})", hint=FETCHING)
    try:
        with quietly(hub):
            api = hub.HfApi(endpoint=server)
            info = api.model_info(repository, revision=revision or None, files_metadata=True)
            names = _wanted_files(repository, {one.rfilename: one.size for one in info.siblings or ()})
            for file in names:
                hub.hf_hub_download(repository, file, revision=info.sha, local_dir=target, endpoint=server)
    except SvrError:
        raise
    except Exception as error:  # as above
        raise UsageError(f"could not fetch the bank {name} ({why_not(error, server)})", hint=FETCHING) from error
    return str(info.sha)


def _wanted_files(repository: str, sizes: Mapping[str, int | None]) -> list[str]:
    """Return the files of a repository that are a bank's; a refusal where there is none, or one is too large."""
    if BANK not in sizes:
        raise UsageError(f"{repository} holds no bank: it has no {BANK}", hint="svr bank push uploads one")
    for name, most in MAX_BYTES.items():
        size = sizes.get(name) or 0
        if size > most:
            raise ArtefactError(f"{repository}: {name} has {size:,} bytes, at most {most:,} are allowed")
    return [name for name in FILES if name in sizes and name != CARD]
