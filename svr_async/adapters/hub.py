"""Fetches data files from the Hugging Face hub: a benchmark's, or a split of any data set."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from svr_async.adapters.tables import SUFFIXES
from svr_async.core.files import HUB_SCHEME, PUBLIC_HUB, first_line, hub_server, reachable
from svr_async.errors import DataError, UsageError

CACHE = Path("cache/hub")


class Source(NamedTuple):
    """Where rows are read: a file or folder, or only `files` of it; `origin` is the pinned address on the hub."""

    path: Path
    files: tuple[Path, ...] = ()
    origin: str = ""


class Wanted(NamedTuple):
    """What `hf:org/name[@revision][:split]` names; `split` is a split, a folder or a file of the data set."""

    repo: str
    revision: str = "main"
    split: str = ""

    def __str__(self) -> str:
        return f"{HUB_SCHEME}{self.repo}@{self.revision}" + (f":{self.split}" if self.split else "")


def open_source(path: Path) -> Source:
    """Return where the rows of a data argument are: a path as it is, or the files of a hub data set once fetched."""
    return fetch_files(parse_hub(str(path))) if str(path).startswith(HUB_SCHEME) else Source(path)


def parse_hub(text: str) -> Wanted:
    """Read `hf:org/name[@revision][:split]`; UsageError for another form."""
    match = re.fullmatch(r"hf:/{0,2}([\w.\-]+/[\w.\-]+)(?:@([\w.\-/]+))?(?::([^:]+))?", text)
    if match is None:
        raise UsageError(f"{text} is not a data set of the hub", hint="write hf:org/name or hf:org/name@revision:split")
    return Wanted(match[1], match[2] or "main", match[3] or "")


def choose_files(names: Sequence[str], wanted: Wanted) -> list[str]:
    """Return the data files of the wanted split, all parts of it; DataError if it is missing or ambiguous."""
    data = sorted(name for name in names if name.lower().removesuffix(".gz").endswith(SUFFIXES))
    if wanted.split:
        exact = [name for name in data if wanted.split in (name, _split_name(name))]
        data = exact or [name for name in data if wanted.split in _split_name(name).split("/")]
    splits = sorted({_split_name(name) for name in data})
    if len(splits) == 1:
        return data
    listed = "; ".join(splits or sorted(set(map(_split_name, names))))
    problem = f"has {len(splits)} sets of data files" if splits else f"has no split {wanted.split!r}"
    raise DataError(f"{wanted} {problem}: {listed}", hint=f"name one: {wanted._replace(split='SPLIT')}")


def _split_name(name: str) -> str:
    """Return the name that the parts of one split share: data/train for data/train-00000-of-00003.parquet."""
    folder, slash, file = name.rpartition("/")
    return folder + slash + re.sub(r"-\d{5}-of-\d{5}", "", file.partition(".")[0])


def fetch_files(
    wanted: Wanted, names: Sequence[str] = (), cache_dir: Path | None = None, *, endpoint: str = ""
) -> Source:
    """Download `names`, or the data files of one split, or find them in the cache; return them with their revision.

    DataError lists the splits if the wanted one is missing, or if there are several and no name is given.
    """
    what = f"{', '.join(names)} of {wanted.repo}" if names else str(wanted)
    where = f"{PUBLIC_HUB}/datasets/{wanted.repo}"
    hint = f"download {', '.join(names) or 'its files'} from {where} and pass the path with --data PATH"
    try:
        import huggingface_hub as hub
    except ImportError as error:
        message = f"{what}: fetching it needs huggingface-hub"
        raise DataError(message, hint=f"pip install 'svr-async[hub]', or {hint}") from error
    server, place = hub_server(endpoint), cache_dir or CACHE
    online = reachable(server)
    fixed: dict[str, Any] = {
        "repo_type": "dataset", "revision": wanted.revision, "cache_dir": place, "endpoint": server,
        "local_files_only": not online,
    }  # fmt: skip

    def listed() -> list[str]:
        if online:
            info = hub.HfApi(endpoint=server).dataset_info(wanted.repo, revision=wanted.revision)
            return [one.rfilename for one in info.siblings or ()]
        folder = Path(hub.snapshot_download(wanted.repo, **fixed))
        return [one.relative_to(folder).as_posix() for one in folder.rglob("*")]

    try:
        chosen = names or choose_files(listed(), wanted)
        found = tuple(Path(hub.hf_hub_download(wanted.repo, name, **fixed)) for name in chosen)
    except DataError:
        raise
    except Exception as error:  # the library's errors differ by version: httpx, requests, its own
        why = first_line(error) if online else f"no connection to {server}, and it is not in {place}"
        raise DataError(f"{what}: could not fetch it ({why})", hint=hint) from error
    folder = found[0].parents[chosen[0].count("/")]
    return Source(folder, found, str(wanted._replace(revision=folder.name)))
