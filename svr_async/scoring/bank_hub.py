"""Banks on the Hugging Face hub by their names: where one is kept that was fetched, and why one cannot be had."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from svr_async.core.files import HUB_SCHEME, first_line, hub_server
from svr_async.errors import UsageError
from svr_async.scoring.bank_files import BANK, FILES

DOWNLOADS = Path("cache/banks")
FETCHING = "check the name and the network, or copy its files into a folder and name that"
_REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+", re.ASCII)
_UNREACHABLE = re.compile(r"Connect(?:ion)?(?:Error|Timeout)|LocalEntryNotFoundError")
_STATUS = {
    401: "there is no such repository, or none that this token may see, or the token is not valid",
    403: "the token may not do this",
    404: "there is no such repository or revision, or none that this token may see",
}
_REVISION = re.compile(r"[A-Za-z0-9][\w./-]*", re.ASCII)  # a branch, a tag, refs/pr/1, or a commit


def fetch_bank(name: str, *, folder: Path | None = None, endpoint: str | None = None) -> Path:
    """Download the bank `hf:user/name` or `hf:user/name@revision` and return the folder where it lies.

    `endpoint` (default: the variable HF_ENDPOINT, else the library's) names another server. Only the files of a bank
    are fetched, and nothing that comes with them is run. What is there already is not fetched again, and is used
    where the server cannot be reached. UsageError in one line where there is no bank to be had.
    """
    repository, revision = name_parts(name)
    hub, target = library(), folder or download_folder(name)
    server = hub_server(endpoint)
    place = {"revision": revision or None, "local_dir": target, "endpoint": server}
    try:
        with quietly(hub):
            hub.snapshot_download(repository, allow_patterns=list(FILES), **place)
    except Exception as error:  # the library's errors differ by version: httpx, requests, its own
        raise UsageError(f"could not fetch the bank {name} ({why_not(error, server)})", hint=FETCHING) from error
    if not (target / BANK).is_file():
        raise UsageError(f"{repository} holds no bank: it has no {BANK}", hint="svr bank push uploads one")
    return target


def download_folder(name: str) -> Path:
    """Return where the bank `hf:user/name@revision` is kept, a folder for each revision that is named."""
    repository, revision = name_parts(name)
    return DOWNLOADS / f"{repository}{f'@{revision}' if revision else ''}".replace("/", "--")


def locate_bank(name: str, *, offline: bool = False) -> Path:
    """Return the folder of a bank: a path, or that of `hf:user/name`; `offline` takes what was fetched before."""
    if not name.startswith(HUB_SCHEME):
        return Path(name)
    if not offline:
        return fetch_bank(name)
    folder = download_folder(name)
    if not (folder / BANK).is_file():
        raise UsageError(f"the bank {name} was not fetched before", hint="leave --offline out once")
    return folder


def name_parts(name: str) -> tuple[str, str]:
    """Split `hf:user/name@revision`; UsageError where it is none, or could lead out of the folder of downloads."""
    repository, mark, revision = name.removeprefix(HUB_SCHEME).partition("@")
    if mark and (not _REVISION.fullmatch(revision) or ".." in revision):
        raise UsageError(f"{revision!r} is no revision", hint="write user/name@branch, @tag or @commit")
    return _checked(repository), revision


@contextmanager
def quietly(hub: Any) -> Iterator[None]:
    """Keep the library's progress bars and warnings off the screen: a bank is small, and an error is one line."""
    shown, level = not hub.utils.are_progress_bars_disabled(), hub.utils.logging.get_verbosity()
    hub.utils.disable_progress_bars()
    hub.utils.logging.set_verbosity(logging.CRITICAL)
    try:
        yield
    finally:
        hub.utils.logging.set_verbosity(level)
        if shown:
            hub.utils.enable_progress_bars()


def library() -> Any:
    """Return the hub's own library; UsageError where it is not installed."""
    try:
        import huggingface_hub.utils
    except ImportError as error:
        raise UsageError(
            "banks on the hub need huggingface-hub", hint="pip install 'svr-async[hub]', or copy the bank's folder"
        ) from error
    return huggingface_hub


def _checked(repository: str) -> str:
    """Return the name of a repository, user/name; UsageError where it is none."""
    if not _REPOSITORY.fullmatch(repository) or ".." in repository:
        raise UsageError(f"{repository!r} is no repository of the hub", hint="write user/name")
    return repository


def why_not(error: Exception, server: str) -> str:
    """Return why the hub could not be used: what users can mend in our words, the rest in the library's."""
    told = first_line(error)
    if _UNREACHABLE.search(told):
        return f"no connection to {server}"
    status = getattr(getattr(error, "response", None), "status_code", None)
    words = _STATUS.get(status) if isinstance(status, int) else None
    return f"{told.rstrip('.: ')}: {words}" if words else told
