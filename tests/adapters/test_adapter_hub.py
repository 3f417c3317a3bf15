"""Fetching from the hub, against a local server that answers as the hub does."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from local_hub import COMMIT, HubServer, local_hub

from svr_async.adapters import get_adapter
from svr_async.adapters.hub import Wanted, choose_files, fetch_files, parse_hub
from svr_async.errors import DataError

FILES = (
    "data/train-00000-of-00002.jsonl",
    "data/train-00001-of-00002.jsonl",
    "data/test-00000-of-00001.parquet",
    "extra/test.jsonl",
)
FILE = "data/filtered-00000-of-00001.parquet"
ADAPTER = get_adapter("rewardbench")
NOWHERE = "http://127.0.0.1:9"


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, write: Callable[..., Path]) -> Iterator[HubServer]:
    """Serve the file of a benchmark and a data set of several files, and point HF_ENDPOINT there."""
    row = {"prompt": "p", "chosen": "a", "rejected": "b", "subset": "hep-go", "id": 1}
    with local_hub(monkeypatch) as server:
        server.files = {name: write(f"served/{name}", [{**row, "chosen": name}]).read_bytes() for name in FILES}
        server.files |= {"README.md": b"", FILE: write("served.parquet", [row]).read_bytes()}
        yield server


def downloads(hub: HubServer) -> list[str]:
    """Return the addresses of files that were asked for."""
    return [path for path, method in hub.asked if "/resolve/" in path and method != "HEAD"]


def test_a_file_is_fetched_once_and_loads(hub: HubServer, tmp_path: Path) -> None:
    """The official file comes from HF_ENDPOINT into the cache, is found there again, and loads as the data set."""
    (path,) = ADAPTER.fetch(tmp_path / "cache").files
    assert path.is_relative_to(tmp_path / "cache")
    assert len(ADAPTER.load(path).pairs) == 1
    before = downloads(hub)
    assert before
    assert ADAPTER.fetch(tmp_path / "cache").files == (path,)
    assert downloads(hub) == before


def test_a_split_of_any_data_set_is_read_at_a_pinned_revision(
    hub: HubServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """hf:org/name:split reads all parts of the split, and says which revision the branch was; offline it is found."""
    monkeypatch.chdir(tmp_path)
    dataset = get_adapter("pairs").load("hf:me/mine:train")
    assert [pair.chosen for pair in dataset.pairs] == list(FILES[:2])
    assert dataset.origin == f"hf:me/mine@{COMMIT}:train"
    assert not [path for path in downloads(hub) if "test" in path]
    again = fetch_files(parse_hub("hf:me/mine:data/train"), endpoint=NOWHERE)
    assert [file.name for file in again.files] == ["train-00000-of-00002.jsonl", "train-00001-of-00002.jsonl"]
    with pytest.raises(DataError, match="not in cache/hub"):
        fetch_files(parse_hub("hf:me/other"), endpoint=NOWHERE)


@pytest.mark.parametrize(
    ("split", "says"),
    [
        ("", "has 3 sets of data files: data/test; data/train; extra/test"),
        ("test", "has 2 sets of data files: data/test; extra/test"),
        ("validation", "has no split 'validation': README; data/test; data/train; extra/test"),
    ],
)
def test_a_split_that_is_not_told_is_asked_for(split: str, says: str) -> None:
    """If no file or several files match, the line lists the files."""
    with pytest.raises(DataError) as caught:
        choose_files(["README.md", *FILES], Wanted("me/mine", "main", split))
    assert says in caught.value.one_line()
    assert choose_files(FILES, Wanted("me/mine", "main", "extra/test.jsonl")) == ["extra/test.jsonl"]


def test_without_a_network_the_cache_still_serves(hub: HubServer, tmp_path: Path) -> None:
    """Without a connection a file in the cache is used, and one that is not there is one line."""
    (path,) = ADAPTER.fetch(tmp_path / "cache").files
    assert ADAPTER.fetch(tmp_path / "cache", endpoint=NOWHERE).files == (path,)
    with pytest.raises(DataError, match=rf"could not fetch it \(no connection to {NOWHERE}"):
        ADAPTER.fetch(tmp_path / "empty", endpoint=NOWHERE)
