"""The planted world in the shapes of other benchmarks: adapters read it, and what is called right is worth more."""

from __future__ import annotations

from pathlib import Path

from svr_async.adapters import ADAPTERS, get_adapter
from svr_async.core.pair import prompt_text
from svr_async.simulation.benchmark_files import SHAPES, write_benchmarks
from svr_async.simulation.world import World

COUNTS = {
    "rewardbench": {"alpacaeval-easy": 3, "hep-go": 2},
    "rewardbench2": {"Focus": 3, "Ties": 4},
    "rmbench": {"chat": 3, "safety-refuse": 2},
}


def test_adapters_read_what_is_written(tmp_path: Path) -> None:
    """Each file has the rows of its subsets in its benchmark's own schema; the same world gives the same bytes."""
    found = write_benchmarks(World(), tmp_path / "one", COUNTS)
    sizes = {name: len(get_adapter(name).load(path).pairs) for name, path in found.items()}
    assert sizes == {"rewardbench": 5, "rewardbench2": 3 * 3 + 2 * 3 + 2 * (3 * 3 + 3), "rmbench": 5 * 9}
    again = write_benchmarks(World(), tmp_path / "two", COUNTS)
    assert [path.read_bytes() for path in found.values()] == [path.read_bytes() for path in again.values()]


def test_right_answers_are_worth_more_and_styles_dazzle_more_and_more(tmp_path: Path) -> None:
    """In RewardBench 2 and RM-Bench the planted worth of the chosen is above that of the rejected."""
    world = World()
    found = write_benchmarks(world, tmp_path, {name: COUNTS[name] for name in ("rewardbench2", "rmbench")})
    pairs = [pair for name, path in found.items() for pair in get_adapter(name).load(path).pairs if pair.has_preference]
    margins = [world.true_margin(prompt_text(pair.prompt), pair.chosen, pair.rejected) for pair in pairs]
    assert all(margin is not None and margin > 0 for margin in margins)
    chosen = [pair for pair in pairs if pair.slot in ((0, 0), (2, 2)) and "/" in pair.item and pair.subset == "chat"]
    plain, dazzling = (
        [world.language.read_response(p.chosen).surface for p in chosen if p.slot == (n, n)] for n in (0, 2)
    )
    assert sum(plain) < sum(dazzling)


def test_the_full_sizes_are_those_of_the_adapters() -> None:
    """What the command writes has 2,985, 1,865 and 1,327 rows."""
    sizes = {name: sum(ADAPTERS[name].groups.values()) for name in SHAPES}
    assert sizes == {"rewardbench": 2985, "rewardbench2": 1865, "rmbench": 1327}
