"""The simulation behind the gate's shares, on fewer runs than docs/gate.md tells of."""

from __future__ import annotations

import pytest

from benchmarks.paper.gate_power import World, drawn
from svr_async.evaluation.gate import Verdict, decide

RUNS = 40


def failed(world: World) -> float:
    """Return the share of drawn pairs of runs that fail without a margin."""
    return sum(decide(drawn(world, seed), 0.0) is Verdict.FAILED for seed in range(RUNS)) / RUNS


@pytest.mark.parametrize("world", [World(n=1147, loss=0.0, discordance=0.27), World(n=1147, loss=0.0, noise=0.1)])
def test_runs_without_a_difference_hardly_ever_fail(world: World) -> None:
    """At most the stated 5 % of gates fail where nothing was lost."""
    assert failed(world) <= 0.05


def test_a_loss_of_five_points_fails() -> None:
    """On 1,147 pairs, 27 % of them discordant, more than 80 % of gates fail."""
    assert failed(World(n=1147, loss=0.05, discordance=0.27)) > 0.8
