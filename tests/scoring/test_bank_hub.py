"""Banks on the hub, against a local server that answers as the hub does."""

import base64
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from made_bank import made_bank
from rig import RULES

from svr_async import Bank
from svr_async.commands.main import run
from svr_async.commands.main import svr as group
from svr_async.errors import ArtefactError, UsageError
from svr_async.scoring.bank import UNIFORM, RubricBank
from svr_async.scoring.bank_hub import download_folder, fetch_bank, locate_bank, push_bank

COMMIT = "c" * 40
PROXIES = ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")


class HubServer(ThreadingHTTPServer):
    """A local server that knows what it was asked and which files it holds."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Hub)
        self.asked: list[tuple[str, str]] = []
        self.files: dict[str, bytes] = {}
        self.address = f"http://127.0.0.1:{self.server_port}"


class Hub(BaseHTTPRequestHandler):
    """Takes one repository, keeps the files of its commits and serves them."""

    server: HubServer

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.asked.append((self.path, self.headers.get("Authorization", "")))
        if self.path == "/api/repos/create":
            self.reply({"url": f"{self.server.address}/someone/small", "name": "someone/small", "id": "someone/small"})
        elif self.path == "/api/validate-yaml":
            self.reply({"errors": [], "warnings": []})
        elif self.path.endswith("/preupload/main"):
            files = [file["path"] for file in orjson.loads(body)["files"]]
            self.reply({"files": [{"path": path, "uploadMode": "regular", "shouldIgnore": False} for path in files]})
        elif self.path.endswith("/commit/main"):
            for line in body.splitlines():
                entry = orjson.loads(line)
                if entry["key"] == "file":
                    self.server.files[entry["value"]["path"]] = base64.b64decode(entry["value"]["content"])
            self.reply({"commitUrl": f"{self.server.address}/someone/small/commit/{COMMIT}", "commitOid": COMMIT})
        else:
            self.reply({"error": "what?"}, 404)

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        self.server.asked.append((self.path, ""))
        name = self.path.rpartition(f"/resolve/{COMMIT}/")[2]
        if self.path.startswith("/api/models/someone/small/tree"):
            sizes = {path: len(data) for path, data in self.server.files.items()}
            self.reply([{"type": "file", "path": p, "size": n, "oid": "0" * 40} for p, n in sizes.items()])
        elif "/revision/" in self.path and self.path.rpartition("/")[2] not in ("main", "v1", "refs%2Fpr%2Fv1"):
            self.send(b"{}", 404, {"X-Error-Code": "RevisionNotFound"})
        elif self.path.startswith("/api/models/someone/small"):
            siblings = [{"rfilename": path} for path in self.server.files]
            self.reply({"id": "someone/small", "sha": COMMIT, "siblings": siblings, "private": False})
        elif name in self.server.files:
            self.send(self.server.files[name], 200, {"ETag": f'"{name}"', "X-Repo-Commit": COMMIT})
        else:
            self.reply({"error": "not found"}, 404)

    def reply(self, value: dict[str, Any] | list[dict[str, Any]], status: int = 200) -> None:
        self.send(orjson.dumps(value), status, {"Content-Type": "application/json"})

    def send(self, data: bytes, status: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for key, value in {**headers, "Content-Length": str(len(data))}.items():
            self.send_header(key, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[HubServer]:
    """Serve an empty hub and send the library there."""
    for name in PROXIES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_TOKEN", "hf_made_up")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_DISABLE_TELEMETRY", True)  # it asks the public hub otherwise
    server = HubServer()
    monkeypatch.setenv("HF_ENDPOINT", server.address)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_bank_goes_up_in_one_commit_and_comes_back(hub: HubServer, tmp_path: Path) -> None:
    """All files and the card as README are in one commit; what is downloaded is the same bank."""
    bank = made_bank()
    assert push_bank(bank, "someone/small", endpoint=hub.address).endswith(COMMIT)
    assert sorted(hub.files) == ["README.md", "bank.json", "card.md", "selector.safetensors", "vocabulary.json"]
    assert hub.files["README.md"] == hub.files["card.md"]
    assert sum(path.endswith("/commit/main") for path, _ in hub.asked) == 1
    folder = fetch_bank("hf:someone/small", folder=tmp_path / "down", endpoint=hub.address)
    assert RubricBank.load(folder).digest == bank.digest


def test_refusals_are_one_line(hub: HubServer) -> None:
    """A repository that is not there, or a name that is none, is said in one line, with a cure."""
    for name in ("someone/absent", "noslash", "../etc/passwd", "a/b/c", "", "sömeone/small"):
        for attempt in (
            lambda n: fetch_bank(f"hf:{n}", endpoint=hub.address),
            lambda n: push_bank(made_bank(), n, endpoint=f"{hub.address}/none"),
        ):
            with pytest.raises(UsageError) as caught:
                attempt(name)
            assert caught.value.hint
            assert "\n" not in caught.value.one_line()


def test_a_path_is_a_path() -> None:
    """Names without hf: are folders."""
    assert locate_bank("some/bank") == locate_bank("some/bank", offline=True) == Path("some/bank")


@pytest.fixture
def uploaded(hub: HubServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HubServer:
    """Put a bank on the hub, and work in an empty folder."""
    monkeypatch.chdir(tmp_path)
    push_bank(uniform_bank(), "someone/small", endpoint=hub.address)
    hub.asked.clear()
    return hub


def uniform_bank() -> RubricBank:
    """Return a bank that needs no selector."""
    return made_bank(selector_kind=UNIFORM, selector={}, vocabulary={}, idf=np.zeros(0, np.float32))


def got(hub: HubServer) -> list[str]:
    """Return the files that were fetched since."""
    return sorted(path.rpartition("/")[2] for path, _ in hub.asked if "/resolve/" in path)


@pytest.mark.parametrize("name", ["hf:someone/small", "hf:someone/small@v1", "hf:someone/small@refs/pr/v1"])
def test_a_bank_is_loaded_by_its_name_on_the_hub(
    uploaded: HubServer, capfd: pytest.CaptureFixture[str], name: str
) -> None:
    """`Bank.load` fetches it from HF_ENDPOINT into the folder of its revision, without a word, and nothing else."""
    assert Bank.load(name).digest == Bank.load(Path(name)).digest == uniform_bank().digest
    assert {"bank.json", "selector.safetensors", "vocabulary.json"} <= set(got(uploaded))
    assert "README.md" not in got(uploaded)
    assert (download_folder(name) / "bank.json").is_file()
    assert download_folder(name).parent == Path("cache/banks")
    assert capfd.readouterr().err == ""


def test_a_process_that_has_loaded_nothing_else_fetches_too(uploaded: HubServer, tmp_path: Path) -> None:
    """A new process fetches a bank: the library loads its parts only when they are asked for by name."""
    (tmp_path / "load.py").write_text("from svr_async import Bank\nprint(Bank.load('hf:someone/small').digest)\n")
    done = subprocess.run(
        [sys.executable, "load.py"], capture_output=True, text=True, timeout=50, cwd=tmp_path, check=False
    )
    assert done.stdout.strip() == uniform_bank().digest, done.stderr


def test_what_was_fetched_serves_without_the_hub(uploaded: HubServer) -> None:
    """The files are not fetched twice; with a hub that is gone, or offline, they are used from where they lie."""
    Bank.load("hf:someone/small")
    before = [path for path, _ in uploaded.asked if "/resolve/" in path and path.endswith("safetensors")]
    Bank.load("hf:someone/small")
    assert [p for p, _ in uploaded.asked if "/resolve/" in p and p.endswith("safetensors")] == before
    uploaded.asked.clear()
    assert locate_bank("hf:someone/small", offline=True) == Path("cache/banks/someone--small")
    assert uploaded.asked == []
    with pytest.raises(UsageError, match="was not fetched before"):
        locate_bank("hf:someone/small@v1", offline=True)
    dead = f"http://127.0.0.1:{free_port()}"
    assert RubricBank.load(fetch_bank("hf:someone/small", endpoint=dead)).digest == uniform_bank().digest
    with pytest.raises(UsageError, match=rf"could not fetch the bank hf:someone/other \(no connection to {dead}\)"):
        fetch_bank("hf:someone/other", endpoint=dead)


def free_port() -> int:
    """Return a port that nothing listens on."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    server.server_close()
    return server.server_port


def test_a_file_that_was_changed_on_the_way_is_refused(uploaded: HubServer) -> None:
    """What comes from the hub is checked like any bank."""
    uploaded.files["selector.safetensors"] = uploaded.files["selector.safetensors"][:-1] + b"\x00"
    with pytest.raises(ArtefactError):
        Bank.load("hf:someone/small")


def test_a_repository_without_a_bank_says_so(uploaded: HubServer) -> None:
    """A repository that holds something else is named."""
    uploaded.files.clear()
    uploaded.files["README.md"] = b"hello"
    with pytest.raises(UsageError, match=r"someone/small holds no bank: it has no bank\.json"):
        Bank.load("hf:someone/small")


@pytest.mark.parametrize("revision", ["", "../x", "a/../../x", "/etc", ".", "a b", "-x"])
def test_a_revision_cannot_lead_out_of_the_downloads(uploaded: HubServer, tmp_path: Path, revision: str) -> None:
    """It is refused before anything is asked or written."""
    with pytest.raises(UsageError, match="is no revision"):
        Bank.load(f"hf:someone/small@{revision}")
    assert (uploaded.asked, list(tmp_path.iterdir())) == ([], [])


def test_an_unknown_revision_is_one_line(uploaded: HubServer) -> None:
    """The name is in it, and what to do."""
    with pytest.raises(UsageError, match="could not fetch the bank hf:someone/small@v9") as caught:
        Bank.load("hf:someone/small@v9")
    assert "\n" not in caught.value.one_line()


PAIR = ("--prompt", "Say it in ten words.", "--a", "Short.", "--b", "word " * 60)


@pytest.mark.parametrize(
    "args",
    [
        ("bank", "show", "hf:someone/small", "--json"),
        ("bank", "export", "hf:someone/small@v1", "--to", "copy", "--json"),
        ("explain", *RULES, "--bank", "hf:someone/small", *PAIR, "--json"),
        ("eval", "rubricbench", "--sample", *RULES, "--limit", "3", "--bank", "hf:someone/small@v1", "-q", "--json"),
    ],
    ids=lambda args: args[0] + args[1],
)
def test_commands_take_a_bank_of_the_hub(
    uploaded: HubServer, capsys: pytest.CaptureFixture[str], args: tuple[str, ...]
) -> None:
    """Wherever a bank is named."""
    assert run(group, "svr", list(args)) == 0
    assert "bank.json" in got(uploaded)
    assert orjson.loads(capsys.readouterr().out)


def test_an_offline_evaluation_opens_no_socket_for_its_bank(
    uploaded: HubServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """With --offline the bank is the one that was fetched; one that was not is a line."""
    args = ["eval", "rubricbench", "--sample", *RULES, "--limit", "2", "--bank", "hf:someone/small", "-q", "--offline"]
    assert run(group, "svr", args) == 2
    assert "was not fetched before" in capsys.readouterr().err
    fetch_bank("hf:someone/small")
    uploaded.asked.clear()
    assert run(group, "svr", args) == 0
    assert uploaded.asked == []
