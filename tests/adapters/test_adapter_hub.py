"""Fetching from the hub, against a local server that answers as the hub does."""

import hashlib
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from svr_async.adapters import get_adapter
from svr_async.adapters.hub import Wanted, choose_files, fetch_files, parse_hub
from svr_async.errors import DataError

COMMIT = "c" * 40
FILES = (
    "data/train-00000-of-00002.jsonl",
    "data/train-00001-of-00002.jsonl",
    "data/test-00000-of-00001.parquet",
    "extra/test.jsonl",
)
FILE = "data/filtered-00000-of-00001.parquet"
ADAPTER = get_adapter("rewardbench")


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, write: Callable[..., Path]) -> Iterator[list[str]]:
    """Serve a benchmark's file and a data set of several under the hub's addresses, and point HF_ENDPOINT there."""
    row = {"prompt": "p", "chosen": "a", "rejected": "b", "subset": "hep-go", "id": 1}
    rows = {name: write(f"served/{name}", [{**row, "chosen": name}]).read_bytes() for name in FILES}
    served = {f"/datasets/me/mine/resolve/main/{name}": body for name, body in rows.items()}
    served[f"/datasets/allenai/reward-bench/resolve/main/{FILE}"] = write("served.parquet", [row]).read_bytes()
    listed = {"id": "me/mine", "sha": COMMIT, "siblings": [{"rfilename": name} for name in ("README.md", *FILES)]}
    served["/api/datasets/me/mine/revision/main"] = json.dumps(listed).encode()
    asked = []

    class Answer(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.answer(whole=False)

        def do_GET(self) -> None:
            self.answer(whole=True)

        def answer(self, *, whole: bool) -> None:
            asked.append(f"{self.command} {self.path}")
            found = (path := self.path.partition("?")[0]) in served
            body = served.get(path, b"")
            self.send_response(200 if found else 404)
            self.send_header("Content-Length", str(len(body)))
            if found:
                self.send_header("ETag", f'"{hashlib.sha256(body).hexdigest()}"')
                self.send_header("X-Repo-Commit", COMMIT)
            else:
                self.send_header("X-Error-Code", "EntryNotFound")
            self.end_headers()
            self.wfile.write(body if whole else b"")

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_DISABLE_TELEMETRY", True)  # it asks the public hub otherwise
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    yield asked
    server.shutdown()
    server.server_close()
    thread.join()


def nowhere() -> str:
    """Return the address of a port that nothing listens on."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
    server.server_close()
    return f"http://127.0.0.1:{server.server_port}"


def test_a_file_is_fetched_once_and_loads(hub: list[str], tmp_path: Path) -> None:
    """The official file comes from HF_ENDPOINT into the cache, is found there again, and loads as the data set."""
    (path,) = ADAPTER.fetch(tmp_path / "cache").files
    assert path.is_relative_to(tmp_path / "cache")
    assert len(ADAPTER.load(path).pairs) == 1
    gets = [line for line in hub if line.startswith("GET /datasets/")]
    assert ADAPTER.fetch(tmp_path / "cache").files == (path,)
    assert [line for line in hub if line.startswith("GET /datasets/")] == gets
    assert len(gets) == 1


def test_a_split_of_any_data_set_is_read_at_a_pinned_revision(
    hub: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """hf:org/name:split reads all parts of the split, and says which revision the branch was; offline it is found."""
    monkeypatch.chdir(tmp_path)
    dataset = get_adapter("pairs").load("hf:me/mine:train")
    assert [pair.chosen for pair in dataset.pairs] == list(FILES[:2])
    assert dataset.origin == f"hf:me/mine@{COMMIT}:train"
    assert not [line for line in hub if "test" in line]
    again = fetch_files(parse_hub("hf:me/mine:data/train"), endpoint=nowhere())
    assert [file.name for file in again.files] == ["train-00000-of-00002.jsonl", "train-00001-of-00002.jsonl"]
    with pytest.raises(DataError, match="not in cache/hub"):
        fetch_files(parse_hub("hf:me/other"), endpoint=nowhere())


@pytest.mark.parametrize(
    ("split", "says"),
    [
        ("", "has 3 sets of data files: data/test; data/train; extra/test"),
        ("test", "has 2 sets of data files: data/test; extra/test"),
        ("validation", "has no split 'validation': README; data/test; data/train; extra/test"),
    ],
)
def test_a_split_that_is_not_told_is_asked_for(split: str, says: str) -> None:
    """Where several files could be meant, or none is, the line lists what there is."""
    with pytest.raises(DataError) as caught:
        choose_files(["README.md", *FILES], Wanted("me/mine", "main", split))
    assert says in caught.value.one_line()
    assert choose_files(FILES, Wanted("me/mine", "main", "extra/test.jsonl")) == ["extra/test.jsonl"]


def test_without_a_network_the_cache_still_serves(hub: list[str], tmp_path: Path) -> None:
    """Without a connection a file in the cache is used, and one that is not there is one line."""
    (path,) = ADAPTER.fetch(tmp_path / "cache").files
    dead = nowhere()
    assert ADAPTER.fetch(tmp_path / "cache", endpoint=dead).files == (path,)
    with pytest.raises(DataError, match=rf"could not fetch it \(no connection to {dead}"):
        ADAPTER.fetch(tmp_path / "empty", endpoint=dead)
