"""`svr sim --write`: the planted world in files that the adapters read, reproducible, and labelled SIMULATED."""

from __future__ import annotations

from pathlib import Path

from rig import svr_here

from svr_async.adapters import ADAPTERS
from svr_async.simulation.world import World


def test_a_world_is_written_and_read_by_the_adapters(tmp_path: Path) -> None:
    """Same bytes each time, RubricBench's schema with human rubrics, labels as planted, and a note of what it is."""
    sizes = ("--train", "30", "--test", "40")
    assert [svr_here("sim", "--write", tmp_path / name, *sizes) for name in ("one", "two")] == [0, 0]
    files = {path.name: path.read_bytes() for path in (tmp_path / "one").iterdir()}
    assert files == {path.name: path.read_bytes() for path in (tmp_path / "two").iterdir()}
    assert files["train.jsonl"].count(b"\n") == 30
    assert files["README.txt"].startswith(b"SIMULATED DATA")
    loaded = list(ADAPTERS["rubricbench"].load(tmp_path / "one" / "rubricbench.jsonl").pairs)
    planted = [item.pair for item in World().pairs(40, "test")]
    assert [(one.id, one.chosen, one.rejected) for one in loaded] == [(p.id, p.chosen, p.rejected) for p in planted]
    assert all(one.rubrics for one in loaded)
    assert {one.domain for one in loaded} <= set(ADAPTERS["rubricbench"].groups)
