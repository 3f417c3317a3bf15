"""Which fault befalls which call, and what content faults do to a reply."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence

import pytest
import sim_requests as ask

from svr_async.errors import ConfigError
from svr_async.simulation.brain import Composed, Simulator
from svr_async.simulation.damage import corrupt
from svr_async.simulation.faults import FAULTS, GROUPS, FaultConfig, Stage, draw_fault, parse_kinds
from svr_async.simulation.request import Role
from svr_async.simulation.world import World, draw_bytes

CONTENT_KINDS = GROUPS["content"]
HALF = FaultConfig(rate=0.5, kinds=tuple(FAULTS))


def plan(
    config: FaultConfig, key: str, attempt: int, role: Role = Role.COMPARE, struck: Sequence[str] = (), seed: int = 0
) -> str:
    """Return the name of the planned fault, or ""."""
    fault = draw_fault(config, seed=seed, key=key, attempt=attempt, role=role, struck=struck)
    return fault.name if fault else ""


def test_the_plan_is_a_pure_function() -> None:
    """Seed, key and attempt decide; another seed decides otherwise."""
    first = [plan(HALF, f"k{n}", n % 2) for n in range(200)]
    assert first == [plan(HALF, f"k{n}", n % 2) for n in range(200)]
    assert first != [plan(HALF, f"k{n}", n % 2, seed=1) for n in range(200)]


def test_faults_strike_at_the_asked_rate_and_in_every_kind() -> None:
    """Half of the first attempts are faulty, and each kind has about its share of them."""
    found = Counter(plan(HALF, f"k{n}", 0) for n in range(8000))
    assert 0.47 < 1 - found[""] / 8000 < 0.53
    assert set(found) - {""} == set(FAULTS)
    assert min(count for name, count in found.items() if name) > 4000 / len(FAULTS) * 0.6


def test_later_attempts_are_spared() -> None:
    """No fault is drawn from `max_faulty_attempts` on, and none at rate 0 or without kinds."""
    always = FaultConfig(rate=1.0, kinds=tuple(FAULTS), max_faulty_attempts=3)
    assert any(plan(always, f"k{n}", 2) for n in range(50))
    assert not any(plan(always, f"k{n}", 3) for n in range(50))
    assert not plan(FaultConfig(kinds=tuple(FAULTS)), "k", 0)
    assert not plan(FaultConfig(rate=1.0), "k", 0)


def test_kinds_are_named_one_by_one_or_in_groups() -> None:
    """Names and groups mix; the result is in the table's order and free of doubles."""
    assert parse_kinds("500, 429,500") == ("429", "500")
    assert set(parse_kinds("content,429")) == {*CONTENT_KINDS, "429"}
    mixed = parse_kinds("mixed")
    assert len(mixed) >= 12
    assert not {FAULTS[name].stage for name in mixed} & {Stage.FINAL}
    assert parse_kinds("") == ()


@pytest.mark.parametrize("build", [lambda: parse_kinds("429,plague"), lambda: FaultConfig(kinds=("plague",))])
def test_an_unknown_kind_is_refused_with_the_choice(
    build: Callable[..., tuple[str, ...]] | Callable[..., FaultConfig],
) -> None:
    """An unknown fault is named, and the known ones are listed."""
    with pytest.raises(ConfigError, match="'plague'") as caught:
        build()
    assert "missing-rubrics" in caught.value.hint


def composed() -> list[Composed]:
    """Return honest replies of judging requests, before they are damaged."""
    world, sim = World(), Simulator()
    return [sim.compose(sim.read(ask.of_pair(world, item, overall=True))) for item in world.pairs(40, "faults")]


@pytest.mark.parametrize("name", CONTENT_KINDS)
def test_a_content_fault_changes_the_text_the_same_way_every_time(name: str) -> None:
    """Damage is a pure function of the reply and the draw, and never leaves the reply as it was."""
    for place, reply in enumerate(composed()):
        drawn = draw_bytes(name, place)
        damaged = corrupt(reply, FAULTS[name], drawn)
        assert damaged == corrupt(reply, FAULTS[name], drawn)
        assert damaged[0] != reply.text


def ids(text: str) -> list[str]:
    """Return the rubric ids of a damaged reply, with repetitions."""
    return [row["rubric_id"] for row in json.loads(text)["rubric_comparisons"]]


def test_missing_rubrics_keep_honest_rows() -> None:
    """At least one row is gone, and every row that is left is one of the honest ones."""
    for place, reply in enumerate(composed()):
        text, _ = corrupt(reply, FAULTS["missing-rubrics"], draw_bytes(place))
        left = json.loads(text)["rubric_comparisons"]
        assert len(left) < 6
        assert reply.payload is not None
        assert all(row in reply.payload["rubric_comparisons"] for row in left)


def test_duplicates_and_strangers() -> None:
    """One id comes twice with contradicting verdicts; one row is renamed and a stranger added."""
    for place, reply in enumerate(composed()):
        doubled, _ = corrupt(reply, FAULTS["duplicate-ids"], draw_bytes(place))
        assert len(ids(doubled)) == 8
        assert set(ids(doubled)) == set(ids(reply.text))
        strange, _ = corrupt(reply, FAULTS["unknown-ids"], draw_bytes(place))
        assert len(set(ids(strange)) & set(ids(reply.text))) == 5
        assert "R999" in ids(strange)


@pytest.mark.parametrize("name", ["broken-json", "cut-json"])
def test_broken_json_does_not_parse(name: str) -> None:
    """Broken and cut replies are no JSON."""
    for place, reply in enumerate(composed()):
        with pytest.raises(json.JSONDecodeError):
            json.loads(corrupt(reply, FAULTS[name], draw_bytes(place))[0])
