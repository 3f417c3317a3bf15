"""`--shard I/N`, `svr merge`, `svr cache export` and `import`: several machines, each with its own cache.

The machines are folders; the simulated endpoint's own counts are the witness of what was paid.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import orjson
import pytest
from endpoint import SimServer
from made_pairs import write_planted
from rig import name_judge, run_items, run_metrics, serving, write_bench

Cli = Callable[..., tuple[int, str, str]]
N = 24
EVAL = ("eval", "rubricbench", "--data", "bench.jsonl", "-q")
FILES = ("items.jsonl", "table.md", "table.tex")


@pytest.fixture
def sim(cli: Cli, tmp_path: Path) -> Iterator[SimServer]:
    """Serve the endpoint, and put data and two judges into the folder where commands are given."""
    write_bench(tmp_path / "bench.jsonl", N)
    with serving() as server:
        name_judge(tmp_path, server.base_url, price=[0.1, 0.05, 0.5])
        table = (tmp_path / "judges.toml").read_text()
        second = table.replace("[sim]", "[sim2]").replace("gpt-oss-120b", "gpt-oss-20b")
        (tmp_path / "judges.toml").write_text(table + second)
        yield server


def judge_shards(cli: Cli, flags: tuple[str, ...], count: int) -> list[str]:
    """Judge each shard with a separate cache; return the folders."""
    for number in range(1, count + 1):
        code, _, err = cli(
            *EVAL, *flags, "--shard", f"{number}/{count}", "--cache", f"m{number}", "--out", f"s{number}"
        )
        assert code == 0, err
    return [f"s{number}" for number in range(1, count + 1)]


def calls(sim: SimServer) -> list[int]:
    """Return how often each request was paid for."""
    return [*sim.paid().values()]


def metrics_of(folder: str) -> dict[str, object]:
    """Return the metrics of a run but for how long it took."""
    return {name: value for name, value in run_metrics(folder).items() if name != "wall_s"}


@pytest.mark.parametrize(
    "flags",
    [
        ("--judge", "sim", "--method", "self-rubric", "--audit", "0.5"),
        ("--judge", "sim", "--method", "rrd", "--limit", "5", "--option", "depth=1"),
        ("--jury", "sim,sim2", "--method", "direct", "--order", "both", "--audit-below", "0.5"),
    ],
)
def test_merged_shards_are_the_run_in_one_piece(cli: Cli, sim: SimServer, flags: tuple[str, ...]) -> None:
    """Items, reasons, tables and all numbers but the seconds are the same bytes, and no call was paid for twice."""
    shards = judge_shards(cli, flags, 3)
    assert set(calls(sim)) == {1}
    assert all(run_items(shard) for shard in shards)
    code, out, err = cli("merge", *reversed(shards), "--out", "merged")
    assert (code, "merged" in out) == (0, True), err
    assert cli(*EVAL, *flags, "--cache", "whole", "--out", "run")[0] == 0
    for name in FILES:
        ours, theirs = Path("merged", name), Path("run", name)
        assert ours.exists() == theirs.exists(), name
        assert not ours.exists() or ours.read_bytes() == theirs.read_bytes(), name
    merged, whole = metrics_of("merged"), metrics_of("run")
    for name in ("cost_usd", "paid_usd"):  # each shard rounds to a millionth of a dollar
        assert merged.pop(name) == pytest.approx(whole.pop(name), abs=4e-6)
    assert merged == whole
    manifests = [orjson.loads(Path(name, "manifest.json").read_bytes()) for name in ("merged", "run")]
    assert manifests[0]["digest"] == manifests[1]["digest"]
    assert manifests[0]["judge"] == manifests[1]["judge"]


def test_what_is_no_whole_set_of_shards_is_refused_in_a_line(cli: Cli, sim: SimServer) -> None:
    """Missing, repeated, unfinished, damaged, from another judge, data or division: one line, and no folder."""
    flags = ("--judge", "sim", "--method", "direct")
    judge_shards(cli, flags, 2)
    thirds = ("--shard", "3/3", "--cache", "m1", "--out", "third")
    assert cli(*EVAL, *flags, *thirds)[0] == 0
    other = ("--shard", "2/2", "--cache", "m3")
    assert cli(*EVAL, "--judge", "sim2", "--method", "direct", *other, "--out", "judge")[0] == 0
    assert cli(*EVAL, *flags, "--limit", str(N - 1), *other, "--out", "pairs")[0] == 0
    assert cli(*EVAL, *flags, "--shard", "2/2", "--cache", "m4", "--max-calls", "4", "--out", "part")[0] == 4
    assert cli(*EVAL, *flags, "--cache", "m1", "--out", "whole")[0] == 0
    shutil.copytree("s2", "twin")
    shutil.copytree("s2", "changed")
    Path("changed", "metrics.json").write_bytes(Path("s2", "metrics.json").read_bytes()[:-40])
    shutil.copytree("s2", "torn")
    Path("torn", "items.jsonl").write_bytes(run_items("s2").partition(b"\n")[2])
    for shards, code, says in (
        (("s1",), 2, "each of 2 shards once (got 1/2)"),
        (("s1", "s2", "twin"), 2, "each of 2 shards once (got 1/2, 2/2, 2/2)"),
        (("s1", "third"), 2, "each of 2 shards once (got 1/2, 3/3)"),
        (("s1", "judge"), 2, "judge and s1 are shards of different runs"),
        (("s1", "pairs"), 2, "pairs and s1 are shards of different runs"),
        (("s1", "part"), 2, "part, shard 2/2, is not finished"),
        (("s1", "whole"), 2, "whole is not a shard of a run"),
        (("s1", "changed"), 7, "changed/metrics.json: "),
        (("s1", "torn"), 7, f"the shards have {N - 1} of {N} pairs"),
    ):
        found, _, err = cli("merge", *shards, "--out", "merged")
        assert (found, says in err, err.count("\n")) == (code, True, 1), err
        assert not Path("merged").exists()
    write_bench(Path("bench.jsonl"), N + 1)
    found, _, err = cli("merge", "s1", "s2", "--out", "merged")
    assert (found, "are not those of s1" in err, err.count("\n")) == (2, True, 1), err


def test_a_folder_is_of_one_shard(cli: Cli, sim: SimServer) -> None:
    """Another shard, or the whole run, does not overwrite a shard; the same one resumes it. No shard is empty."""
    flags = ("--judge", "sim", "--method", "direct", "--out", "here")
    assert cli(*EVAL, *flags, "--shard", "1/2")[0] == 0
    paid = len(calls(sim))
    for shard in (("--shard", "2/2"), ()):
        code, _, err = cli(*EVAL, *flags, *shard)
        assert (code, "here holds shard 1/2 of this run" in err) == (2, True), err
    assert cli(*EVAL, *flags, "--shard", "1/2")[0] == 0
    assert len(calls(sim)) == paid
    code, _, err = cli(*EVAL, *flags[:4], "--limit", "2", "--shard", "3/3")
    assert (code, "--shard 3/3 has no pairs" in err) == (2, True), err


def test_caps_are_divided_among_shards(cli: Cli, sim: SimServer) -> None:
    """Limits are of the whole run: three machines together send no more than --max-calls."""
    flags = ("--judge", "sim", "--method", "direct", "--audit", "0", "--max-calls", "10")
    for number in (1, 2, 3):
        assert cli(*EVAL, *flags, "--shard", f"{number}/3", "--cache", f"m{number}", "--out", f"s{number}")[0] == 4
    assert sum(calls(sim)) == 10


def test_shards_of_a_stage_fill_caches_and_the_command_then_sends_nothing(cli: Cli, tmp_path: Path) -> None:
    """`svr stages judge` on two machines: each asks its part; with both caches the store is that of one machine."""
    write_planted(tmp_path / "pairs.jsonl", 40)
    with serving() as sim:
        name_judge(tmp_path, sim.base_url)
        assert cli("stages", "induce", "pairs.jsonl", "--judge", "rules", "--out", "candidates.jsonl", "-q")[0] == 0
        flags = ("stages", "judge", "pairs.jsonl", "--candidates", "candidates.jsonl", "--judge", "sim", "-q")
        for number in (1, 2):
            shard = ("--shard", f"{number}/2", "--cache", f"m{number}")
            code, out, err = cli(*flags, *shard, "--out", f"store{number}")
            assert (code, f"shard {number}/2 of judging is done" in out) == (0, True), err
            assert cli("cache", "export", f"replies{number}.jsonl.gz", "--cache", f"m{number}")[0] == 0
        assert cli("cache", "import", "replies2.jsonl.gz", "--cache", "m1")[0] == 0
        paid = len(calls(sim))
        assert set(calls(sim)) == {1}
        assert cli(*flags, "--shard", "1/2", "--cache", "m1", "--out", "store1")[0] == 0
        assert cli(*flags, "--cache", "m1", "--out", "again")[0] == 0
        assert len(calls(sim)) == paid
        assert cli(*flags, "--cache", "whole", "--out", "store")[0] == 0
    for store in ("store1", "again"):
        for path in Path("store").iterdir():
            assert Path(store, path.name).read_bytes() == path.read_bytes(), path.name
