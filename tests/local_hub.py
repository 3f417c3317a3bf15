"""A local server that answers as the Hugging Face hub does: all repositories but someone/absent hold its files."""

from __future__ import annotations

import base64
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import orjson
import pytest

COMMIT = "c" * 40
TOKEN = "hf_made_up_and_secret"
INVALID = "Invalid credentials in Authorization header"
REPOSITORY = re.compile(r"/api/(?:models|datasets)/(?!someone/absent)([^/]+/[^/?]+)(?:/(\w+))?")
PROXIES = ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")


class HubServer(ThreadingHTTPServer):
    """A local server that knows what it was asked and which files it holds."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Hub)
        self.asked: list[tuple[str, str]] = []
        self.files: dict[str, bytes] = {}
        self.token = ""  # the only one that may write, where there is one
        self.commit = COMMIT
        self.cut = 0  # number of files of which only half is sent
        self.address = f"http://127.0.0.1:{self.server_port}"


class Hub(BaseHTTPRequestHandler):
    """Takes one repository, keeps the files of its commits and serves them."""

    server: HubServer

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.asked.append((self.path, self.headers.get("Authorization", "")))
        if self.refused():
            return
        if self.path == "/api/repos/create":
            made = orjson.loads(body)
            name = f"{made.get('organization') or 'someone'}/{made['name']}"
            self.reply({"url": f"{self.server.address}/{name}", "name": name, "id": name})
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
            name = REPOSITORY.sub(r"\1", self.path).removesuffix("/main")
            self.reply({"commitUrl": f"{self.server.address}/{name}/commit/{COMMIT}", "commitOid": COMMIT})
        else:
            self.reply({"error": "what?"}, 404)

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        self.server.asked.append((self.path, self.command if self.command == "HEAD" else ""))
        if self.refused():
            return
        name = re.sub(r".*/resolve/[^/]+/", "", self.path)
        listed = REPOSITORY.match(self.path)
        if listed and listed[2] == "tree":
            sizes = {path: len(data) for path, data in self.server.files.items()}
            self.reply([{"type": "file", "path": p, "size": n, "oid": "0" * 40} for p, n in sizes.items()])
        elif "/revision/" in self.path and self.path.partition("?")[0].rpartition("/")[2] not in (
            "main",
            "v1",
            "refs%2Fpr%2Fv1",
        ):
            self.send(b"{}", 404, {"X-Error-Code": "RevisionNotFound"})
        elif listed:
            sizes = {path: len(data) for path, data in self.server.files.items()}
            siblings = [{"rfilename": path, "size": size} for path, size in sizes.items()]
            self.reply({"id": listed[1], "sha": self.server.commit, "siblings": siblings, "private": False})
        elif name in self.server.files:
            data = self.server.files[name]
            etag = f'"{sha256(data).hexdigest()}"'
            self.send(data, 200, {"ETag": etag, "X-Repo-Commit": self.server.commit})
        else:
            self.reply({"error": "not found"}, 404)

    def refused(self) -> bool:
        """Refuse a token that is not the one."""
        refused = self.server.token not in self.headers.get("Authorization", "")
        if refused:
            self.send(b'{"error": "Invalid user token."}', 401, {"X-Error-Message": INVALID})
        return refused

    def reply(self, value: dict[str, Any] | list[dict[str, Any]], status: int = 200) -> None:
        self.send(orjson.dumps(value), status, {"Content-Type": "application/json"})

    def send(self, data: bytes, status: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for key, value in {**headers, "Content-Length": str(len(data))}.items():
            self.send_header(key, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        if "/resolve/" in self.path and self.server.cut:
            self.server.cut -= 1
            self.wfile.write(data[: len(data) // 2])
            self.close_connection = True
        else:
            self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def local_hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[HubServer]:
    """Serve an empty hub and send the library there, with a token."""
    for name in PROXIES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_DISABLE_TELEMETRY", True)  # it asks the public hub otherwise
    server = HubServer()
    monkeypatch.setenv("HF_ENDPOINT", server.address)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
