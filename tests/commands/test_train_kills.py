"""`svr train` and `svr judge` killed by SIGKILL at every stage: the same command again ends with the same bytes.

Real processes over HTTP against a real `svr sim`, whose log is the witness of what was paid.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import TimeoutExpired

import pytest
from killer import dies_at, killed_at
from made_pairs import PATIENCE_S, TRAIN, files_of, write_candidates, write_made, write_planted
from rig import background, name_judge, paid, read_lines, sim_process, svr, wait_until

pytestmark = pytest.mark.timeout(2 * PATIENCE_S)
CONCURRENCY = 4
SLOW = (*TRAIN, "--concurrency", str(CONCURRENCY))


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """Serve the simulated endpoint in a process, slowly enough to be interrupted; yields its URL and its call log."""
    folder = tmp_path_factory.mktemp("sim")
    with sim_process(folder, "--latency-ms", "20", "--log", folder / "log.jsonl") as url:
        yield url, folder / "log.jsonl"


@pytest.fixture(scope="module")
def whole(trained: Path) -> dict[str, bytes]:
    """Return the files of the bank of a training without a stop."""
    bank = files_of(trained / "out" / "bank")
    assert set(bank) >= {"bank.json", "card.md", "selector.safetensors", "vocabulary.json"}
    return bank


def prepare(folder: Path, url: str) -> None:
    """Put pairs and judge into a folder."""
    write_planted(folder / "pairs.jsonl")
    name_judge(folder, url)


def finish(folder: Path) -> None:
    """Give the command once more, and let it end."""
    done = svr(*TRAIN, "--concurrency", "48", cwd=folder, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr


def kill_when(ready: Callable[[], bool], folder: Path) -> None:
    """Train, and kill the process from outside as soon as something has happened."""
    with background(*SLOW, cwd=folder) as process:
        wait_until(ready)
        assert process.poll() is None
        process.kill()
        process.wait(20)


def repaid(log: Path, start: int) -> int:
    """Count the calls since then that were paid although the same request had been paid before."""
    counts = paid(log, start)
    return sum(counts.values()) - len(counts)


FIRST_KEPT = "open out/stages$"  # the first candidates are kept, the bank is not built yet
KILLS = (
    "os.rename out/stages/fit-1.json",  # the first fit's arrays are kept, what they are is not
    "os.rename out/stores/.round-1.part/meta.json",  # the round's store is there but for its last file
    "os.rename out/stages/judge-2.json",
    "os.rename out/bank/bank.json",  # the bank's other files are there
)
ALL_KILLS = (
    *KILLS[:1],
    "os.rename out/stages/calibrate-1.json",
    *KILLS[1:2],
    "os.rename out/stages/negatives-1.json",  # the boundary's arrays are kept, what they are is not
    *KILLS[2:3],
    "os.rename out/stores/round-2",  # it is whole, beside its place
    *KILLS[3:],
)


@pytest.mark.parametrize("kills", [KILLS, pytest.param(ALL_KILLS, marks=pytest.mark.soak)], ids=["some", "all"])
def test_killed_at_stage_after_stage_the_bank_is_that_of_a_run_without_a_stop(
    tmp_path: Path,
    endpoint: tuple[str, Path],
    whole: dict[str, bytes],
    trained: Path,
    kills: tuple[str, ...],
) -> None:
    """Many kills in one training: while inducing and judging, after a fit, when files are written.

    The bank is the same, and so is each round's feature store.

    What is paid twice was in flight at a kill; a kill where nothing was in flight costs no call at all.
    """
    url, log = endpoint
    prepare(tmp_path, url)
    start, stores = len(read_lines(log)), files_of(trained / "out" / "stores")
    stages = tmp_path / "out" / "stages"
    kill_when(lambda: len(read_lines(log)) >= start + 25, tmp_path)
    assert not stages.exists()
    killed_at(FIRST_KEPT, *SLOW, cwd=tmp_path)
    assert [path.name for path in stages.glob("*.json")] == ["induce-1.json"]
    before = len(read_lines(log))
    kill_when(lambda: len(read_lines(log)) >= before + 25, tmp_path)
    assert not (stages / "judge-1.json").exists()
    in_flight = repaid(log, start)
    for pattern in kills:
        killed_at(pattern, *SLOW, cwd=tmp_path)
        assert not (tmp_path / "out" / "bank" / "bank.json").exists()
    finish(tmp_path)
    files = files_of(tmp_path / "out" / "bank")
    assert {name: files[name] for name in whole} == whole
    assert files_of(tmp_path / "out" / "stores") == stores
    assert in_flight <= CONCURRENCY
    assert repaid(log, start) <= 2 * CONCURRENCY


DESCENT = ("train", "made.jsonl", "--judge", "rules", "--out", "out", "--preset", "paper", "--rounds", "1", "-q")


@pytest.mark.soak  # tests/fit stops such a fit within, in small
def test_killed_within_a_fit_that_descends_the_bank_is_that_of_a_run_without_a_stop(tmp_path: Path) -> None:
    """Two kills between the epochs of the paper's preset: fit and calibration go on from their checkpoints."""
    folders = [tmp_path / "whole", tmp_path / "killed"]
    for folder in folders:
        folder.mkdir()
        write_made(folder / "made.jsonl", 40)
    assert svr(*DESCENT, cwd=folders[0], timeout=PATIENCE_S).returncode == 0
    two_kept = "os.rename out/stages/fit-1/fit.safetensors"
    killed_at(two_kept, *DESCENT, cwd=folders[1], count=3)
    assert (folders[1] / "out" / "stages" / "fit-1" / "fit.safetensors").exists()
    one_without_its_note = "os.rename out/stages/calibrate-1/checkpoint.json"
    killed_at(one_without_its_note, *DESCENT, cwd=folders[1])
    done = svr(*DESCENT, cwd=folders[1], timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr
    assert files_of(folders[1] / "out" / "bank") == files_of(folders[0] / "out" / "bank")


STORE = ("judge", "made.jsonl", "--judge", "rules", "--candidates", "c.jsonl", "--out", "store", "-q")


def test_a_store_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    """Killed while a feature store is written: there is none, and the same command writes the one it would have."""
    folders = [tmp_path / "whole", tmp_path / "killed"]
    for folder in folders:
        folder.mkdir()
        write_made(folder / "made.jsonl", 40)
        write_candidates(folder / "c.jsonl")
    assert svr(*STORE, cwd=folders[0]).returncode == 0
    killed_at("os.rename .store.part/meta.json", *STORE, cwd=folders[1])
    assert not (folders[1] / "store").exists()
    done = svr(*STORE, cwd=folders[1])
    assert done.returncode == 0, done.stderr
    assert files_of(folders[1] / "store") == files_of(folders[0] / "store")
    assert not (folders[1] / ".store.part").exists()


@pytest.mark.soak
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("seed", range(4))
def test_killed_at_random_moments_a_training_comes_to_the_same_bank(
    tmp_path: Path, endpoint: tuple[str, Path], whole: dict[str, bytes], seed: int
) -> None:
    """Ten kills for each seed, anywhere from the first import to the last file; a training that ends is begun anew."""
    url, log = endpoint
    draw, kills = random.Random(seed), 0
    while kills < 10:
        folder, start, before = tmp_path / f"{len(list(tmp_path.iterdir()))}", len(read_lines(log)), kills
        folder.mkdir()  # a new one also after a training that ended before its first kill
        prepare(folder, url)
        while kills < 10 and killed_after(draw.uniform(0.3, 8), folder):
            kills += 1
        finish(folder)
        files = files_of(folder / "out" / "bank")
        assert {name: files[name] for name in whole} == whole
        assert repaid(log, start) <= CONCURRENCY * (kills - before)


def killed_after(seconds: float, folder: Path) -> bool:
    """Train and kill after so long; return whether the process was still there to be killed."""
    with background(*SLOW, cwd=folder) as process:
        try:
            assert process.wait(seconds) == 0
        except TimeoutExpired:
            process.kill()
            return True
    return False


@pytest.mark.soak
@pytest.mark.timeout(1200)
def test_killed_at_every_few_file_operations_a_training_comes_to_the_same_bank(
    tmp_path: Path, endpoint: tuple[str, Path], whole: dict[str, bytes]
) -> None:
    """Each run is killed some file operations after it began to write, until one is through: nothing is left half.

    A round's feature store takes some 42 operations and is begun anew by each run until it is whole.
    """
    url, log = endpoint
    prepare(tmp_path, url)
    draw, start, kills = random.Random(7), len(read_lines(log)), 0
    operations = "(os.rename|open|os.remove|os.mkdir) out"
    while not (tmp_path / "out" / "record.json").exists():  # the last file; the bank is written anew by each run
        kills += dies_at(operations, *SLOW, cwd=tmp_path, count=draw.randint(6, 66))
    finish(tmp_path)
    files = files_of(tmp_path / "out" / "bank")
    assert {name: files[name] for name in whole} == whole
    assert kills > 5
    assert repaid(log, start) <= CONCURRENCY * kills
