"""The cache on a disk that fills up, and with two processes: no reply is lost and nothing is corrupted."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from endpoint import SimConfig, SimServer
from programs import need
from rig import background, environment, serving
from trials import EVAL, STORAGE, Reference, evaluate, items, prepare, rows, run_without_faults

from svr_async.engine.caller import SPARE_WORKERS

PAIRS = 40
CONCURRENCY = 4
SHIM = Path(__file__).with_name("iofault.c")
AT_ONCE = """
from svr_async.engine.cache import Cache
(Cache.open.__func__.__kwdefaults__ or {}).update(patience_s=0.0)  # do not wait for room
from svr_async.commands import main
main()
"""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Reference:
    """Evaluate once on a disk with room, in one process."""
    return run_without_faults(tmp_path_factory.mktemp("whole"), PAIRS)


@pytest.fixture(scope="module")
def slow() -> Iterator[SimServer]:
    """Serve an endpoint that takes a moment for each reply."""
    with serving(SimConfig(latency_ms=5.0)) as server:
        yield server


@pytest.fixture(scope="module")
def full_disk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compile the library that makes writes fail."""
    compiler = need("a C compiler")
    if sys.platform != "linux":
        pytest.skip("the library that makes writes fail is written for Linux")
    library = tmp_path_factory.mktemp("shim") / "iofault.so"
    command = [compiler, "-O1", "-shared", "-fPIC", "-o", str(library), str(SHIM), "-ldl"]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    return library


@pytest.mark.parametrize(
    "nth", [10, 60, *(pytest.param(n, marks=pytest.mark.soak) for n in (1, 2, 5, 20, 40, 80, 100, 150))]
)
def test_a_full_disk_ends_the_run_and_loses_no_reply(
    tmp_path: Path, slow: SimServer, whole: Reference, full_disk: Path, nth: int
) -> None:
    """From its Nth write on the disk is full: exit 5 in one line; with room the same command completes."""
    slow.reset()
    prepare(tmp_path, slow.base_url, PAIRS)
    bare = {name: value for name, value in environment().items() if not name.startswith("COV")}
    shim = {"LD_PRELOAD": str(full_disk), "IOFAULT_UNDER": str(tmp_path.resolve()), "IOFAULT_NTH": str(nth)}
    done = subprocess.run(
        [sys.executable, "-c", AT_ONCE, *EVAL, "--concurrency", str(CONCURRENCY)],
        cwd=tmp_path, env=bare | shim, capture_output=True, text=True, check=False, timeout=50,
    )  # fmt: skip
    assert (done.returncode, done.stderr.count("\n")) == (STORAGE, 1), done.stderr
    kept = rows(tmp_path / "cache") if (tmp_path / "cache" / "cache.db").exists() else 0
    before = slow.stats()["paid"]
    assert kept >= before - CONCURRENCY - SPARE_WORKERS  # each item in progress may wait for a commit
    resumed = evaluate(tmp_path)
    assert resumed.returncode == 0, resumed.stderr
    assert items(tmp_path) == whole.items
    assert slow.stats()["paid"] - before == whole.calls - kept


def test_two_processes_share_one_cache(tmp_path: Path, slow: SimServer, whole: Reference) -> None:
    """Both end with the same bytes; a call is paid for at most once by each; the cache stays whole."""
    slow.reset()
    prepare(tmp_path, slow.base_url, PAIRS)
    first, second = ([*EVAL, "--out", out, "--concurrency", "8"] for out in ("run", "other"))
    with background(*first, cwd=tmp_path) as one, background(*second, cwd=tmp_path) as other:
        for process in (one, other):
            _, errors = process.communicate(timeout=50)
            assert process.returncode == 0, errors
    assert items(tmp_path) == (tmp_path / "other" / "items.jsonl").read_bytes() == whole.items
    assert max(slow.paid().values()) <= 2
    assert rows(tmp_path / "cache") == whole.calls
