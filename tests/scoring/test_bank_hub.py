"""Banks on the hub, against a local server that answers as the hub does."""

from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
from local_hub import Hub, HubServer, local_hub
from made_bank import made_bank
from rig import RULES

from svr_async.commands.main import run
from svr_async.commands.main import svr as group
from svr_async.errors import UsageError
from svr_async.scoring.bank import UNIFORM, RubricBank
from svr_async.scoring.bank_hub import download_folder, fetch_bank, locate_bank, planned_upload, push_bank


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[HubServer]:
    """Serve an empty hub."""
    with local_hub(monkeypatch) as server:
        yield server


@pytest.fixture
def uploaded(hub: HubServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HubServer:
    """Put a bank on the hub, and work in an empty folder."""
    monkeypatch.chdir(tmp_path)
    push_bank(planned_upload(uniform_bank(), "hf:someone/small"))
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
    assert RubricBank.load(name).digest == RubricBank.load(Path(name)).digest == uniform_bank().digest
    assert {"bank.json", "selector.safetensors", "vocabulary.json"} <= set(got(uploaded))
    assert "README.md" not in got(uploaded)
    assert (download_folder(name) / "bank.json").is_file()
    assert download_folder(name).parent == Path("cache/banks")
    assert capfd.readouterr().err == ""


def test_what_was_fetched_serves_without_the_hub(uploaded: HubServer) -> None:
    """The files are not fetched twice; with a hub that is gone, or offline, they are used from where they lie."""
    RubricBank.load("hf:someone/small")
    before = [path for path, _ in uploaded.asked if "/resolve/" in path and path.endswith("safetensors")]
    RubricBank.load("hf:someone/small")
    assert [p for p, _ in uploaded.asked if "/resolve/" in p and p.endswith("safetensors")] == before
    uploaded.asked.clear()
    assert locate_bank("hf:someone/small", offline=True) == Path("cache/banks/someone--small")
    assert uploaded.asked == []
    with pytest.raises(UsageError, match="was not downloaded before"):
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


@pytest.mark.parametrize(
    "name",
    ["someone/small@", "a/b@../x", "a/b@/etc", "a/b@-x", "noslash", "../etc/passwd", "a/b/c", "", "sömeone/small"],
)
def test_a_name_cannot_lead_out_of_the_downloads(uploaded: HubServer, tmp_path: Path, name: str) -> None:
    """It is refused in one line before anything is asked or written."""
    with pytest.raises(UsageError, match=r"invalid (revision|name of a repository)") as caught:
        RubricBank.load(f"hf:{name}")
    assert "\n" not in caught.value.one_line()
    assert (uploaded.asked, list(tmp_path.iterdir())) == ([], [])


def test_an_offline_evaluation_opens_no_socket_for_its_bank(
    uploaded: HubServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """With --offline the bank is the one that was fetched; one that was not is a line."""
    args = ["eval", "rubricbench", "--sample", *RULES, "--limit", "2", "--bank", "hf:someone/small", "-q", "--offline"]
    assert run(group, "svr", args) == 2
    assert "was not downloaded before" in capsys.readouterr().err
    fetch_bank("hf:someone/small")
    uploaded.asked.clear()
    assert run(group, "svr", args) == 0
    assert uploaded.asked == []
