"""`svr eval --processes N`: real worker processes against a real `svr sim`, whose log is the witness."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rig import background, paid, read_lines, run_items, sim_process, svr, wait_until
from watched_runs import FLAGS, PRICE, logged_endpoint, metrics_of, prepared, run_without_a_stop

from svr_async.engine.caller import EngineConfig
from svr_async.engine.failures import FailureLog
from svr_async.evaluation.running.settings import EvalSettings, from_plain, to_plain
from svr_async.judges.limits import JudgeLimits, config_share
from svr_async.judges.shares import part_of, places_of, share_of_share
from svr_async.vocabulary.verdict import Outcome

N, LATENCY_MS = 48, 80
FEW = 12  # of the 96 calls of a run: at 4 in flight nearly two seconds are left to stop it in
prepare = partial(prepared, pairs=N, price=PRICE)


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """Yield the URL of a simulated endpoint in a process of its own, and its log."""
    with logged_endpoint(tmp_path_factory.mktemp("sim"), LATENCY_MS) as served:
        yield served


@pytest.fixture(scope="module")
def whole(endpoint: tuple[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run once in one process without a stop; return the run folder."""
    folder = tmp_path_factory.mktemp("whole")
    prepare(folder, endpoint[0])
    return run_without_a_stop(folder)


def workers_of(parent: int) -> list[int]:
    """Return the process ids of the workers that a command has started."""
    return [int(word) for word in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()]


@pytest.mark.parametrize(("processes", "concurrency"), [pytest.param(1, 1, marks=pytest.mark.soak), (2, 8), (4, 64)])
def test_items_and_metrics_do_not_depend_on_processes_or_concurrency(
    tmp_path: Path, endpoint: tuple[str, Path], whole: Path, processes: int, concurrency: int
) -> None:
    """The same bytes and the same sums, calls and dollars too, however many processes asked; each call is paid once."""
    url, log = endpoint
    prepare(tmp_path, url)
    start = len(read_lines(log))
    limits = ("--processes", str(processes), "--concurrency", str(concurrency))
    done = svr(*FLAGS, *limits, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert run_items(tmp_path / "run") == run_items(whole)
    assert metrics_of(tmp_path / "run") == metrics_of(whole)
    assert set(paid(log, start).values()) == {1}


def test_the_processes_of_two_machines_come_to_the_same_run(
    tmp_path: Path, endpoint: tuple[str, Path], whole: Path
) -> None:
    """Shards on two machines, each divided among processes again, are merged to the bytes and sums of one process."""
    url, log = endpoint
    prepare(tmp_path, url)
    start = len(read_lines(log))
    for shard in ("1", "2"):
        places = ("--shard", f"{shard}/2", "--out", f"part{shard}", "--cache", f"cache{shard}")
        done = svr(*FLAGS[:-2], *places, "--processes", "2", "--concurrency", "16", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    done = svr("merge", "part1", "part2", "--out", "run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert run_items(tmp_path / "run") == run_items(whole)
    assert metrics_of(tmp_path / "run") == metrics_of(whole)
    assert set(paid(log, start).values()) == {1}


def test_what_is_in_the_cache_is_not_asked_by_any_process(tmp_path: Path, whole: Path) -> None:
    """A second run in several processes opens no connection and ends with the same bytes."""
    prepare(tmp_path, "http://127.0.0.1:9/v1")
    cache = ("--cache", whole.parent / "cache" / "replies")
    done = svr(*FLAGS, *cache, "--processes", "2", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    calls = orjson.loads(done.stdout)["calls"]
    assert (calls["sent"], calls["cache_hits"] > N) == (0, True)
    assert run_items(tmp_path / "run") == run_items(whole)


def test_a_jury_in_several_processes_has_the_sums_of_each_judge(tmp_path: Path, endpoint: tuple[str, Path]) -> None:
    """With several judges and a second order where it is close, items and the counts of each judge are the same."""
    prepare(tmp_path, endpoint[0])
    table = (tmp_path / "judges.toml").read_text()
    (tmp_path / "judges.toml").write_text(
        table + table.replace("[sim]", "[sim2]").replace("gpt-oss-120b", "gpt-oss-20b")
    )
    flags = ("eval", "rubricbench", "--data", "bench.jsonl", "--method", "vanilla", "--limit", "24")
    judges = ("--jury", "sim,sim2", "--order", "both", "--audit-below", "0.5", "--concurrency", "8")
    for name, processes in (("one", "1"), ("two", "2")):
        places = ("--out", name, "--cache", f"cache-{name}", "--processes", processes)
        done = svr(*flags, *judges, *places, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    assert run_items(tmp_path / "one") == run_items(tmp_path / "two")
    assert metrics_of(tmp_path / "one") == metrics_of(tmp_path / "two")


def test_a_killed_worker_is_replaced_and_nothing_is_lost(
    tmp_path: Path, endpoint: tuple[str, Path], whole: Path
) -> None:
    """After kill -9 of a worker a new one does the rest of its share; only what was under way is paid again."""
    url, log = endpoint
    prepare(tmp_path, url)
    start = len(read_lines(log))
    with background(*FLAGS, "--processes", "2", "--concurrency", "4", cwd=tmp_path) as process:
        wait_until(lambda: len(read_lines(log)) - start > FEW)
        os.kill(workers_of(process.pid)[0], signal.SIGKILL)
        _, errors = process.communicate(timeout=50)
    assert process.returncode == 0, errors
    assert "ended (killed by signal 9); its share goes on" in errors
    assert run_items(tmp_path / "run") == run_items(whole)
    counts = paid(log, start)
    assert max(counts.values()) <= 2
    assert sum(counts.values()) - len(counts) <= 2


def test_a_cap_holds_over_the_lives_of_a_worker(tmp_path: Path, endpoint: tuple[str, Path]) -> None:
    """A worker that takes the place of a killed one has what is left of its part of the cap, not all of it again."""
    url, log = endpoint
    prepare(tmp_path, url)
    start, most = len(read_lines(log)), 80
    flags = (*FLAGS, "--processes", "2", "--concurrency", "4", "--max-calls", str(most))
    with background(*flags, cwd=tmp_path) as process:
        wait_until(lambda: len(read_lines(log)) - start > FEW)
        os.kill(workers_of(process.pid)[0], signal.SIGKILL)
        _, errors = process.communicate(timeout=50)
    assert process.returncode == 4, errors
    assert "its share goes on" in errors
    assert len(read_lines(log)) - start <= most + 12  # what it sent in its last fifth of a second nobody was told


def test_what_a_library_prints_in_a_worker_is_no_report(
    tmp_path: Path, endpoint: tuple[str, Path], whole: Path
) -> None:
    """Whatever stands on the standard output of a worker, before it begins and afterwards, the run ends as ever."""
    prepare(tmp_path, endpoint[0])
    (tmp_path / "noisy").mkdir()
    (tmp_path / "noisy" / "sitecustomize.py").write_text(
        "import atexit, sys\n"
        "if sys.argv[:1] == ['-c']:\n"
        "    print('{\"a line\": 1}\\nof a library', flush=True)\n"
        "    atexit.register(print, 'and its last word', flush=True)\n"
    )
    done = svr(*FLAGS, "--processes", "2", cwd=tmp_path, PYTHONPATH=str(tmp_path / "noisy"))
    assert done.returncode == 0, done.stderr
    assert "and its last word" in done.stderr
    assert run_items(tmp_path / "run") == run_items(whole)


def test_what_workers_leave_is_done_by_the_parent(tmp_path: Path, endpoint: tuple[str, Path], whole: Path) -> None:
    """Workers that die whenever they begin leave everything to the parent, which comes to the same end."""
    url, _ = endpoint
    prepare(tmp_path, url)
    (tmp_path / "orjson.py").write_text("")  # the folder in which a command is given is not where modules come from
    with background(*FLAGS, "--processes", "2", cwd=tmp_path) as process:
        killed: set[int] = set()
        while len(killed) < 6 and process.poll() is None:
            for worker in set(workers_of(process.pid)) - killed:
                os.kill(worker, signal.SIGKILL)
                killed.add(worker)
        _, errors = process.communicate(timeout=50)
    assert process.returncode == 0, errors
    assert errors.count("its share goes on") == 6
    assert run_items(tmp_path / "run") == run_items(whole)


def test_a_signal_drains_all_workers_and_the_run_goes_on_later(
    tmp_path: Path, endpoint: tuple[str, Path], whole: Path
) -> None:
    """A signal to the parent: calls under way everywhere are kept, the folder says PARTIAL, nothing is paid twice."""
    url, log = endpoint
    prepare(tmp_path, url)
    start = len(read_lines(log))
    with background(*FLAGS, "--processes", "2", "--concurrency", "4", cwd=tmp_path) as process:
        wait_until(lambda: len(read_lines(log)) - start > FEW)
        process.send_signal(signal.SIGTERM)
        out, errors = process.communicate(timeout=20)
    assert process.returncode == 143, errors
    assert "PARTIAL" in out
    assert "stopped by SIGTERM" in errors.strip().splitlines()[-1]
    metrics = orjson.loads((tmp_path / "run" / "metrics.json").read_bytes())
    assert 0 < metrics["n_total"] < N
    assert metrics["complete"] is False
    assert metrics["calls"]["sent"] == sum(paid(log, start).values())
    done = svr(*FLAGS, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert run_items(tmp_path / "run") == run_items(whole)
    assert set(paid(log, start).values()) == {1}


def test_workers_end_with_a_parent_that_was_killed(tmp_path: Path, endpoint: tuple[str, Path], whole: Path) -> None:
    """After kill -9 of the parent its workers finish what is under way and go; a later run pays nothing twice."""
    url, log = endpoint
    prepare(tmp_path, url)
    start = len(read_lines(log))
    with background(*FLAGS, "--processes", "2", "--concurrency", "4", cwd=tmp_path) as process:
        wait_until(lambda: len(read_lines(log)) - start > FEW)
        workers = workers_of(process.pid)
        process.kill()
        process.wait(20)
    assert len(workers) == 2
    wait_until(lambda: not any(Path(f"/proc/{worker}").exists() for worker in workers))
    done = svr(*FLAGS, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert run_items(tmp_path / "run") == run_items(whole)
    assert set(paid(log, start).values()) == {1}


def test_the_first_fatal_error_ends_all_workers_with_one_line(tmp_path: Path) -> None:
    """When the credit is used up, one line and exit 4; at most as many further calls as were under way."""
    log = tmp_path / "log.jsonl"
    with sim_process(tmp_path, "--latency-ms", "20", "--quota", "40", "--log", log) as url:
        prepare(tmp_path, url)
        done = svr(*FLAGS, "--processes", "2", "--concurrency", "8", cwd=tmp_path)
    assert done.returncode == 4
    lines = done.stderr.strip().splitlines()
    assert len([line for line in lines if line.startswith("svr:")]) == 1
    assert "Traceback" not in done.stderr
    assert "are judged and kept in run" in lines[-1]
    turned_away = [line for line in read_lines(log) if not line["paid"]]
    assert 1 <= len(turned_away) <= 8


def test_workers_that_cannot_run_leave_all_to_the_parent(
    tmp_path: Path, endpoint: tuple[str, Path], whole: Path
) -> None:
    """Workers that end by themselves are not started again and print no traceback; the run is done without them."""
    prepare(tmp_path, endpoint[0])
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "sitecustomize.py").write_text(
        "import sys\nif sys.argv[:1] == ['-c']:\n    sys.modules['svr_async.evaluation.running.shares'] = None\n"
    )
    done = svr(*FLAGS, "--processes", "2", cwd=tmp_path, PYTHONPATH=str(tmp_path / "broken"))
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("ended (exit code 1); its share goes on") == 2
    assert "Traceback" not in done.stderr
    assert run_items(tmp_path / "run") == run_items(whole)


@pytest.mark.parametrize("flags", [("--max-calls", "41"), ("--budget", "0.004")])
def test_caps_hold_for_all_processes_together(
    tmp_path: Path, endpoint: tuple[str, Path], flags: tuple[str, str]
) -> None:
    """A cap is divided; what a worker leaves of its part is spent by the parent; exit 4 when all of it is spent."""
    url, log = endpoint
    prepare(tmp_path, url)
    start = len(read_lines(log))
    done = svr(*FLAGS, "--processes", "2", "--concurrency", "4", *flags, cwd=tmp_path)
    assert done.returncode == 4, done.stderr
    assert f"{flags[0]} " in done.stderr
    metrics = orjson.loads((tmp_path / "run" / "metrics.json").read_bytes())
    assert metrics["calls"]["sent"] == sum(paid(log, start).values())
    if flags[0] == "--max-calls":
        assert metrics["calls"]["sent"] == 41
    else:
        assert 0.0035 < metrics["paid_usd"] < 0.005


def test_what_fails_for_good_in_a_worker_is_in_the_run(tmp_path: Path) -> None:
    """Failures of all workers are items with their outcomes, as in one process, and are not asked again."""
    log = tmp_path / "log.jsonl"
    with sim_process(tmp_path, "--context", "700", "--log", log) as url:
        prepare(tmp_path, url)
        single = svr(*FLAGS[:-1], "single", "--cache", "other", cwd=tmp_path)
        done = svr(*FLAGS, "--processes", "2", cwd=tmp_path)
        calls = len(read_lines(log))
        again = svr(*FLAGS, cwd=tmp_path)
        assert len(read_lines(log)) == calls
    assert single.returncode == done.returncode == again.returncode == 3, done.stderr
    assert run_items(tmp_path / "run") == run_items(tmp_path / "single")
    assert b"context_too_long" in run_items(tmp_path / "run")
    metrics = orjson.loads((tmp_path / "run" / "metrics.json").read_bytes())
    assert len(read_lines(tmp_path / "run" / "failures.jsonl")) >= metrics["n_total"] - metrics["n_scored"] > 0


def test_a_judge_that_sends_nothing_needs_no_processes(tmp_path: Path) -> None:
    """The rules judge says that the flag changes nothing, and judges."""
    done = svr("eval", "rubricbench", "--sample", "--judge", "rules", "--limit", "5", "--processes", "4", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "--processes changes nothing" in done.stderr


# --- how a run is divided --------------------------------------------------------------------------------------------


@settings(deadline=None)
@given(prompts=st.lists(st.integers(0, 9), max_size=60), count=st.integers(1, 7))
def test_shares_are_all_pairs_once_and_keep_prompts_together(prompts: list[int], count: int) -> None:
    """Each pair is in one share, and the pairs of a prompt in the same one."""
    shares = [places_of(prompts, (number, count)) for number in range(count)]
    assert sorted(place for share in shares for place in share) == list(range(len(prompts)))
    held = [{prompts[place] for place in share} for share in shares]
    assert sum(len(one) for one in held) == len(set(prompts))


@settings(deadline=None)
@given(prompts=st.lists(st.integers(0, 9), max_size=60), count=st.integers(1, 5), parts=st.integers(1, 4))
def test_a_share_is_divided_as_the_whole_is(prompts: list[int], count: int, parts: int) -> None:
    """The processes of a machine have shares of the whole run too: dividing twice and once comes to the same."""
    for number in range(count):
        own = places_of(prompts, (number, count))
        for part in range(parts):
            within = places_of([prompts[place] for place in own], (part, parts))
            assert [own[place] for place in within] == places_of(
                prompts, share_of_share((number, count), (part, parts))
            )


@settings(deadline=None)
@given(total=st.integers(0, 10_000), count=st.integers(1, 64))
def test_parts_add_up(total: int, count: int) -> None:
    """The parts of a whole number add up to it and differ by one at most."""
    parts = [part_of(total, (number, count)) for number in range(count)]
    assert sum(parts) == total
    assert max(parts) - min(parts) <= 1


def test_limits_and_caps_are_divided() -> None:
    """Concurrency, rates, calls and dollars of all shares are those of the run."""
    config = EngineConfig(concurrency=10, rpm=90.0, tpm=None)
    shares = [config_share(config, (number, 3)) for number in range(3)]
    assert [one.concurrency for one in shares] == [4, 3, 3]
    assert [one.rpm for one in shares] == [30.0] * 3
    assert shares[0].tpm is None
    whole = settings_with(JudgeLimits(max_calls=10, budget=3.0))
    parts = [whole.limits.part((number, 3)) for number in range(3)]
    assert [one.max_calls for one in parts] == [4, 3, 3]
    assert [one.budget for one in parts] == [1.0] * 3
    assert config_share(EngineConfig(concurrency=1), (1, 2)).concurrency == 1


def settings_with(limits: JudgeLimits) -> EvalSettings:
    """Return settings with values of every kind."""
    return EvalSettings(
        benchmark="pairs", limits=limits, out=Path("a b"), domain=("x", "y"), processes=2, limit="3-4", rephrase=True
    )


def test_settings_survive_the_way_to_a_worker_and_into_a_manifest() -> None:
    """Paths and tuples come back as what they were, and what a manifest tells leaves nothing else out."""
    whole = settings_with(JudgeLimits(prompts=Path("p"), budget=0.5, rpm=3.0))
    assert from_plain(orjson.loads(orjson.dumps(to_plain(whole)))) == whole
    assert from_plain(orjson.loads(orjson.dumps(whole.told()))) == whole
    assert to_plain(whole).keys() - whole.told().keys() == {"share", "shared", "ray", "failures", "force"}


def test_failures_that_other_processes_add_are_taken_in(tmp_path: Path) -> None:
    """Reloading a log of failures brings in what was added since, and not what was to be forgotten."""
    path = tmp_path / "failures.jsonl"
    FailureLog(path).add("old", Outcome.API_ERROR, "earlier")
    known, forgetful = FailureLog(path), FailureLog(path, forget=True)
    FailureLog(path).add("new", Outcome.REFUSAL, "elsewhere")
    for log, old in ((known, (Outcome.API_ERROR, "earlier")), (forgetful, None)):
        assert log.get("new") is None
        log.reload()
        assert log.get("new") == (Outcome.REFUSAL, "elsewhere")
        assert log.get("old") == old
    nowhere = FailureLog()
    nowhere.reload()
    assert len(nowhere) == 0
