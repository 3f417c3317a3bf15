"""Fixtures for all tests: no socket leaves the machine, no setting leaks in from the user's environment."""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import version
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from programs import left_out

if TYPE_CHECKING:
    from endpoint import SimServer

_LOOPBACK = ("127.", "::1", "localhost")
CPU_INFO = Path("/proc/cpuinfo")
UNFUSED, WHOLE = "--xla_cpu_use_fusion_emitters=false", "--xla_cpu_parallel_codegen_split_count=1"
TRIED = "0.10."  # jaxlib ends at a flag that it does not know
ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")
_strangers: list[str] = []
_numbers = count()


def _watch_sockets(event: str, args: tuple[Any, ...]) -> None:
    """Refuse connections to other machines and look-ups of their names; an audit hook sees every Python socket."""
    if event == "socket.connect":
        where = args[1]
    elif event == "socket.getaddrinfo":
        where = (args[0],)
    else:
        return
    host = where[0] if isinstance(where, tuple) else where  # a unix socket's address is a path
    name = host.decode(errors="replace") if isinstance(host, bytes) else host
    if isinstance(where, tuple) and isinstance(name, str) and not name.startswith(_LOOPBACK):
        _strangers.append(name)
        raise PermissionError(f"a test tried to reach {name}")


sys.addaudithook(_watch_sockets)
pytest.register_assert_rewrite("trials")  # of tests/reliability
for _name in ONE_THREAD:  # read when NumPy and scikit-learn load; more threads would compete with other workers
    os.environ.setdefault(_name, "1")


@pytest.fixture(autouse=True)
def only_loopback() -> Iterator[None]:
    """Fail a test that tried to reach another machine, even where the code under test swallowed the refusal."""
    _strangers.clear()
    yield
    assert not _strangers, f"tried to reach {_strangers}"


@pytest.fixture(autouse=True, scope="module")
def _no_judges_of_other_modules() -> Iterator[None]:
    """Forget the judges.toml that a fixture of another module named."""
    os.environ["SVR_JUDGES"] = ""
    yield
    os.environ["SVR_JUDGES"] = ""


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Take away the user's keys, endpoints, proxies, flags and judges.toml; the cache folder is the test's own."""
    for name in os.environ:
        if name.startswith(("SVR_", "OPENAI_", "OTEL_")) or name.lower().endswith(("_api_key", "_proxy")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("SVR_JUDGES", "")  # `rig.name_judge` sets it; this takes it back
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.getbasetemp() / "no-config"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / f"cache-{next(_numbers)}"))


@pytest.fixture(scope="session", autouse=True)
def other_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the files of a whole module out of the user's cache folder too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))
        yield


@pytest.fixture(autouse=True)
def steady_tracing() -> Iterator[None]:
    """Put coverage's tracer back after a test: Python drops it when a RecursionError passes through it."""
    tracer = sys.gettrace()
    yield
    if sys.gettrace() is not tracer:
        sys.settrace(tracer)


@pytest.fixture(scope="session", autouse=True)
def kept_programs(request: pytest.FixtureRequest) -> Iterator[None]:
    """Have JAX compile quickly rather than well, here and in processes, and keep it for other workers and runs.

    Half of a small fit is compiling, and last bits depend on how: all compile alike. JAX names a program by all that it
    is compiled from, but not by the processor; so its folder is named by that. Unfused, it compiles in half the time;
    as one piece, not cut up for many cores, in a tenth less.
    """
    settings: dict[str, Any] = {"jax_disable_most_optimizations": True}
    if CPU_INFO.exists() and hasattr(request.config, "cache"):
        lines = CPU_INFO.read_text().splitlines()
        flags = next((line for line in lines if line.startswith(("flags", "Features"))), "")
        folder = request.config.cache.mkdir(f"compiled-{hashlib.sha256(flags.encode()).hexdigest()[:12]}")
        settings |= {
            "jax_compilation_cache_dir": str(folder),
            "jax_persistent_cache_min_compile_time_secs": 0.0,
            "jax_persistent_cache_min_entry_size_bytes": -1,
        }
    with pytest.MonkeyPatch.context() as patch:
        if version("jaxlib").startswith(TRIED) and "XLA_FLAGS" not in os.environ:
            patch.setenv("XLA_FLAGS", f"{UNFUSED} {WHOLE}")
        for name, value in settings.items():
            patch.setenv(name.upper(), str(value))
            if "jax" in sys.modules:
                sys.modules["jax"].config.update(name, value)
        yield


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int | None:
    """Take a worker more than there are cores, unless set otherwise: many tests wait for another process."""
    return None if "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ else (os.cpu_count() or 1) + 1


def pytest_collection(session: pytest.Session) -> None:
    """Load the test files from another one on in each worker: its compiled code is ready for the others."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "").removeprefix("gw")
    if not worker or session.config.args_source is not pytest.Config.ArgsSource.TESTPATHS:
        return
    files = sorted(Path(__file__).parent.rglob("test_*.py"))
    first = len(files) * int(worker) // int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
    for file in files[first:] + files[:first]:
        if str(file.parent) not in sys.path:
            sys.path.insert(0, str(file.parent))  # as pytest does
        with contextlib.suppress(Exception, pytest.skip.Exception):  # pytest meets it again, and reports it
            import_module(file.stem)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Iterator[None]:
    """Add a line with the tests that were skipped because a program is missing."""
    yield
    skipped = terminalreporter.stats.get("skipped", ())
    line = left_out(report.longrepr[2] for report in skipped if isinstance(report.longrepr, tuple))
    if line:
        terminalreporter.write_line(line, yellow=True)


@pytest.fixture
def cache_folder(tmp_path: Path) -> Path:
    """Return where a test's cache lies; it is not made yet."""
    return tmp_path / "cache"


@pytest.fixture(scope="module")
def sim() -> Iterator[SimServer]:
    """Serve a flawless simulated endpoint for all tests of a module."""
    from rig import serving

    with serving() as server:
        yield server
