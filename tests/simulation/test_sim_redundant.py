"""The redundant world: a second wording is judged as the first is, and more than three criteria count."""

from __future__ import annotations

import hashlib

import pytest
from click.testing import CliRunner

from svr_async.commands.sim import sim
from svr_async.core.verdict import RubricComparison
from svr_async.simulation.author import Author
from svr_async.simulation.brain import Simulator
from svr_async.simulation.calibration import calibrate
from svr_async.simulation.config import SimConfig
from svr_async.simulation.files import train_row
from svr_async.simulation.judge import PlantedJudge
from svr_async.simulation.models import MODELS
from svr_async.simulation.planted import PlantedPair
from svr_async.simulation.readings import read_prompt, read_response, read_rubric
from svr_async.simulation.variety import REDUNDANT, VARIED
from svr_async.simulation.wordings import PREDICATES
from svr_async.simulation.world import PRESETS, World, preset, preset_name

MODEL = MODELS["gpt-oss-120b"]
WORLD = World(preset("redundant", 7))
KNOWN = {
    "plain": "bd754b1837cb28ea",
    "varied": "94f98fd8b26d93cc",
}  # of the worlds that the first tables were measured on


def rows_of(world: World, item: PlantedPair) -> list[list[RubricComparison]]:
    """Return the comparisons of a pair by the first two wordings of each criterion that its type cares about."""
    judge = PlantedJudge(world, MODEL)
    prompt = read_prompt(item.pair.prompt[0].content)
    a, b = read_response(item.pair.chosen), read_response(item.pair.rejected)
    texts = [[f"The response {text}." for text in PREDICATES[n][:2]] for n in world.kinds[item.kind].cares]
    return [[judge.compare(prompt, a, b, read_rubric(text)) for text in pair] for pair in texts]


@pytest.mark.parametrize("name", KNOWN)
def test_older_worlds_and_their_judgements_are_what_they_were(name: str) -> None:
    """Pairs, proposals, verdicts, preferences and the fingerprint of a plain and a varied world are those of before."""
    world, sha = World(preset(name, 1)), hashlib.sha256()
    author, judge = Author(world, MODEL), PlantedJudge(world, MODEL)
    for item in world.pairs(40):
        row = train_row(item)
        others = (row["rejected"], None, author.probe(row["prompt"], row["chosen"]))
        told = [author.induce(row["prompt"], row["chosen"], other) for other in others]
        prompt, a, b = read_prompt(row["prompt"]), read_response(row["chosen"]), read_response(row["rejected"])
        rubrics = [read_rubric(one["rubric"]) for rows in told for one in rows]
        judged = [(judge.compare(prompt, a, b, rubric), judge.opinion(prompt, a, rubric)) for rubric in rubrics]
        more = (judge.prefer(prompt, a, b), judge.write_rubrics(prompt), item.margin)
        sha.update(
            repr((row, told, world.human_rubrics(item), judged, *more)).replace(", chances=None", "").encode()
        )  # a later field
    sha.update(Simulator(SimConfig(seed=1, world=world.config)).fingerprint.encode())
    sha.update(repr((world.config, world.config.variety)).encode())
    assert sha.hexdigest()[:16] == KNOWN[name]


def test_two_wordings_are_judged_alike() -> None:
    """Verdicts by two wordings never differ, and which of equals is better only where the judge does not look."""
    rows = [pair for item in WORLD.pairs(200, "unit") for pair in rows_of(WORLD, item)]
    assert all((one.a, one.b) == (other.a, other.b) for one, other in rows)
    assert sum(one.better is not other.better for one, other in rows) / len(rows) < 0.08


def test_in_the_varied_world_a_second_wording_is_a_second_opinion() -> None:
    """There verdicts by two wordings differ now and then, and which of equals is better often."""
    world = World(preset("varied", 7))
    rows = [pair for item in world.pairs(200, "unit") for pair in rows_of(world, item)]
    assert sum((one.a, one.b) != (other.a, other.b) for one, other in rows) / len(rows) > 0.03
    assert sum(one.better is not other.better for one, other in rows) / len(rows) > 0.12


def test_more_than_three_criteria_count() -> None:
    """The three heaviest criteria of a type are about two thirds of its weight, in the varied world five sixths."""

    def share(world: World) -> float:
        parts = [sum(sorted(kind.weights)[3:]) / kind.total for kind in world.kinds]
        return sum(parts) / len(parts)

    assert share(WORLD) == pytest.approx(0.66, abs=0.03)
    assert share(World(preset("varied", 7))) == pytest.approx(0.83, abs=0.03)


def test_judges_score_as_in_the_other_worlds() -> None:
    """Direct, human and true weights reach about what they reach elsewhere."""
    found = calibrate(WORLD, 900)
    assert 0.45 < found.direct < 0.57
    assert 0.66 < found.human < 0.77
    assert 0.81 < found.human_true_weights < 0.90
    assert 0.42 < found.longest < 0.57


def test_it_has_a_name_of_its_own() -> None:
    """The preset knows its name, an endpoint of it says that it is another, and the command offers every preset."""
    assert preset_name(preset("redundant", 3)) == "redundant"
    prints = {Simulator(SimConfig(seed=7, world=preset(name, 7))).fingerprint for name in PRESETS}
    assert len(prints) == len(PRESETS)
    assert "shared_whims=True" in repr(REDUNDANT)
    assert "shared_whims" not in repr(VARIED)
    told = CliRunner().invoke(sim, ["--help"], terminal_width=200).output
    assert f"[{'|'.join(PRESETS)}]" in told
