"""The planted world in files: readable by the adapters, reproducible, and labelled SIMULATED."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from svr_async.adapters import ADAPTERS
from svr_async.errors import StorageError
from svr_async.simulation.files import DOMAINS, planted_domains, write_world
from svr_async.simulation.world import World


def test_a_world_is_written_and_read_by_the_adapters(tmp_path: Path) -> None:
    """Same bytes each time, RubricBench's schema with human rubrics, labels as planted, and a note of what it is."""
    world = World()
    files = write_world(world, tmp_path / "one", n_train=30, n_test=40)
    again = write_world(world, tmp_path / "two", n_train=30, n_test=40)
    assert [path.read_bytes() for path in files] == [path.read_bytes() for path in again]
    train, test, readme = files
    assert train.read_bytes().count(b"\n") == 30
    assert readme.read_text().startswith("SIMULATED DATA")
    pairs = list(ADAPTERS["rubricbench"].load(test).pairs)
    kinds = [kind for _, kind in planted_domains(0, 40)]
    planted = [item.pair for item in world.pairs(40, "test", kinds)]
    assert [(one.id, one.chosen, one.rejected) for one in pairs] == [(p.id, p.chosen, p.rejected) for p in planted]
    assert all(one.rubrics for one in pairs)


def test_domains_have_the_proportions_of_rubricbench() -> None:
    """At full size the groups are those of the benchmark; a small file has the size that was asked for."""
    assert {group: sum(domains.values()) for group, domains in DOMAINS.items()} == ADAPTERS["rubricbench"].groups
    found = Counter(domain for domain, _ in planted_domains(0, 1147))
    assert found == {name: n for domains in DOMAINS.values() for name, n in domains.items()}
    assert len(planted_domains(0, 97)) == 97


def test_a_folder_that_cannot_be_written_is_one_error(tmp_path: Path) -> None:
    """A file in the place of the folder gives a StorageError that names it."""
    (tmp_path / "taken").write_text("")
    with pytest.raises(StorageError, match="taken"):
        write_world(World(), tmp_path / "taken", n_train=1, n_test=1)
