"""Which fault happens to which call."""

from __future__ import annotations

from collections import Counter

from endpoint import SimConfig

from svr_async.simulation.simulator import FAULTS

KEYS = [f"k{number}" for number in range(8000)]


def names(config: SimConfig, attempt: int = 0, count: int = len(KEYS)) -> list[str]:
    """Return the name of each planned fault, or ""."""
    return [config.fault(key, attempt) for key in KEYS[:count]]


def test_faults_are_a_pure_function_at_the_asked_rate() -> None:
    """Half of the first attempts are faulty, each kind has its share; another seed decides otherwise."""
    half = SimConfig(fault_rate=0.5, faults=tuple(FAULTS))
    found = names(half)
    assert found == names(half)
    assert found != names(SimConfig(seed=1, fault_rate=0.5, faults=tuple(FAULTS)))
    counts = Counter(found)
    assert 0.47 < 1 - counts[""] / len(KEYS) < 0.53
    assert set(counts) - {""} == set(FAULTS)
    assert min(counts.values()) > len(KEYS) / 2 / len(FAULTS) * 0.8


def test_later_attempts_are_spared() -> None:
    """No fault from `faulty_attempts` on, nor at rate 0."""
    always = SimConfig(fault_rate=1.0, faulty_attempts=3)
    assert {*names(always, 1)} == set(FAULTS)
    assert {*names(always, 2)} == set(FAULTS) - {"empty"} | {""}  # a client asks only once more after an empty reply
    assert not any(names(always, 3, 50))
    assert not any(names(SimConfig(), 0, 50))
