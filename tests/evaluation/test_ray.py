"""`svr eval --ray`: a real Ray cluster on loopback against a real `svr sim`, whose log is the witness of what was paid.

Ray is installed for these tests alone (docs/scale.md); without it they are left out. Machines are folders here: each
worker has a cache of its own, and what one has paid reaches the others by way of the driver.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import orjson
import pytest
from rig import background, paid, read_lines, run_items, sim_process, svr, wait_until
from watched_runs import FLAGS, PRICE, logged_endpoint, metrics_of, prepared, run_without_a_stop

pytest.importorskip("ray", reason="ray is not installed: pip install 'svr-async[ray]' in an environment of its own")

pytestmark = pytest.mark.timeout(300)  # Ray takes half a minute to begin on a busy machine

N = 48
prepare = partial(prepared, pairs=N, price=PRICE)
AT_ONCE = 8  # calls under way, of both workers together
MARK = "SVR_TEST_CLUSTER"
ENV = {
    "PYTHONHASHSEED": "0",  # it has each command in an interpreter of its own
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # nothing but loopback
    "RAY_AUTH_MODE": "token",
    "RAY_AUTH_TOKEN": "5" * 64,
}
DIES = """
import os, signal, sys
place = os.environ.get("SVR_TEST_DIES", "")
if place and any("default_worker" in word for word in sys.orig_argv):
    from svr_async.engine import cache

    write = cache._WritableRows.write

    def dying(self, rows):
        try:
            os.rename(place, place + ".taken")
        except OSError:
            return write(self, rows)
        with open(place + ".taken") as file:
            when = file.read()
        if when == "after":
            write(self, rows)
        with open(place + ".rows", "w") as file:
            file.write(str(len(rows)))
        os.kill(os.getpid(), signal.SIGKILL)

    cache._WritableRows.write = dying
"""


class Cluster:
    """A Ray cluster of this machine, on loopback, that a test may kill parts of."""

    def __init__(self, address: str, folder: Path) -> None:
        self.address, self.folder = address, folder

    def commands(self) -> dict[int, str]:
        """Return the processes of the cluster, or of one of its nodes, with their command lines."""
        found = {}
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if f"{MARK}={self.folder}".encode() in (entry / "environ").read_bytes():
                    found[int(entry.name)] = (entry / "cmdline").read_bytes().decode("utf-8", "replace")
        return found

    def pids(self, kind: str) -> list[int]:
        """Return the processes of the actors of a kind, oldest first."""
        return sorted(pid for pid, command in self.commands().items() if command.startswith(f"ray::{kind}"))

    def die_at_commit(self, when: str) -> None:
        """Have the next worker that commits replies die before that, or right after."""
        (self.folder / "dies").write_text(when)


def started(folder: Path, *flags: str) -> subprocess.Popen[bytes]:
    """Run `ray start`, which stays in the foreground; what it starts is known by the folder."""
    env = {**os.environ, **ENV, MARK: str(folder), "PYTHONPATH": str(folder), "SVR_TEST_DIES": str(folder / "dies")}
    more = (
        "--block",
        "--node-ip-address=127.0.0.1",
        "--num-cpus=2",
        "--disable-usage-stats",
        "--object-store-memory=100000000",
    )
    program = Path(sys.executable).with_name("ray")
    return subprocess.Popen([program, "start", *flags, *more], env=env, stdout=subprocess.DEVNULL)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Start a cluster with `ray start`, as an administrator does."""
    folder = Path(tempfile.mkdtemp(prefix="svr-ray-"))  # the paths of sockets have to be short
    (folder / "sitecustomize.py").write_text(DIES)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    flags = ("--head", f"--port={port}", "--include-dashboard=false", f"--temp-dir={folder}")
    process = started(folder, *flags)
    try:
        wait_until(lambda: _answers(port), limit_s=90)
        yield Cluster(f"127.0.0.1:{port}", folder)
    finally:
        process.terminate()
        process.wait(60)
        shutil.rmtree(folder, ignore_errors=True)


def _answers(port: int) -> bool:
    with contextlib.suppress(OSError):
        socket.create_connection(("127.0.0.1", port), 1).close()
        return True
    return False


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """Yield the URL of a simulated endpoint in a process of its own, and its log."""
    with logged_endpoint(tmp_path_factory.mktemp("sim"), 300) as served:
        yield served


@pytest.fixture(scope="module")
def whole(endpoint: tuple[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run once in one process without a stop; return the run folder."""
    folder = tmp_path_factory.mktemp("whole")
    prepare(folder, endpoint[0])
    return run_without_a_stop(folder)


def on(cluster: Cluster, *flags: str, processes: int = 2) -> tuple[str, ...]:
    """Return the command on a cluster."""
    return (*FLAGS, "--ray", cluster.address, "--processes", str(processes), "--concurrency", str(AT_ONCE), *flags)


def test_a_run_on_a_cluster_has_the_bytes_of_one_process(
    tmp_path: Path, cluster: Cluster, endpoint: tuple[str, Path], whole: Path
) -> None:
    """The same bytes and sums, each call is paid once; again, with the cache that is left, nothing is sent."""
    prepare(tmp_path, endpoint[0])
    start = len(read_lines(endpoint[1]))
    done = svr(*on(cluster), cwd=tmp_path, timeout=150, **ENV)
    assert done.returncode == 0, done.stderr
    assert run_items(tmp_path / "run") == run_items(whole)
    assert metrics_of(tmp_path / "run") == metrics_of(whole)
    assert set(paid(endpoint[1], start).values()) == {1}
    assert not (tmp_path / "cache" / "cache.ray").exists()  # all is in the cache of the driver
    before = len(read_lines(endpoint[1]))
    again = svr(*on(cluster, "--out", "again", "--json", processes=3), cwd=tmp_path, timeout=150, **ENV)
    assert (again.returncode, len(read_lines(endpoint[1]))) == (0, before), again.stderr
    calls = orjson.loads(again.stdout)["calls"]
    assert (calls["sent"], calls["cache_hits"]) == (
        0,
        sum(metrics_of(whole)["calls"][name] for name in ("sent", "cache_hits")),
    )


@pytest.mark.parametrize("how", ["SIGKILL", "ray.kill"])
@pytest.mark.parametrize("kind", ["Worker", "Coordinator"])
def test_an_actor_that_is_killed_costs_no_more_than_what_was_under_way(
    tmp_path: Path, cluster: Cluster, endpoint: tuple[str, Path], whole: Path, kind: str, how: str
) -> None:
    """The run comes to its end with the same bytes; a worker costs what it had under way, the coordinator nothing."""
    prepare(tmp_path, endpoint[0])
    log, start = endpoint[1], len(read_lines(endpoint[1]))
    with background(*on(cluster), cwd=tmp_path, **ENV) as process:
        wait_until(lambda: len(read_lines(log)) - start > 30, limit_s=90)
        if how == "SIGKILL":
            os.kill(cluster.pids(kind)[0], signal.SIGKILL)
        else:
            kill_by_ray(cluster, kind.lower())
        _, errors = process.communicate(timeout=150)
    assert process.returncode == 0, errors
    assert ("was lost; what it held goes on" if kind == "Worker" else "coordinator of the workers was lost") in errors
    assert run_items(tmp_path / "run") == run_items(whole)
    counts = paid(log, start)
    assert sum(counts.values()) - len(counts) <= (AT_ONCE / 2 if kind == "Worker" else 0)


def kill_by_ray(cluster: Cluster, kind: str) -> None:
    """Have Ray kill the first actor of a kind, from a process of its own."""
    code = (
        "import ray, sys; ray.init(sys.argv[1], namespace='svr-async', log_to_driver=False);"
        "found = [one['name'] for one in ray.util.list_named_actors(all_namespaces=True)];"
        "ray.kill(ray.get_actor(min(name for name in found if f'-{sys.argv[2]}-' in name)))"
    )
    subprocess.run(
        [sys.executable, "-c", code, cluster.address, kind], check=True, timeout=90, env={**os.environ, **ENV}
    )


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_worker_that_dies_at_a_commit_loses_nothing_that_is_committed(
    tmp_path: Path, cluster: Cluster, endpoint: tuple[str, Path], whole: Path, when: str
) -> None:
    """What it had committed, and told nobody, is not asked again; what it was about to commit was under way."""
    prepare(tmp_path, endpoint[0])
    log, start = endpoint[1], len(read_lines(endpoint[1]))
    with background(*on(cluster), cwd=tmp_path, **ENV) as process:
        wait_until(lambda: len(read_lines(log)) - start > 30, limit_s=90)
        cluster.die_at_commit(when)
        _, errors = process.communicate(timeout=150)
    assert process.returncode == 0, errors
    assert "was lost; what it held goes on" in errors
    assert run_items(tmp_path / "run") == run_items(whole)
    rows = int((cluster.folder / "dies.rows").read_text())
    counts = paid(log, start)
    assert sum(counts.values()) - len(counts) <= AT_ONCE / 2 - (rows if when == "after" else 0)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_same_command_goes_on_after_the_driver_was_ended(
    tmp_path: Path, cluster: Cluster, endpoint: tuple[str, Path], whole: Path, number: int
) -> None:
    """Killed, its workers end with it, and what they had committed is taken by the next; told to stop, it drains."""
    prepare(tmp_path, endpoint[0])
    log, start = endpoint[1], len(read_lines(endpoint[1]))
    with background(*on(cluster), cwd=tmp_path, **ENV) as process:
        wait_until(lambda: len(read_lines(log)) - start > 30, limit_s=90)
        process.send_signal(number)
        out, errors = process.communicate(timeout=60)
    if number == signal.SIGTERM:
        assert (process.returncode, "PARTIAL" in out) == (143, True), errors
        assert "stopped by SIGTERM" in errors.strip().splitlines()[-1]
    wait_until(lambda: not cluster.pids("Worker"))
    done = svr(*on(cluster), cwd=tmp_path, timeout=150, **ENV)
    assert done.returncode == 0, done.stderr
    assert run_items(tmp_path / "run") == run_items(whole)
    counts = paid(log, start)
    assert sum(counts.values()) - len(counts) <= (AT_ONCE if number == signal.SIGKILL else 0)


def test_caps_hold_for_all_workers_together(tmp_path: Path, cluster: Cluster, endpoint: tuple[str, Path]) -> None:
    """Calls and dollars are drawn bit by bit; what a killed worker had drawn counts as spent; exit 4 at the end."""
    for name, flags in (("calls", ("--max-calls", "41")), ("usd", ("--budget", "0.004"))):
        (tmp_path / name).mkdir()
        prepare(tmp_path / name, endpoint[0])
        log, start = endpoint[1], len(read_lines(endpoint[1]))
        with background(*on(cluster, *flags), cwd=tmp_path / name, **ENV) as process:
            if name == "calls":
                wait_until(lambda: len(read_lines(log)) - start > 12, limit_s=90)  # noqa: B023
                os.kill(cluster.pids("Worker")[0], signal.SIGKILL)
            _, errors = process.communicate(timeout=150)
        assert (process.returncode, f"{flags[0]} " in errors) == (4, True), errors
        sent = sum(paid(log, start).values())
        if name == "calls":
            assert 30 <= sent <= 41
        else:
            assert 0.003 < orjson.loads((tmp_path / name / "run" / "metrics.json").read_bytes())["paid_usd"] < 0.005


def test_what_fails_for_good_or_differs_on_a_cluster_is_told_as_by_one_process(
    tmp_path: Path, cluster: Cluster
) -> None:
    """Final failures are items, and are not asked again; a key that is refused is one line, once."""
    with sim_process(tmp_path, "--context", "700", "--log", tmp_path / "log.jsonl") as url:
        prepare(tmp_path, url)
        single = svr(*FLAGS[:-1], "single", "--cache", "other", cwd=tmp_path)
        done = svr(*on(cluster), cwd=tmp_path, timeout=150, **ENV)
        calls = len(read_lines(tmp_path / "log.jsonl"))
        again = svr(*on(cluster), cwd=tmp_path, timeout=150, **ENV)
        assert len(read_lines(tmp_path / "log.jsonl")) == calls
    assert single.returncode == done.returncode == again.returncode == 3, done.stderr
    assert run_items(tmp_path / "run") == run_items(tmp_path / "single")
    with sim_process(tmp_path, "--quota", "20") as url:
        prepare(tmp_path, url)
        done = svr(*on(cluster, "--cache", "third"), cwd=tmp_path, timeout=150, **ENV)
    assert done.returncode == 4, done.stderr
    assert len([line for line in done.stderr.splitlines() if line.startswith("svr:")]) == 1
    assert "Traceback" not in done.stderr


def test_a_cluster_of_our_own_lasts_as_long_as_the_run(tmp_path: Path, endpoint: tuple[str, Path], whole: Path) -> None:
    """`--ray` without an address starts one on loopback; nothing of it is left when the command ends."""
    prepare(tmp_path, endpoint[0])
    mine = {"PYTHONHASHSEED": "0", MARK: str(tmp_path), "RAY_TMPDIR": tempfile.gettempdir(), "RAY_ADDRESS": ""}
    done = svr(*FLAGS, "--ray", "--processes", "2", "--concurrency", "32", cwd=tmp_path, timeout=150, **mine)
    assert done.returncode == 0, done.stderr
    assert run_items(tmp_path / "run") == run_items(whole)
    assert metrics_of(tmp_path / "run") == metrics_of(whole)
    wait_until(lambda: not Cluster("", tmp_path).pids(""))
