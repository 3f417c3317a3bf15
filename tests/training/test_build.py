"""From candidates to banks, from several banks to one, and what changed between two."""

from typing import Any

import numpy as np
import orjson
import pytest

from svr_async.core.rubric import Check, Rubric
from svr_async.scoring.bank import MAX_SOURCES, BankRubric, InferenceSettings, RubricBank
from svr_async.training.bank.edit import diff_banks, merge_banks
from svr_async.training.bank.merge import Candidate, bank_rubric, candidate_of, main_domain, merge

DOMAINS = {"p1": "code", "p2": "code", "p3": "chat", "p4": "chat"}


def bank(*rows: tuple[str, float], **fields: Any) -> RubricBank:
    """Return a bank of (text, weight) rows."""
    rubrics = tuple(BankRubric(rubric=Rubric(text=text), weight=weight) for text, weight in rows)
    return RubricBank(rubrics=rubrics, **fields)


def test_a_candidate_and_its_fit_become_a_bank_rubric_and_back() -> None:
    """All that the candidate knew is kept; the fit's facts are added."""
    given = Candidate(
        rubric=Rubric(text="Cites a source", check=Check.of("max_words", n=9)),
        source_pair_ids=("p1", "p2", "p3"),
        observed_count=5,
        aliases=("Names a source",),
    )
    entry = bank_rubric(
        given,
        weight=float(np.float32(0.5)),
        activation_rate=0.1,
        support_count=2,
        example_prompts=["p9"] * 9,
        domains=DOMAINS,
    )
    assert candidate_of(entry) == given
    assert (entry.weight, entry.domain, entry.support_count, len(entry.example_prompts)) == (0.5, "code", 2, 5)


@pytest.mark.parametrize(
    ("pairs", "domain"),
    [(["p1", "p2", "p3"], "code"), (["p1", "p3"], ""), (["p9"], ""), ([], ""), (["p1", "p9"], "code")],
)
def test_a_domain_needs_more_than_half(pairs: list[str], domain: str) -> None:
    """Rubrics of several domains have none; pairs of unknown domain do not count."""
    assert main_domain(pairs, DOMAINS) == domain


def test_banks_become_one() -> None:
    """Near-identical rubrics merge, their importances averaged by count; the rest stays; equal settings survive."""
    shared = {"judge": "j", "licence": "l", "inference": InferenceSettings(filler_weight=0.25)}
    one = bank(("Names the river and its bridge", 0.25), ("Cites a source", 1.0), name="one", **shared)
    two = bank(("Names the river and also its bridge", 0.75), name="two", **shared)
    both = merge_banks([one, two])
    assert {entry.text: entry.weight for entry in both.rubrics} == {
        "Names the river and its bridge": 0.4375,
        "Cites a source": 0.5,
    }
    assert (both.selector_kind, both.judge, both.licence, both.name) == ("uniform", "j", "l", "one + two")
    assert both.inference.filler_weight == 0.25
    assert both.texts[0] == "Cites a source", "the heaviest first"
    assert merge_banks([one, one]).texts == tuple(sorted(one.texts, key=lambda text: text != "Cites a source"))


def test_banks_of_different_making_say_so() -> None:
    """What the banks do not share is left open."""
    both = merge_banks([bank(("Cites a source", 1.0), judge="a"), bank(("Names the river", 1.0), judge="b")])
    assert both.judge == ""
    assert "not fitted" in both.notes[0]


def test_a_diff_tells_gained_lost_reworded_and_reweighed() -> None:
    """Each rubric of either bank is in exactly one list; settings and metrics that differ are side by side."""
    first = bank(
        ("Names the river and its bridge", 0.5),
        ("Cites a source", 0.5),
        ("Uses at most 50 words in all", 0.5),
        dev_metrics={"accuracy": 0.5},
    )
    second = bank(
        ("Names the river and also its bridge", 0.75),
        ("Cites a source", 0.25),
        ("Uses at most 90 words in all", 0.5),
        dev_metrics={"accuracy": 0.75},
        inference=InferenceSettings(top_k=4),
    )
    found = diff_banks(first, second)
    assert [entry.text for entry in found.gained] == ["Uses at most 90 words in all"]
    assert [entry.text for entry in found.lost] == ["Uses at most 50 words in all"]
    assert [(one.text, two.text, two.weight - one.weight) for one, two in found.reworded] == [
        ("Names the river and its bridge", "Names the river and also its bridge", 0.25)
    ]
    assert [(one.text, two.weight - one.weight) for one, two in found.kept] == [("Cites a source", -0.25)]
    assert found.settings == {"dev.accuracy": (0.5, 0.75), "inference.top_k": (6, 4)}
    assert orjson.loads(orjson.dumps(found.to_json()))["settings"]["inference.top_k"] == [6, 4]


def test_a_bank_does_not_differ_from_itself() -> None:
    """Nothing gained, lost, reworded or set otherwise."""
    held = bank(("Cites a source", 0.5))
    found = diff_banks(held, held)
    assert not found.gained
    assert not found.lost
    assert not found.reworded
    assert not found.settings


def test_a_merged_bank_can_be_merged_again() -> None:
    """Candidates of a bank merge into themselves."""
    held = bank(("Cites a source", 0.5), ("Names the river", 0.5))
    assert {c.rubric.text for c in merge([candidate_of(entry) for entry in held.rubrics])} == set(held.texts)


def test_banks_whose_rubrics_weigh_all_the_same_become_one_by_how_active_the_rubrics_are() -> None:
    """A fit by topics leaves all weights equal; the rubrics that were used most come first, never the first by id."""
    texts = [f"Says a thing of kind {'abcdefgh'[number] * 9}" for number in range(8)]
    rates = (0.02, 0.3, 0.0, 0.11, 0.25, 0.07, 0.04, 0.2)
    rubrics = tuple(
        BankRubric(rubric=Rubric(text=text), weight=4.0, activation_rate=rate)
        for text, rate in zip(texts, rates, strict=True)
    )
    merged = merge_banks([RubricBank(rubrics=rubrics)])
    assert merged.texts == tuple(text for _, text in sorted(zip(rates, texts, strict=True), reverse=True))
    assert merged.rubrics[0].weight == pytest.approx(1.2)
    again = merge_banks([merged])
    assert again.texts == merged.texts


def test_a_bank_keeps_so_many_of_a_rubrics_source_pairs_that_it_can_be_read_again() -> None:
    """A rubric of a hundred thousand pairs names some of them; how often it was proposed and its domain are of all."""
    pairs = tuple(f"p{number:06}" for number in range(5000))
    given = Candidate(rubric=Rubric(text="Cites a source"), source_pair_ids=pairs, observed_count=5000)
    entry = bank_rubric(given, domains=dict.fromkeys(pairs[1500:], "code"))
    assert entry.source_pair_ids == pairs[:MAX_SOURCES]
    assert (entry.observed_count, entry.domain) == (5000, "code")
    assert len(merge_banks([RubricBank(rubrics=(entry,))]).rubrics[0].source_pair_ids) == MAX_SOURCES
