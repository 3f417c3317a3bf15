"""Banks on the hub, against a local server that answers as the hub does."""

import base64
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import orjson
import pytest
from made_bank import made_bank

from svr_async.errors import UsageError
from svr_async.scoring.bank import RubricBank
from svr_async.scoring.bank_hub import fetch_bank, locate_bank, push_bank

COMMIT = "c" * 40
PROXIES = ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")


class Hub(BaseHTTPRequestHandler):
    """Takes one repository, keeps the files of its commits and serves them."""

    def do_POST(self):
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

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        self.server.asked.append((self.path, ""))
        name = self.path.rpartition(f"/resolve/{COMMIT}/")[2]
        if self.path.startswith("/api/models/someone/small/tree"):
            sizes = {path: len(data) for path, data in self.server.files.items()}
            self.reply([{"type": "file", "path": p, "size": n, "oid": "0" * 40} for p, n in sizes.items()])
        elif self.path.startswith("/api/models/someone/small"):
            siblings = [{"rfilename": path} for path in self.server.files]
            self.reply({"id": "someone/small", "sha": COMMIT, "siblings": siblings, "private": False})
        elif name in self.server.files:
            self.send(self.server.files[name], 200, {"ETag": f'"{name}"', "X-Repo-Commit": COMMIT})
        else:
            self.reply({"error": "not found"}, 404)

    def reply(self, value, status=200):
        self.send(orjson.dumps(value), status, {"Content-Type": "application/json"})

    def send(self, data, status, headers):
        self.send_response(status)
        for key, value in {**headers, "Content-Length": str(len(data))}.items():
            self.send_header(key, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def log_message(self, *_):
        pass


@pytest.fixture
def hub(monkeypatch):
    """Serve an empty hub and send the library there."""
    for name in PROXIES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_TOKEN", "hf_made_up")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_DISABLE_TELEMETRY", True)  # it asks the public hub otherwise
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    server.asked, server.files, server.address = [], {}, f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_bank_goes_up_in_one_commit_and_comes_back(hub, tmp_path):
    """All files and the card as README are in one commit; what is downloaded is the same bank."""
    bank = made_bank()
    assert push_bank(bank, "someone/small", endpoint=hub.address).endswith(COMMIT)
    assert sorted(hub.files) == ["README.md", "bank.json", "card.md", "selector.safetensors", "vocabulary.json"]
    assert hub.files["README.md"] == hub.files["card.md"]
    assert sum(path.endswith("/commit/main") for path, _ in hub.asked) == 1
    folder = fetch_bank("hf:someone/small", folder=tmp_path / "down", endpoint=hub.address)
    assert RubricBank.load(folder).digest == bank.digest


def test_refusals_are_one_line(hub):
    """A repository that is not there, or a name that is none, is said in one line, with a cure."""
    for name in ("someone/absent", "noslash", "../etc/passwd", "a/b/c", ""):
        for attempt in (
            lambda n: fetch_bank(f"hf:{n}", endpoint=hub.address),
            lambda n: push_bank(made_bank(), n, endpoint=f"{hub.address}/none"),
        ):
            with pytest.raises(UsageError) as caught:
                attempt(name)
            assert caught.value.hint
            assert "\n" not in caught.value.one_line()


def test_a_path_is_a_path():
    """Names without hf: are folders."""
    assert locate_bank("some/bank") == Path("some/bank")
