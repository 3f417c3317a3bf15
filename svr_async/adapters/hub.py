"""Files of the Hugging Face hub, where there is a network and huggingface-hub: a benchmark's, or any data set's."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from svr_async.adapters.tables import SUFFIXES
from svr_async.core.hub import PUBLIC_HUB, SCHEME, first_line, hub_server, reachable
from svr_async.errors import DataError, UsageError


class OnHub(Protocol):
    """What is fetched of an adapter."""

    @property
    def title(self) -> str:
        """What the data is."""

    @property
    def hub_id(self) -> str:
        """Where on the hub it is; empty where it is not."""

    @property
    def hub_files(self) -> tuple[str, ...]:
        """Its files there."""

    @property
    def homepage(self) -> str:
        """Where people get it by hand."""


CACHE = Path("cache/hub")
_SHARD = re.compile(r"-\d{5}-of-\d{5}")


class Wanted(NamedTuple):
    """What `hf:org/name[@revision][:split]` names; `split` is a split, a folder or a file of the data set."""

    repo: str
    revision: str
    split: str

    def __str__(self) -> str:
        return f"{SCHEME}{self.repo}@{self.revision}" + (f":{self.split}" if self.split else "")


class Fetched(NamedTuple):
    """Files of a data set on the hub, below `folder`, at a revision that is pinned."""

    folder: Path
    files: tuple[Path, ...]
    origin: str


def parse_hub(text: str) -> Wanted:
    """Read `hf:org/name[@revision][:split]`; UsageError for another form."""
    match = re.fullmatch(r"hf:/{0,2}([\w.\-]+/[\w.\-]+)(?:@([\w.\-/]+))?(?::([^:]+))?", text)
    if match is None:
        raise UsageError(f"{text} names no data set of the hub", hint="write hf:org/name, hf:org/name@revision:split")
    return Wanted(match[1], match[2] or "main", match[3] or "")


def fetch_split(wanted: Wanted, cache_dir: Path | None = None, *, endpoint: str = "") -> Fetched:
    """Download the data files of one split, or find them, and return where they lie and at which revision.

    DataError lists what there is where the split is not told and there are several, and where it is not there.
    """
    server = hub_server(endpoint)
    by_hand = f"get its files by hand and pass them with --data PATH; {PUBLIC_HUB}/datasets/{wanted.repo} has them"
    hub = _library(str(wanted), by_hand)
    online, place = reachable(server), cache_dir or CACHE
    try:
        found = (_download if online else _look_up)(hub, wanted, place, server)
    except DataError:
        raise
    except Exception as error:  # the library's errors differ by version: httpx, requests, its own
        why = first_line(error) if online else f"no connection to {server}, and it is not in {place}"
        raise DataError(f"could not fetch {wanted} ({why})", hint=by_hand) from error
    folders = {file.parents[name.count("/")] for name, file in found.items()}
    if len(folders) != 1:
        raise DataError(f"{wanted} changed while it was fetched", hint="fetch it again, or name a revision")
    (folder,) = folders
    return Fetched(folder, tuple(found.values()), str(wanted._replace(revision=folder.name)))


def _download(hub: Any, wanted: Wanted, place: Path, server: str) -> dict[str, Path]:
    """Return the files of a split by name, downloaded where they are not in the cache."""
    info = hub.HfApi(endpoint=server).dataset_info(wanted.repo, revision=wanted.revision)
    names = sorted(choose_files([one.rfilename for one in info.siblings or ()], wanted))
    fixed = {"repo_type": "dataset", "revision": wanted.revision, "cache_dir": place, "endpoint": server}
    return {name: Path(hub.hf_hub_download(wanted.repo, name, **fixed)) for name in names}


def _look_up(hub: Any, wanted: Wanted, place: Path, server: str) -> dict[str, Path]:
    """Return the files of a split by name, as an earlier download left them."""
    fixed = {"repo_type": "dataset", "revision": wanted.revision, "cache_dir": place, "endpoint": server}
    folder = Path(hub.snapshot_download(wanted.repo, local_files_only=True, **fixed))
    names = choose_files([one.relative_to(folder).as_posix() for one in folder.rglob("*")], wanted)
    return {name: folder / name for name in sorted(names)}


def fetch_whole(adapter: OnHub, cache_dir: Path | None = None) -> Fetched:
    """Download all files of an adapter; see `fetch`."""
    files = [fetch(adapter, cache_dir or CACHE, file=file) for file in adapter.hub_files or ("",)]
    folder = files[0].parents[adapter.hub_files[0].count("/")]
    return Fetched(folder, tuple(files), f"{SCHEME}{adapter.hub_id}@{folder.name}")


def choose_files(names: Sequence[str], wanted: Wanted) -> list[str]:
    """Return the data files of the split that is wanted, all parts of it; DataError where it must be told which."""
    data = [name for name in names if name.lower().removesuffix(".gz").endswith(SUFFIXES)]
    kinds = {_split_name(name) for name in data}
    listed = "; ".join(sorted(kinds)) or "none"
    if not wanted.split:
        if len(kinds) != 1:
            raise DataError(f"{wanted} has {len(kinds)} sets of data files: {listed}", hint=f"name one: {wanted}:SPLIT")
        return data
    exact = [name for name in data if wanted.split in (name, _split_name(name))]
    found = exact or [name for name in data if wanted.split in _split_name(name).split("/")]
    sets = {_split_name(name) for name in found}
    if len(sets) != 1:
        what = f"fits {len(sets)} sets of data files: {'; '.join(sorted(sets))}" if sets else f"is not there: {listed}"
        raise DataError(f"{wanted}: {wanted.split!r} {what}", hint="name one of them after the colon")
    return found


def _split_name(name: str) -> str:
    """Return the name that the parts of one split share: data/train for data/train-00000-of-00003.parquet."""
    folder, slash, file = name.rpartition("/")
    return folder + slash + _SHARD.sub("", file.partition(".")[0])


def _library(what: str, by_hand: str) -> Any:
    try:
        import huggingface_hub
    except ImportError as error:
        message = f"{what}: fetching it needs huggingface-hub"
        raise DataError(message, hint=f"pip install 'svr-async[hub]', or {by_hand}") from error
    return huggingface_hub


def fetch(
    adapter: OnHub, cache_dir: Path | None = None, *, file: str = "", endpoint: str = "", revision: str | None = None
) -> Path:
    """Download one file (the first of the adapter's unless named) and return where it lies; a second call finds it.

    `endpoint` (default: the variable HF_ENDPOINT, else the public hub) names another server. Only data files are
    fetched, and nothing that comes with them is run. DataError, in one line, where the file cannot be had.
    """
    wanted = file or (adapter.hub_files[0] if adapter.hub_files else "")
    if not adapter.hub_id or not wanted:
        raise DataError(f"{adapter.title} cannot be fetched", hint=_by_hand(adapter, "its files"))
    hub = _library(f"{adapter.title}, {wanted} of {adapter.hub_id}", _by_hand(adapter, wanted))
    server = hub_server(endpoint)
    online = reachable(server)
    try:
        path = hub.hf_hub_download(
            adapter.hub_id,
            wanted,
            repo_type="dataset",
            revision=revision,
            cache_dir=cache_dir,
            endpoint=server,
            local_files_only=not online,
        )
    except Exception as error:  # the library's errors differ by version: httpx, requests, its own
        why = first_line(error) if online else f"no connection to {server}"
        message = f"{adapter.title}: could not fetch {wanted} of {adapter.hub_id} ({why})"
        raise DataError(message, hint=_by_hand(adapter, wanted)) from error
    return Path(path)


def _by_hand(adapter: OnHub, wanted: str) -> str:
    where = f" from {adapter.homepage}" if adapter.homepage else ""
    return f"get {wanted}{where} and pass it with --data PATH"
