"""Evaluations and trainings killed with SIGKILL: the rerun gives the same bytes and repeats only calls in flight."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from endpoint import SimConfig, SimServer
from killer import killed_at
from rig import name_judge, serving, svr
from trials import EVAL, Reference, evaluate, items, kill_after, paid_again, prepare, rows, run_without_faults

from svr_async.engine.caller import SPARE_WORKERS
from svr_async.simulation.world import World, train_row

PAIRS = 24
CONCURRENCY = 4
IN_FLIGHT = CONCURRENCY + SPARE_WORKERS  # calls on the wire, and replies whose commit had not ended
SLOWLY = ("--concurrency", str(CONCURRENCY))


def some(moments: list[Any], short: list[int]) -> list[Any]:
    """Return all moments as parameters; those that `short` does not name are left to `make soak`."""
    return [
        pytest.param(moment, id=str(moment), marks=() if number in short else pytest.mark.soak)
        for number, moment in enumerate(moments)
    ]


@pytest.fixture(scope="module")
def slow() -> Iterator[SimServer]:
    """Serve an endpoint that is slow enough for its caller to be killed."""
    with serving(SimConfig(latency_ms=25.0)) as server:
        yield server


# --- evaluations ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Reference:
    """Evaluate once without a kill."""
    return run_without_faults(tmp_path_factory.mktemp("whole"), PAIRS, "self-rubric")


@pytest.mark.parametrize("percent", some([1, 10, 20, 30, 40, 50, 60, 70, 80, 95], [0, 5]))
def test_a_killed_evaluation_resumes_to_the_same_bytes(
    tmp_path: Path, slow: SimServer, whole: Reference, percent: int
) -> None:
    """Killed after a share of its calls: the rerun asks only for what the cache does not hold."""
    slow.reset()
    prepare(tmp_path, slow.base_url, PAIRS)
    calls = max(1, whole.calls * percent // 100)
    kill_after(slow, calls, *EVAL, "--method", "self-rubric", *SLOWLY, cwd=tmp_path)
    assert not (tmp_path / "run" / "metrics.json").exists()
    kept = rows(tmp_path / "cache") if (tmp_path / "cache" / "cache.db").exists() else 0
    before = slow.stats()["paid"]
    assert kept >= before - IN_FLIGHT
    done = evaluate(tmp_path, method="self-rubric")
    assert done.returncode == 0, done.stderr
    assert items(tmp_path) == whole.items
    assert slow.stats()["paid"] - before == whole.calls - kept
    assert paid_again(slow) <= IN_FLIGHT


@pytest.mark.parametrize("name", ["items.jsonl", pytest.param("metrics.json", marks=pytest.mark.soak)])
def test_a_kill_while_the_run_folder_is_written_costs_no_call(
    tmp_path: Path, slow: SimServer, whole: Reference, name: str
) -> None:
    """Files of a run folder are whole or missing; the rerun writes the same bytes from the cache alone."""
    slow.reset()
    prepare(tmp_path, slow.base_url, PAIRS)
    killed_at(f"os.rename .*{name}$", *EVAL, "--method", "self-rubric", cwd=tmp_path)
    assert not (tmp_path / "run" / name).exists()
    done = evaluate(tmp_path, method="self-rubric")
    assert done.returncode == 0, done.stderr
    assert items(tmp_path) == whole.items
    assert slow.stats()["paid"] == whole.calls


@pytest.mark.soak
def test_an_evaluation_killed_again_and_again_ends_with_the_same_bytes(
    tmp_path: Path, slow: SimServer, whole: Reference
) -> None:
    """Ten kills in one evaluation."""
    slow.reset()
    prepare(tmp_path, slow.base_url, PAIRS)
    for number in range(10):
        kill_after(slow, whole.calls * number // 10, *EVAL, "--method", "self-rubric", *SLOWLY, cwd=tmp_path)
    done = evaluate(tmp_path, method="self-rubric")
    assert done.returncode == 0, done.stderr
    assert items(tmp_path) == whole.items
    assert paid_again(slow) <= 10 * IN_FLIGHT


# --- trainings --------------------------------------------------------------------------------------------------------

TRAIN = ("train", "pairs.jsonl", "--judge", "sim", "--out", "out", "--rounds", "2", "--pool-size", "6",
         "--cache", "cache", "-q")  # fmt: skip
TRAINING_LIMIT_S = 240  # one training takes about four seconds on a free machine


def prepare_training(folder: Path, base_url: str) -> Path:
    """Write planted pairs and a judges.toml into a folder."""
    data = b"".join(orjson.dumps(train_row(pair)) + b"\n" for pair in World().pairs(40, "train"))
    (folder / "pairs.jsonl").write_bytes(data)
    name_judge(folder, base_url)
    return folder


def train(folder: Path) -> None:
    """Train to the end."""
    done = svr(*TRAIN, "--concurrency", "32", cwd=folder, timeout=TRAINING_LIMIT_S)
    assert done.returncode == 0, done.stderr


def products(folder: Path) -> dict[str, bytes]:
    """Return the files of the bank and of the feature stores by name, without temporary files of killed processes."""
    made = [path for name in ("bank", "stores") for path in (folder / "out" / name).rglob("[!.]*") if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in made}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, bytes], int]:
    """Train once without a kill; return the products and the number of calls."""
    folder = tmp_path_factory.mktemp("trained")
    with serving(SimConfig()) as server:
        train(prepare_training(folder, server.base_url))
        calls: int = server.stats()["paid"]
    made = products(folder)
    assert {"out/bank/bank.json", "out/bank/selector.safetensors", "out/stores/round-2/meta.json"} <= made.keys()
    return made, calls


MOMENTS = [
    *("2 % of the calls", "25 % of the calls", "50 % of the calls", "75 % of the calls", "95 % of the calls"),
    "os.rename out/stages/",  # the first stage is done, its file is not in place
    "os.rename out/stages/fit-1",
    "os.rename out/stores/.*round-1.*meta.json",
    "os.rename out/stages/judge-2",
    "os.rename out/bank/bank.json",
]


@pytest.mark.timeout(2 * TRAINING_LIMIT_S)
@pytest.mark.parametrize("moment", some(MOMENTS, [2, 9]))
def test_a_killed_training_resumes_to_the_same_bank(
    tmp_path: Path, slow: SimServer, trained: tuple[dict[str, bytes], int], moment: str
) -> None:
    """Killed after a share of its calls or before a file appears: same bank and stores, only calls in flight again."""
    made, calls = trained
    slow.reset()
    prepare_training(tmp_path, slow.base_url)
    share, by_calls, _ = moment.partition(" % of the calls")
    if by_calls:
        kill_after(slow, calls * int(share) // 100, *TRAIN, *SLOWLY, cwd=tmp_path)
    else:
        killed_at(moment, *TRAIN, *SLOWLY, cwd=tmp_path)
    assert not (tmp_path / "out" / "bank" / "bank.json").exists()
    train(tmp_path)
    assert products(tmp_path) == made
    assert paid_again(slow) <= IN_FLIGHT
    assert slow.stats()["paid"] <= calls + IN_FLIGHT
