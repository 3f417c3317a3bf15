"""`svr eval` over several endpoints, and with limits on the command line."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest
from rig import name_judge, serving, write_bench

from svr_async.commands.main import run
from svr_async.commands.main import svr as group
from svr_async.simulation.config import SimConfig

N = 40


def evaluate(*args: str | Path) -> int:
    """Run `svr eval` on planted pairs; return the exit code."""
    return run(group, "svr", ["eval", "rubricbench", "--data", "bench.jsonl", "--audit", "0", "-q", *map(str, args)])


def test_the_work_is_shared_and_the_items_are_those_of_one_endpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--base-url` twice: both are asked, each pair once, and items.jsonl is byte for byte that of one endpoint."""
    monkeypatch.chdir(tmp_path)
    write_bench(tmp_path / "bench.jsonl", N)
    config = SimConfig(latency_ms=10.0)
    with serving(config) as one, serving(config) as other:
        judge = name_judge(tmp_path, one.base_url)
        assert evaluate("--judge", judge, "--cache", "m1", "--out", "alone") == 0
        one.reset()
        lanes = ("--base-url", one.base_url, "--base-url", other.base_url)
        assert evaluate("--judge", judge, *lanes, "--cache", "m2", "--out", "both") == 0
        assert one.stats()["paid"] + other.stats()["paid"] == N
        assert min(one.stats()["paid"], other.stats()["paid"]) > 0
    assert Path("alone/items.jsonl").read_bytes() == Path("both/items.jsonl").read_bytes()
    manifest = orjson.loads(Path("both/manifest.json").read_bytes())
    assert manifest["judge"]["base_urls"] == [one.base_url, other.base_url]
