"""The varied world: wordings, commonplaces, inconspicuous criteria in rare types of prompts, and shared errors."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sim_requests as ask
from click.testing import CliRunner

from svr_async.commands.sim import sim
from svr_async.errors import ConfigError
from svr_async.simulation.author import NEAR_COPY, Author
from svr_async.simulation.brain import Simulator
from svr_async.simulation.calibration import calibrate
from svr_async.simulation.catalogue import CRITERIA
from svr_async.simulation.commonplaces import COMMONPLACES
from svr_async.simulation.config import SimConfig
from svr_async.simulation.files import train_row
from svr_async.simulation.judge import PlantedJudge
from svr_async.simulation.language import HEADS
from svr_async.simulation.models import MODELS
from svr_async.simulation.planted import PlantedPair
from svr_async.simulation.readings import MET, likeness, read_prompt, read_response, read_rubric, squeeze
from svr_async.simulation.variety import VARIED, Variety
from svr_async.simulation.wordings import EVERYTHING, PREDICATES
from svr_async.simulation.world import World, WorldConfig, preset, preset_name
from svr_async.training.bank.leaks import self_contained
from svr_async.training.bank.near_duplicates import similar_pairs

MODEL = MODELS["gpt-oss-120b"]
WORLD = World(preset("varied", 7))
AUTHOR = Author(WORLD, MODEL)
ITEMS = list(WORLD.pairs(400, "unit"))
PLAIN_DIGEST = "5062df92ca1ebe61"  # of the world that the first tables were measured on


def texts_of(item: PlantedPair) -> tuple[str, str, str]:
    """Return prompt, chosen and rejected response of a planted pair."""
    return item.pair.prompt[0].content, item.pair.chosen, item.pair.rejected


def named(rows: list[dict[str, Any]]) -> list[int | None]:
    """Return the attributes that proposed rubrics name."""
    return [read_rubric(row["rubric"]).criterion for row in rows]


def test_the_plain_world_is_what_it_always_was() -> None:
    """Pairs, rubrics, probes and the fingerprint of the plain world are byte for byte those of before."""
    world, sha = World(preset("plain", 1)), hashlib.sha256()
    author = Author(world, MODEL)
    for item in world.pairs(40):
        row = train_row(item)
        others = (row["rejected"], None, author.probe(row["prompt"], row["chosen"]))
        told = [author.induce(row["prompt"], row["chosen"], other) for other in others]
        sha.update(repr((row, told, world.human_rubrics(item))).encode())
    sha.update(Simulator(SimConfig(seed=1)).fingerprint.encode())
    assert sha.hexdigest()[:16] == PLAIN_DIGEST
    assert preset("plain", 1) == WorldConfig(seed=1)


def test_worlds_have_names() -> None:
    """A preset is found by its name and knows it again; another name is refused with those that there are."""
    assert preset_name(preset("varied", 3)) == "varied"
    assert preset_name(WorldConfig(seed=3)) == "plain"
    with pytest.raises(ConfigError, match="no world 'wild'; there are plain, varied, redundant"):
        preset("wild", 0)


def test_wordings_are_recognised_and_never_merge() -> None:
    """Each attribute has three wordings that the simulation reads alike and that stay far below the merge cutoff."""
    texts = [(number, f"The response {text}.") for number, held in enumerate(PREDICATES) for text in held]
    assert all(len(held) == 3 for held in PREDICATES)
    assert all(read_rubric(text).criterion == number for number, text in texts)
    assert all(read_rubric(f"{head} {text[13:]}").criterion == number for number, text in texts for head in HEADS)
    assert all(self_contained(text) for _, text in texts)
    assert len(similar_pairs([text for _, text in texts], 0.8).first) == 0


def test_commonplaces_are_unmistakable() -> None:
    """No sentence that shows an attribute occurs in one that shows another, or that shows a lack."""
    assert EVERYTHING[: len(CRITERIA)] == CRITERIA
    for number, sentence in enumerate(MET):
        assert not any(sentence in other for place, other in enumerate(MET) if place != number)
        assert not any(sentence in squeeze(one.unmet) for one in EVERYTHING)


def test_an_inducer_uses_several_wordings() -> None:
    """Most criteria are proposed in every wording of the varied world, and in one in the plain."""

    def wordings(world: World) -> Counter[int]:
        author = Author(world, MODEL)
        used: dict[int, set[str]] = {}
        for item in world.pairs(300, "unit"):
            for row in author.induce(*texts_of(item)):
                text = row["rubric"].rstrip(".")
                number = read_rubric(row["rubric"]).criterion
                if number is not None:
                    used.setdefault(number, set()).update(p for p in PREDICATES[number] if text.endswith(p))
        return Counter(len(held) for held in used.values())

    assert set(wordings(World(WorldConfig(seed=7)))) == {1}
    assert wordings(WORLD).most_common(1)[0][0] == VARIED.wordings


def test_commonplaces_are_shown_by_nearly_all_and_told_by_description() -> None:
    """Nearly every response shows them; who describes one response names many, who sees both names few."""
    first = len(CRITERIA)
    shown = [read_response(text).met >> first for item in ITEMS for text in (item.pair.chosen, item.pair.rejected)]
    rate = sum(met.bit_count() for met in shown) / len(shown) / VARIED.commonplaces
    assert rate == pytest.approx(VARIED.commonplace_rate, abs=0.02)
    assert max(shown).bit_length() <= VARIED.commonplaces <= len(COMMONPLACES)

    def share(proposals: Iterator[list[dict[str, Any]]]) -> float:
        numbers = [number for rows in proposals for number in named(rows) if number is not None]
        return sum(number >= first for number in numbers) / len(numbers)

    assert share(AUTHOR.induce(*texts_of(item)) for item in ITEMS) < 0.4
    assert share(AUTHOR.induce(*texts_of(item)[:2], None) for item in ITEMS) > 0.5


def test_an_inconspicuous_difference_is_seen_between_near_copies() -> None:
    """A subtle criterion is hardly ever named for a pair as it comes or for one response; a probe brings it out."""
    delicate = list(WORLD.pairs(150, "delicate", [min(WORLD.delicate), max(WORLD.delicate)] * 75))
    probed = [(prompt, chosen, AUTHOR.probe(prompt, chosen)) for prompt, chosen, _ in map(texts_of, delicate)]
    assert all(likeness(chosen, rejected) < NEAR_COPY for _, chosen, rejected in map(texts_of, ITEMS))
    assert sum(likeness(chosen, probe) >= NEAR_COPY for _, chosen, probe in probed) > 0.9 * len(probed)

    def seen(proposals: Iterator[list[dict[str, Any]]]) -> float:
        return sum(bool(WORLD.subtle & set(named(rows))) for rows in proposals) / len(delicate)

    assert seen(AUTHOR.induce(*texts_of(item)) for item in delicate) < 0.12
    assert seen(AUTHOR.induce(*texts_of(item)[:2], None) for item in delicate) < 0.12
    assert seen(AUTHOR.induce(*probe) for probe in probed) > 0.7


def test_delicate_types_are_rare_in_training() -> None:
    """Types that care about the inconspicuous criteria, and only about these, are drawn less often than others."""
    counts = Counter(item.kind for item in WORLD.pairs(3000, "train"))
    delicate = [counts[kind] for kind in WORLD.delicate]
    others = [counts[kind] for kind in range(len(WORLD.kinds)) if kind not in WORLD.delicate]
    ratio = (sum(delicate) / len(delicate)) / (sum(others) / len(others))
    assert ratio == pytest.approx(VARIED.delicate_share, rel=0.15)
    for number, kind in enumerate(WORLD.kinds):
        assert (set(kind.cares) == WORLD.subtle) == (number in WORLD.delicate)
        assert number in WORLD.delicate or not set(kind.cares) & WORLD.subtle
    assert {number for kind in WORLD.kinds for number in kind.cares} == set(range(48))


def test_errors_are_shared_by_wordings() -> None:
    """Verdicts are wrong at the model's rate, and two wordings of a criterion are mostly wrong together."""
    judge = PlantedJudge(WORLD, MODEL)
    wrong, both, total = 0, 0, 0
    for item in ITEMS:
        prompt, response = read_prompt(item.pair.prompt[0].content), read_response(item.pair.chosen)
        for number in WORLD.kinds[item.kind].cares:
            rubrics = [read_rubric(f"The response {text}.") for text in PREDICATES[number][:2]]
            slips = [judge.opinion(prompt, response, r).met is not bool(response.met >> number & 1) for r in rubrics]
            wrong, both, total = wrong + sum(slips), both + all(slips), total + 1
    assert wrong / total / 2 == pytest.approx(MODEL.noise, abs=0.015)
    assert both / (wrong / 2) > 0.5


def test_judges_score_as_in_the_plain_world() -> None:
    """Direct, self-written, human and true weights reach what they reach in the plain world."""
    found = calibrate(WORLD, 900)
    assert 0.45 < found.direct < 0.57
    assert 0.50 < found.self_written < 0.62
    assert 0.64 < found.human < 0.75
    assert 0.80 < found.human_true_weights < 0.88
    assert 0.42 < found.longest < 0.55


def test_the_true_margin_is_read_from_the_text() -> None:
    """What decides is read back from the texts of the varied world too, commonplaces aside."""
    for item in ITEMS:
        assert WORLD.true_margin(*texts_of(item)) == pytest.approx(item.margin)


def test_the_command_writes_and_names_the_varied_world(tmp_path: Path) -> None:
    """`svr sim --world varied --write DIR` writes that world; its own endpoint judges it."""
    args = ["--seed", "7", "--world", "varied", "--train", "20", "--test", "150", "--write", str(tmp_path)]
    assert CliRunner().invoke(sim, args, catch_exceptions=False).exit_code == 0
    note = (tmp_path / "README.txt").read_text("utf-8")
    assert note.startswith("SIMULATED DATA")
    assert note.count("--seed 7 --world varied") == 2
    rows = [json.loads(line) for line in (tmp_path / "rubricbench.jsonl").read_text("utf-8").splitlines()]
    judge, hits = Simulator(SimConfig(seed=7, world=preset("varied", 7))), 0
    for row in rows:
        body = ask.direct(row["instruction"], row["response_a"], row["response_b"], model="sim-perfect")
        hits += ask.content(judge.answer(body)).endswith("[[A]]") == (row["label"] == 0)
    assert hits / len(rows) > 0.9
    assert judge.fingerprint != Simulator(SimConfig(seed=7)).fingerprint


def test_types_need_enough_criteria() -> None:
    """Where the inconspicuous criteria are set apart, a hand may not be larger than what is left for the others."""
    assert World(WorldConfig(cared=24, variety=Variety(delicate_kinds=1))).kinds
    with pytest.raises(ConfigError, match=r"cared must be 1 to 24 with delicate kinds \(got 25\)"):
        WorldConfig(cared=25, variety=Variety(delicate_kinds=1))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("wordings", 0),
        ("wordings", 4),
        ("commonplaces", 13),
        ("delicate_kinds", 12),
        ("delicate_share", 0.0),
        ("shared_errors", 1.5),
        ("commonplace_rate", -0.1),
        ("overlooked", 2.0),
    ],
)
def test_impossible_variety_is_refused(field: str, value: Any) -> None:
    """A setting out of range is refused with its name and value."""
    with pytest.raises(ConfigError, match=f"{field} must be .*{value}"):
        Variety(**{field: value})
