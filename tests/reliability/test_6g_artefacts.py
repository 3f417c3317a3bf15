"""Rows 115 to 125 of the fault table through the commands: hostile artefacts, with a canary that must never sing.

Each artefact's reader has tests of its own (`rows.py` names them). Here the artefacts are given to `svr` as a user
would give them, and what Python itself says about unpickling and starting programs is listened to.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hostile import (
    CACHE_ATTACKS,
    REFUSED_ATTACKS,
    TENSORS,
    made_bank,
    made_bank_with_strangers,
    made_data,
    made_script_folder,
    tamper,
    whole_bank,
)
from rig import environment, name_judge, write_bench

from svr_async.commands.main import run
from svr_async.commands.main import svr as group
from svr_async.simulation.server import SimServer

Svr = Callable[..., tuple[int, str]]
LOUD = {"pickle.find_class", "os.system", "subprocess.Popen", "os.exec", "os.posix_spawn"}
_heard: list[str] = []
_place: list[str] = []  # where the test's artefacts lie, while one is under way


def _listen(event: str, args: tuple[object, ...]) -> None:
    """Note events that only code from an artefact can cause; an audit hook cannot be taken away again."""
    if not _place:
        return
    from_artefact = event == "exec" and str(getattr(args[0], "co_filename", "")).startswith(_place[0])
    if from_artefact or event in LOUD:
        _heard.append(f"{event} {args!r}"[:200])


sys.addaudithook(_listen)


@pytest.fixture
def heard(tmp_path: Path) -> Iterator[None]:
    """Listen while a test runs; nothing may be heard."""
    _heard.clear()
    _place[:] = [str(tmp_path)]
    yield
    _place.clear()
    assert not _heard


@pytest.fixture
def call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], sim: SimServer, heard: None
) -> Svr:
    """Return a function that runs `svr …` in a folder of its own; it returns the exit code and what was said."""
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    write_bench(work / "bench.jsonl", 4)
    name_judge(work, sim.base_url)

    def run_it(*args: str | Path) -> tuple[int, str]:
        capfd.readouterr()
        code = run(group, "svr", [*map(str, args)])
        said = capfd.readouterr()
        assert "Traceback" not in said.err
        assert "a bug" not in said.err
        return code, said.out + said.err

    return run_it


ASK = ("eval", "rubricbench", "--data", "bench.jsonl", "--judge", "sim", "--audit", "0", "-q", "--cache", "cache")


def test_row_116_hostile_cache_rows_are_asked_again(call: Svr, tmp_path: Path, sim: SimServer) -> None:
    """Rows that would be unpickled, or name files, are misses, asked again; nothing runs, no file is touched."""
    canary, victim = tmp_path / "canary", tmp_path / "victim.txt"
    victim.write_text("precious")
    assert call(*ASK, "--out", "run")[0] == 0
    shutil.copytree("cache", "clean")
    for number, (name, attack) in enumerate(CACHE_ATTACKS.items()):
        shutil.rmtree("cache")
        shutil.copytree("clean", "cache")
        Path("cache").chmod(0o700)
        tamper(Path("cache"), attack, canary, victim)
        code, said = call(*ASK, "--out", f"run-{number}")
        assert code == 0, f"{name}: {said}"
        assert Path(f"run-{number}/items.jsonl").read_bytes() == Path("run/items.jsonl").read_bytes(), name
        code, said = call("cache", "verify", "--cache", "cache")
        assert code in {0, 5}, f"{name}: {said}"
        assert (canary.exists(), victim.read_text()) == (False, "precious"), name


def test_row_116_hostile_cache_settings_are_refused(call: Svr, tmp_path: Path) -> None:
    """Settings that would lose replies, and objects that no cache has, are exit 5 before any call; the file is kept."""
    assert call(*ASK, "--out", "run")[0] == 0
    shutil.copytree("cache", "clean")
    for name, attack in REFUSED_ATTACKS.items():
        shutil.rmtree("cache")
        shutil.copytree("clean", "cache")
        Path("cache").chmod(0o700)
        tamper(Path("cache"), attack, tmp_path / "canary", tmp_path / "victim")
        before = Path("cache/cache.db").read_bytes()
        code, said = call(*ASK, "--out", "other")
        assert (code, said.count("\n")) == (5, 1), f"{name}: {said}"
        assert Path("cache/cache.db").read_bytes() == before, name


def test_row_115_row_117_hostile_banks_are_refused(call: Svr, tmp_path: Path) -> None:
    """Pickles, headers that promise the world, arrays that overlap: exit 7, nothing run, before any call."""
    for name, make in TENSORS.items():
        bank = made_bank(tmp_path / "bank", make(tmp_path / "canary"))
        for command in (("bank", "show", bank), (*ASK, "--bank", bank, "--out", "never")):
            code, said = call(*command)
            assert (code, said.count("\n")) == (7, 1), f"{name}: {said}"
        assert not (tmp_path / "canary").exists(), name
    assert not Path("never").exists()


def test_row_115_files_beside_a_bank_are_not_opened(call: Svr, tmp_path: Path) -> None:
    """Pickles and scripts that lie in a bank's folder are not looked at."""
    bank = made_bank_with_strangers(tmp_path / "bank", tmp_path / "canary")
    code, said = call("bank", "show", bank)
    assert code in {0, 7}, said
    assert not (tmp_path / "canary").exists()


def test_row_096_row_097_row_098_hostile_data_is_refused(call: Svr, tmp_path: Path) -> None:
    """Bombs, pickles and archives in the place of data are exit 2 in one line; nothing is written elsewhere."""
    canary = tmp_path / "canary"
    for name, path in made_data(tmp_path / "data", canary).items():
        code, said = call("eval", "pairs", "--data", path, "--judge", "rules", "--out", "never")
        assert (code, said.count("\n")) == (2, 1), f"{name}: {said}"
    assert not canary.exists()
    assert not Path("never").exists()


def test_row_098_scripts_beside_data_are_never_run(call: Svr, tmp_path: Path) -> None:
    """A folder of pairs with loading scripts is read as data."""
    folder = made_script_folder(tmp_path / "set", tmp_path / "canary")
    (folder / "dataset_infos.json").unlink()
    code, said = call(
        "eval", "pairs", "--data", folder, "--judge", "rules", "--method", "longest", "-q", "--out", "run"
    )
    assert code == 0, said
    assert not (tmp_path / "canary").exists()


UNPICKLERS = ("joblib", "cloudpickle", "dill", "shelve", "torch")
GUARDED = """
import pickle, sys

def refuse(*_, **__):
    raise SystemExit("something was unpickled")

pickle.load = pickle.loads = refuse
pickle.Unpickler = pickle._Unpickler = type("Unpickler", (), {"__init__": refuse})
from svr_async.commands import main
try:
    main()
finally:
    print(sorted(set(sys.modules) & set(sys.argv[-1].split(","))), file=sys.stderr)
"""


def test_row_115_no_unpickler_is_used_to_judge(tmp_path: Path, sim: SimServer) -> None:
    """With every way to unpickle taken away a bank judges from a cache all the same; none was imported."""
    write_bench(tmp_path / "bench.jsonl", 3)
    name_judge(tmp_path, sim.base_url)
    whole_bank(tmp_path / "bank")
    for _ in range(2):  # the second time from the cache
        done = subprocess.run(
            [sys.executable, "-c", GUARDED, *ASK, "--bank", "bank", "--out", "run", "--seed", ",".join(UNPICKLERS)],
            cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=50, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert done.stderr.strip().splitlines()[-1] == "[]"
