"""The planted world: purity, readability, labels, and the accuracies that judges reach on it."""

from __future__ import annotations

from difflib import SequenceMatcher
from itertools import combinations

import pytest

from svr_async.core.pair import Side, prompt_text
from svr_async.simulation.catalogue import CRITERIA, GENERIC, LATENT, SHARED_WORDS, TOPICS
from svr_async.simulation.judge import MODELS, PlantedJudge
from svr_async.simulation.world import World, squeeze

WORLD = World()
MET = [squeeze(criterion.met) for criterion in CRITERIA]
read_prompt, read_response, read_rubric = WORLD.read_prompt, WORLD.read_response, WORLD.read_rubric
ITEMS = list(WORLD.pairs(600, "unit"))


def true_margin(kind: int, chosen: str, rejected: str) -> float:
    """Return the true margin of two responses, read from their texts."""
    value = WORLD.kinds[kind].value
    return value(read_response(chosen).met) - value(read_response(rejected).met)


def test_a_world_is_a_pure_function_of_its_seed() -> None:
    """Two worlds of one seed give equal pairs, another seed gives others, and a pair does not depend on how many."""
    again = list(World(0).pairs(50, "unit"))
    assert again == ITEMS[:50]
    assert World().pair("unit", 37) == ITEMS[37]
    assert next(World(1).pairs(1, "unit")) != ITEMS[0]
    assert next(WORLD.pairs(1, "other")) != ITEMS[0]


def test_twelve_types_share_twenty_four_criteria() -> None:
    """Each type cares about six criteria with unequal positive weights, and every criterion matters somewhere."""
    assert len(TOPICS) == 12
    assert len(LATENT) == 24
    assert {number for kind in WORLD.kinds for number in kind.cares} == set(range(24))
    for kind in WORLD.kinds:
        assert len(set(kind.cares)) == 6
        assert len(set(kind.weights)) == 6
        assert min(kind.weights) > 0
        assert sum(kind.weights) == pytest.approx(1)
        assert not set(kind.cares) & set(kind.distractors)


def test_texts_are_unmistakable() -> None:
    """No word belongs to two types, no two rubrics are similar, no sentence of one criterion occurs in another's."""
    words = [word for topic in TOPICS for word in topic.words]
    assert len(words) == len(set(words))
    assert not set(words) & set(SHARED_WORDS)
    texts = [criterion.rubric.lower() for criterion in CRITERIA] + [text.lower() for text in GENERIC]
    assert max(SequenceMatcher(None, a, b).ratio() for a, b in combinations(texts, 2)) < 0.75
    for number, sentence in enumerate(MET):
        others = [text for place, text in enumerate(MET) if place != number]
        assert not any(sentence in text for text in others)
        assert not any(sentence in squeeze(criterion.unmet) for criterion in CRITERIA)


def test_attributes_are_read_back_from_the_text() -> None:
    """The true margin computed from the texts is the planted one, also after re-wrapping and in capitals."""
    for item in ITEMS:
        pair = item.pair
        assert true_margin(item.kind, pair.chosen, pair.rejected) == pytest.approx(item.margin)
    wrapped = ITEMS[0].pair.chosen.replace(" ", "\n").upper()
    assert read_response(wrapped).met == read_response(ITEMS[0].pair.chosen).met


def test_the_type_of_every_prompt_is_recognised() -> None:
    """A prompt's vocabulary tells its type, in spite of strays; other text has no type."""
    assert all(read_prompt(item.pair.prompt[0].content).kind == item.kind for item in ITEMS)
    assert read_prompt("What is the capital of France?").kind is None


def test_labels_follow_the_margin_but_for_a_few() -> None:
    """Chosen is truly better in all but about four per cent of pairs, shown first in half; near-ties do not occur."""
    flipped = [item for item in ITEMS if item.flipped]
    assert 0.015 < len(flipped) / len(ITEMS) < 0.08
    assert all((item.margin < 0) == item.flipped for item in ITEMS)
    assert all(abs(item.margin) >= 0.09 - 1e-9 for item in ITEMS)
    assert 0.42 < sum(item.pair.chosen_first for item in ITEMS) / len(ITEMS) < 0.58


def test_human_rubrics_are_the_types_criteria_incompletely() -> None:
    """Human rubrics name some criteria of the type, the same on every call."""
    for item in ITEMS[:200]:
        texts = WORLD.human_rubrics(item)
        assert texts == WORLD.human_rubrics(item)
        assert texts
        assert set(texts) <= {CRITERIA[number].rubric for number in WORLD.kinds[item.kind].cares}
    assert 0.7 < sum(len(WORLD.human_rubrics(item)) for item in ITEMS) / (6 * len(ITEMS)) < 0.85


def accuracy(model: str, weighed: bool | None) -> float:
    """Return the share of pairs that a judge gets right: None is direct, else by true criteria, weighed or not."""
    judge, right = PlantedJudge(WORLD, MODELS[model]), 0
    for item in ITEMS[:400]:
        prompt, kind = read_prompt(prompt_text(item.pair.prompt)), WORLD.kinds[item.kind]
        a, b = read_response(item.pair.response_a), read_response(item.pair.response_b)
        rows = [judge.compare(prompt, a, b, read_rubric(CRITERIA[number].rubric)) for number in kind.cares]
        weights = kind.weights if weighed else [1.0] * len(rows)
        total = sum(weight * (row.delta or 0.0) for weight, row in zip(weights, rows, strict=True))
        side = judge.prefer(prompt, a, b) if weighed is None else Side.A if total > 0 else Side.B
        right += (side is Side.A) == item.pair.chosen_first
    return right / 400


def test_weights_are_worth_learning() -> None:
    """Direct verdicts are near 50 %, equal weights better, true weights best; stronger judges do better with them."""
    direct, equal, true = (accuracy("gpt-oss-120b", weighed) for weighed in (None, False, True))
    assert 0.43 < direct < 0.58 < equal < true
    assert 0.78 < true < 0.9
    assert accuracy("sim-weak", True) < true < accuracy("sim-perfect", True)


@pytest.mark.parametrize(("name", "rate"), [("gpt-oss-120b", 0.10), ("sim-weak", 0.25), ("sim-perfect", 0.0)])
def test_verdicts_err_at_the_rate_of_the_model(name: str, rate: float) -> None:
    """The share of verdicts that contradict the planted attribute is the model's noise."""
    judge = PlantedJudge(WORLD, MODELS[name])
    wrong = total = 0
    for item in ITEMS[:300]:
        prompt, response = read_prompt(item.pair.prompt[0].content), read_response(item.pair.chosen)
        for number in WORLD.kinds[item.kind].cares:
            opinion = judge.opinion(prompt, response, read_rubric(CRITERIA[number].rubric))
            wrong += opinion.met is not bool(response.met >> number & 1)
            total += 1
    assert wrong / total == pytest.approx(rate, abs=0.025)


def test_a_rubric_is_recognised_in_other_words() -> None:
    """A reworded rubric names the same criterion; a generic one and nonsense name no criterion."""
    for number, criterion in enumerate(CRITERIA):
        assert read_rubric(criterion.rubric).criterion == number
        assert read_rubric(f"A good answer clearly {criterion.predicates[0]}!").criterion == number
    assert all(read_rubric(text).criterion is None for text in GENERIC)
    assert read_rubric("Bananas sing at dawn.").criterion is None
