"""`svr bank push` and `svr bank pull`, against a local server that answers as the hub does."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import orjson
import pytest
import yaml
from local_hub import COMMIT, TOKEN, HubServer, local_hub
from made_bank import made_bank

from svr_async.commands.main import run
from svr_async.commands.main import svr as group
from svr_async.core.integrity import Integrity
from svr_async.scoring.bank import RubricBank
from svr_async.scoring.bank_files import MAX_BYTES
from svr_async.scoring.bank_history import BankHistory, TrainedOn
from svr_async.scoring.bank_hub import planned_upload
from svr_async.scoring.provenance import PROVENANCE, read_provenance, without_folders, write_provenance

Svr = Callable[..., tuple[int, str, str]]


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[HubServer]:
    """Serve an empty hub, with a bank in the folder `trained/bank`, and no token of this machine's user."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(tmp_path / "no-token"))
    monkeypatch.setattr(time, "sleep", lambda _: None)  # the library waits between its tries
    made_bank().save("trained/bank")
    with local_hub(monkeypatch) as server:
        yield server


@pytest.fixture
def svr(capsys: pytest.CaptureFixture[str]) -> Svr:
    """Return what runs a command and tells its exit code and what it printed, of which nothing is the token."""

    def call(*args: str) -> tuple[int, str, str]:
        code = run(group, "svr", list(args))
        out, err = capsys.readouterr()
        assert TOKEN not in out + err
        assert err.count("\n") <= 1, err
        return code, out, err

    return call


def test_a_bank_goes_up_in_one_commit_and_comes_back(hub: HubServer, tmp_path: Path, svr: Svr) -> None:
    """The bank's own files and a card go, nothing that lies beside them; what comes back is the same bank, pinned."""
    digest = keep_beside(tmp_path)
    code, out, _ = svr("bank", "push", "trained/bank", "hf:someone/small", "--license", "mit", "--json")
    told = orjson.loads(out)
    assert (code, told["place"]) == (0, f"{hub.address}/someone/small/commit/{COMMIT}")
    assert sorted(hub.files) == sorted(told["files"])
    assert sorted(hub.files) == ["README.md", "bank.json", "selector.safetensors", "vocabulary.json"]
    assert sum(path.endswith("/commit/main") for path, _ in hub.asked) == 1
    assert TOKEN.encode() not in b"".join(hub.files.values())
    assert str(tmp_path).encode() not in b"".join(hub.files.values())
    code, out, err = svr("bank", "pull", "hf:someone/small@v1", "down/here", "--json")
    assert code == 0, err
    assert (code, orjson.loads(out)["pinned"]) == (0, f"hf:someone/small@{COMMIT}")
    assert RubricBank.load("down/here").digest == digest
    assert [path.name for path in Path("down").iterdir()] == ["here"]


def keep_beside(tmp_path: Path) -> str:
    """Put a key and a cache into the bank's folder, and what it was made with beside it; return the bank's digest."""
    digest = RubricBank.load("trained/bank").digest
    for name in (".env", "cache.db", "notes.txt"):
        (tmp_path / "trained/bank" / name).write_text(TOKEN)
    write_provenance(tmp_path / "trained", digest)
    return digest


def test_a_dry_run_prints_all_and_asks_nobody(hub: HubServer, svr: Svr, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files with sizes and the card stand there; neither a token nor a server is needed."""
    monkeypatch.delenv("HF_TOKEN")
    code, out, _ = svr("bank", "push", "trained/bank", "hf:someone/small", "--dry-run")
    assert (code, hub.asked) == (0, [])
    for words in ("would upload 4 files to someone/small", "bank.json", 'license: "cc-by-4.0"', "svr bank pull"):
        assert words in out


def test_what_keeps_a_bank_from_going_up_is_one_line(hub: HubServer, svr: Svr, monkeypatch: pytest.MonkeyPatch) -> None:
    """A token that is refused, none at all, a name that is none, and a hub that is not there: exit 2, and no file."""
    hub.token = "hf_another"
    push = ("bank", "push", "trained/bank", "hf:someone/small")
    assert "the token is not valid" in refusal(svr, *push)
    monkeypatch.delenv("HF_TOKEN")
    assert "the hub needs a token — set HF_TOKEN" in refusal(svr, *push)
    assert "write hf:someone/small" in refusal(svr, *push[:-1], "hf:someone/small@v1")
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    assert "no connection to http://127.0.0.1:9" in refusal(svr, *push)
    assert "invalid name of a repository: 'noslash'" in refusal(svr, *push[:-1], "noslash"), "before a connection"
    assert hub.files == {}


def refusal(svr: Svr, *args: str, code: int = 2) -> str:
    """Return the line that a command ends with."""
    found, out, err = svr(*args)
    assert (found, out) == (code, "")
    return err


@pytest.fixture
def uploaded(hub: HubServer, svr: Svr) -> HubServer:
    """Put the bank on the hub."""
    assert svr("bank", "push", "trained/bank", "hf:someone/small")[0] == 0
    hub.asked.clear()
    return hub


def test_a_hostile_repository_leaves_nothing_behind(uploaded: HubServer, svr: Svr) -> None:
    """A pickle, a changed file, a missing one, one too large to be a bank's: refused, and no folder is made."""
    pull, good = ("bank", "pull", "hf:someone/small", "down"), dict(uploaded.files)
    uploaded.files["bank.json"] = b"\x80\x04pickle"
    assert "it is a pickle" in refusal(svr, *pull, code=7)
    uploaded.files.update(good | {"selector.safetensors": good["selector.safetensors"][:-1] + b"\x00"})
    assert "damaged, or of another fit" in refusal(svr, *pull, code=7)
    uploaded.files.update(good)
    del uploaded.files["vocabulary.json"]
    assert "small: vocabulary.json is refused: it is missing" in refusal(svr, *pull, code=7)
    uploaded.asked.clear()
    uploaded.sizes["selector.safetensors"] = MAX_BYTES["selector.safetensors"] + 1
    assert "bytes, at most" in refusal(svr, *pull, code=7)
    assert not any("/resolve/" in path for path, _ in uploaded.asked), "nothing is fetched"
    assert [path.name for path in Path().iterdir() if path.name != "cache"] == ["trained"]


def test_what_keeps_a_bank_from_coming_is_one_line(uploaded: HubServer, svr: Svr) -> None:
    """No such repository, no such revision, none of a bank, a place that is taken, a connection that is always cut."""
    pull = ("bank", "pull", "hf:someone/small", "down")
    assert "may not see it" in refusal(svr, *pull[:2], "hf:someone/absent", "down")
    assert "does not exist, or this token may not see it" in refusal(svr, *pull[:2], "hf:someone/small@v9", "down")
    assert "trained exists already" in refusal(svr, *pull[:3], "trained")
    uploaded.cut = 1_000
    assert "could not fetch the bank hf:someone/small" in refusal(svr, *pull)
    uploaded.cut = 0
    del uploaded.files["bank.json"]
    assert "is not a bank: it has no bank.json" in refusal(svr, *pull)
    assert not Path("down").exists()


def test_the_card_says_what_others_must_know() -> None:
    """Marks come first; data set, licence, pairs, accuracy with its interval, command and versions are there."""
    history = BankHistory(trained_on=TrainedOn(train_pairs=950, dev_pairs=400, source="hf:org/prefs@abc:train"))
    bank = made_bank(
        history=history, marks=frozenset({Integrity.SIMULATED}), dev_metrics={"accuracy": 0.8, "pairs": 400}
    )
    card = planned_upload(bank, "hf:someone/small").files["README.md"].decode()
    front = yaml.safe_load(card.split("---")[1])
    assert (front["license"], front["datasets"]) == ("cc-by-4.0", ["org/prefs"])
    assert front["tags"][-1] == "simulated"
    assert "> **SIMULATED**" in card.partition("##")[0]
    for words in (
        "3 rubrics with weights",
        "950 trained on",
        "0.7580 to 0.8363 over 400 pairs",
        "--bank hf:someone/small",
    ):
        assert words in card
    few = replace(bank, dev_metrics={"accuracy": 0.8, "pairs": 40})
    assert "95 % interval" not in planned_upload(few, "hf:someone/small").files["README.md"].decode()


def test_a_command_is_told_without_folders(tmp_path: Path) -> None:
    """Of files and folders the name alone; addresses and names of the hub stay; of another bank nothing is known."""
    words = ["svr", "train", "/home/ana/pairs.jsonl", "--out=../x/b", "--judge", "http://h:1/v1#m", "hf:o/n:train"]
    assert without_folders(words) == "svr train pairs.jsonl --out=b --judge http://h:1/v1#m hf:o/n:train"
    write_provenance(tmp_path, "d" * 64)
    found = read_provenance(tmp_path / "bank", "d" * 64)
    assert found is not None
    assert {"python", "svr-async", "jax"} <= found.versions.keys()
    assert read_provenance(tmp_path / "bank", "e" * 64) is None
    (tmp_path / PROVENANCE).write_text('{"bank": ')
    assert read_provenance(tmp_path / "bank", "d" * 64) is None
