"""`svr bank push`, `svr bank pull` and `hf:` names of banks, against a local server that answers as the hub does."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import numpy as np
import orjson
import pytest
import yaml
from local_hub import COMMIT, TOKEN, HubServer, local_hub
from made_bank import made_bank
from rig import RULES

from svr_async.commands.main import run
from svr_async.commands.main import svr as group
from svr_async.core.integrity import Integrity
from svr_async.errors import UsageError
from svr_async.scoring.bank import UNIFORM, BankHistory, RubricBank, TrainedOn
from svr_async.scoring.bank_hub import fetch_bank, upload_files
from svr_async.scoring.provenance import PROVENANCE, Provenance, read_provenance, write_provenance

BANK = made_bank(selector_kind=UNIFORM, selector={}, vocabulary={}, idf=np.zeros(0, np.float32))
Svr = Callable[..., tuple[int, str, str]]
PUSH = ("bank", "push", "trained/bank", "hf:someone/small")
PULL = ("bank", "pull", "hf:someone/small", "down")


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[HubServer]:
    """Serve an empty hub, with a bank in the folder `trained/bank`, and no token of this machine's user."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(tmp_path / "no-token"))
    monkeypatch.setattr(time, "sleep", lambda _: None)  # the library waits between its tries
    BANK.save("trained/bank")
    with local_hub(monkeypatch) as server:
        yield server


@pytest.fixture
def svr(capsys: pytest.CaptureFixture[str]) -> Svr:
    """Return a function that runs a command and returns exit code and output, which never holds the token."""

    def call(*args: str) -> tuple[int, str, str]:
        code = run(group, "svr", list(args))
        out, err = capsys.readouterr()
        assert TOKEN not in out + err
        assert err.count("\n") <= 1, err
        return code, out, err

    return call


@pytest.fixture
def uploaded(hub: HubServer, svr: Svr) -> HubServer:
    """Put the bank on the hub."""
    assert svr(*PUSH)[0] == 0
    hub.asked.clear()
    return hub


def refusal(svr: Svr, *args: str, code: int = 2) -> str:
    """Return the one line that a command ends with."""
    found, out, err = svr(*args)
    assert (found, out) == (code, "")
    return err


def fetched(hub: HubServer) -> list[str]:
    """Return the files that were downloaded since."""
    return sorted(path.rpartition("/")[2] for path, method in hub.asked if "/resolve/" in path and method != "HEAD")


def test_a_bank_is_pushed_in_one_commit_and_pulled_again(hub: HubServer, tmp_path: Path, svr: Svr) -> None:
    """Only the bank's own files and a card are uploaded; the pulled bank is the same, and its name is pinned."""
    for name in (".env", "cache.db", "notes.txt"):
        (tmp_path / "trained/bank" / name).write_text(TOKEN)
    write_provenance(tmp_path / "trained", BANK.digest)
    code, out, _ = svr(*PUSH, "--license", "mit", "--json")
    shown = orjson.loads(out)
    assert (code, shown["place"]) == (0, f"{hub.address}/someone/small/commit/{COMMIT}")
    files = ["README.md", "bank.json", "selector.safetensors", "vocabulary.json"]
    assert sorted(hub.files) == sorted(shown["files"]) == files
    assert sum(path.endswith("/commit/main") for path, _ in hub.asked) == 1
    assert not any(secret.encode() in b"".join(hub.files.values()) for secret in (TOKEN, str(tmp_path)))
    code, out, err = svr("bank", "pull", "hf:someone/small@v1", "down/here", "--json")
    assert (code, err, orjson.loads(out)["pinned"]) == (0, "", f"hf:someone/small@{COMMIT}")
    assert RubricBank.load("down/here").digest == BANK.digest


def test_a_dry_run_prints_all_and_asks_nothing(hub: HubServer, svr: Svr, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files with sizes and the card; neither a token nor a server is needed."""
    monkeypatch.delenv("HF_TOKEN")
    code, out, _ = svr(*PUSH, "--dry-run")
    assert (code, hub.asked) == (0, [])
    for words in ("would upload 4 files to someone/small", "bank.json", 'license: "cc-by-4.0"', "svr bank pull"):
        assert words in out


def test_a_push_that_fails_is_one_line(hub: HubServer, svr: Svr, monkeypatch: pytest.MonkeyPatch) -> None:
    """A refused token, none at all, an invalid name, a hub without a connection: exit 2, and no file."""
    hub.token = "hf_another"
    assert "the token is not valid" in refusal(svr, *PUSH)
    monkeypatch.delenv("HF_TOKEN")
    assert "the hub needs a token — set HF_TOKEN" in refusal(svr, *PUSH)
    assert "write hf:someone/small" in refusal(svr, *PUSH[:-1], "hf:someone/small@v1")
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    assert "no connection to http://127.0.0.1:9" in refusal(svr, *PUSH)
    assert "invalid name of a bank on the hub: 'noslash'" in refusal(svr, *PUSH[:-1], "noslash"), "before a connection"
    assert hub.files == {}


def test_a_hostile_repository_is_refused(uploaded: HubServer, svr: Svr) -> None:
    """A pickle, a changed file, a missing one: one line, and no folder is made."""
    good = dict(uploaded.files)
    for change, says in (
        ({"bank.json": b"\x80\x04pickle"}, "bank.json is refused: it is not valid"),
        ({"selector.safetensors": good["selector.safetensors"][:-1] + b"\x00"}, "damaged, or of another fit"),
        ({"vocabulary.json": None}, "vocabulary.json is refused: it is missing"),
    ):
        uploaded.files = {name: data for name, data in (good | change).items() if data is not None}
        uploaded.commit = sha256(repr(change).encode()).hexdigest()[:40]
        assert says in refusal(svr, *PULL, code=7)
    assert not Path("down").exists()


def test_a_pull_that_fails_is_one_line(uploaded: HubServer, svr: Svr) -> None:
    """No such repository or revision, no bank in it, an occupied place, a connection that is always cut."""
    assert "may not see it" in refusal(svr, *PULL[:2], "hf:someone/absent", "down")
    assert "does not exist, or this token may not see it" in refusal(svr, *PULL[:2], "hf:someone/small@v9", "down")
    assert "trained exists already" in refusal(svr, *PULL[:3], "trained")
    uploaded.cut = 1_000
    assert "could not fetch the bank hf:someone/small" in refusal(svr, *PULL)
    uploaded.cut = 0
    del uploaded.files["bank.json"]
    uploaded.commit = "d" * 40
    assert "is not a bank: it has no bank.json" in refusal(svr, *PULL)
    assert not Path("down").exists()


@pytest.mark.parametrize("name", ["hf:someone/small", "hf:someone/small@v1", "hf:someone/small@refs/pr/v1"])
def test_a_bank_is_loaded_by_its_name_on_the_hub(
    uploaded: HubServer, name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its files are downloaded once, without a word; later they serve without a connection, or offline."""
    assert RubricBank.load(name).digest == BANK.digest
    assert fetched(uploaded) == ["bank.json", "selector.safetensors", "vocabulary.json"]
    uploaded.asked.clear()
    assert RubricBank.load(name).digest == BANK.digest
    assert fetched(uploaded) == []
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    assert RubricBank.load(name).digest == BANK.digest
    with pytest.raises(UsageError, match=r"no connection to http://127\.0\.0\.1:9, and it was not downloaded before"):
        fetch_bank("hf:someone/other")
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    "name",
    ["someone/small@", "a/b@../x", "a/b@/etc", "a/b@-x", "noslash", "../etc/passwd", "a/b/c", "", "sömeone/small"],
)
def test_a_name_cannot_lead_out_of_the_downloads(hub: HubServer, name: str) -> None:
    """It is refused in one line before a connection."""
    with pytest.raises(UsageError, match="invalid name of a bank on the hub") as caught:
        RubricBank.load(f"hf:{name}")
    assert "\n" not in caught.value.one_line()
    assert hub.asked == []


def test_an_offline_evaluation_opens_no_socket_for_its_bank(uploaded: HubServer, svr: Svr) -> None:
    """With --offline the bank is the one that was downloaded; a missing one is one line."""
    args = ["eval", "rubricbench", "--sample", *RULES, "--limit", "2", "--bank", "hf:someone/small", "-q", "--offline"]
    assert "offline, and it was not downloaded before" in refusal(svr, *args)
    fetch_bank("hf:someone/small")
    uploaded.asked.clear()
    assert svr(*args)[0] == 0
    assert uploaded.asked == []


def test_the_card_says_what_others_must_know() -> None:
    """Marks come first; data set, licence, pairs, accuracy with its interval, command and versions follow."""
    history = BankHistory(trained_on=TrainedOn(train_pairs=950, dev_pairs=400, source="hf:org/prefs@abc:train"))
    marks, metrics = frozenset({Integrity.SIMULATED}), {"accuracy": 0.8, "pairs": 400}
    bank = made_bank(history=history, marks=marks, dev_metrics=metrics)
    made = Provenance(bank=bank.digest, command=("svr", "train", "/home/ana/p.jsonl"), versions={"numpy": "9.9"})
    card = upload_files(bank, "hf:someone/small", made=made)[1]["README.md"].decode()
    front = yaml.safe_load(card.split("---")[1])
    assert (front["license"], front["datasets"]) == ("cc-by-4.0", ["org/prefs"])
    assert front["tags"][-1] == "simulated"
    assert "> **SIMULATED**" in card.partition("##")[0]
    for words in (
        "3 rubrics with weights", "950 trained on", "0.7580 to 0.8363 over 400 pairs", "--bank hf:someone/small",
        "svr train p.jsonl", "9.9",
    ):  # fmt: skip
        assert words in card
    few = replace(bank, dev_metrics={"accuracy": 0.8, "pairs": 40})
    assert "95 % interval" not in upload_files(few, "hf:someone/small")[1]["README.md"].decode()


def test_provenance_has_no_folders_and_belongs_to_one_bank(tmp_path: Path) -> None:
    """Files and folders are shown by name only, addresses and hub names whole; damaged files count as missing."""
    words = ("svr", "train", "/home/ana/pairs.jsonl", "--out=../x/b/", "--judge", "http://h:1/v1#m", "hf:o/n:train")
    made = Provenance(bank="", command=words, versions={})
    assert made.for_others == "svr train pairs.jsonl --out=b --judge http://h:1/v1#m hf:o/n:train"
    write_provenance(tmp_path, "d" * 64)
    found = read_provenance(tmp_path / "bank", "d" * 64)
    assert found is not None
    assert {"python", "svr-async", "jax"} <= found.versions.keys()
    assert read_provenance(tmp_path / "bank", "e" * 64) is None
    (tmp_path / PROVENANCE).write_text('{"bank": ')
    assert read_provenance(tmp_path / "bank", "d" * 64) is None
