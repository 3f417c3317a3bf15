"""The defects that a check of a bank reports."""

from typing import Any

import pytest

from svr_async.core.rubric import Check, Rubric
from svr_async.scoring.bank import BankRubric
from svr_async.training.bank.lint import ADVICE, double_barrelled, lint, specifics, vague_words


def entry(text: str, *, check: Check | None = None, **fields: Any) -> BankRubric:
    """Return a rubric that is active and was seen often, unless said otherwise."""
    fields = {"activation_rate": 0.01, "observed_count": 9, **fields}
    return BankRubric(rubric=Rubric(text=text, check=check), **fields)


def kinds(*entries: BankRubric) -> list[tuple[str, int]]:
    """Return (kind, place of the rubric) of every finding."""
    place = {one.id: number for number, one in enumerate(entries)}
    return [(finding.kind, place[finding.rubric_id]) for finding in lint(entries)]


@pytest.mark.parametrize(
    "text",
    [
        "The response is good",
        "The response is of high quality",
        "Is the answer helpful and of good quality?",
        "Uses an appropriate format",
        "The response is overall excellent",
        "Does the response provide adequate content?",
    ],
)
def test_vague(text: str) -> None:
    """A text that says only that something is good gives a judge nothing to look for."""
    assert vague_words(text)
    assert ("vague", 0) in kinds(entry(text))


@pytest.mark.parametrize(
    "text",
    [
        "Uses appropriate SI units for each quantity",
        "Names a good reason for the price of the ticket",
        "Cites a source",
        "Refuses politely and offers a phone number",
    ],
)
def test_not_vague(text: str) -> None:
    """A vague word next to something to look for is fine."""
    assert vague_words(text) == ""


@pytest.mark.parametrize(
    "text",
    [
        "The response cites a source and stays polite throughout",
        "Is accurate, and does not repeat itself in the end",
        "Does the response explain the rule and name the exception to it?",
        "The response is clear and concise",
        "Is short, polite and friendly",
        "Lists the steps; explains each of them",
    ],
)
def test_double_barrelled(text: str) -> None:
    """Two criteria in one: a response can satisfy one half and fail the other."""
    assert double_barrelled(text)


@pytest.mark.parametrize(
    "text",
    [
        "Names the salt and the pepper",
        "Compares trains and buses by price",
        "Explains the rule in words and numbers",
        "Is written in French",
        "Converts miles or yards to metres",
    ],
)
def test_not_double_barrelled(text: str) -> None:
    """An "and" between things is one criterion."""
    assert not double_barrelled(text)


def test_contradictions_need_two_weights() -> None:
    """Opposite rubrics, or inverse checks, are found where both weigh something."""
    uses, avoids = entry("Uses bullet points for its steps"), entry("Does not use bullet points for its steps")
    assert kinds(uses, avoids) == [("contradiction", 0)]
    assert kinds(uses, entry("Does not use bullet points for its steps", weight=0.0)) == []
    few = entry("Is short", check=Check.of("max_words", n=50))
    long = entry("Has much to tell", check=Check.of("min_words", n=51))
    assert kinds(few, long) == [("contradiction", 0)]
    assert kinds(few, entry("Has much to tell", check=Check.of("min_words", n=20))) == []
    assert kinds(entry("Keeps a formal tone"), entry("Keeps an informal tone")) == [("contradiction", 0)]


def test_duplicates_are_those_that_merging_would_join() -> None:
    """Two wordings of one criterion are found; two criteria in like words are not."""
    found = lint([entry("Names the river and its bridge"), entry("Names the river and also its bridge")])
    assert [finding.kind for finding in found] == ["duplicate"]
    assert "Names the river and also its bridge" in found[0].detail
    assert found[0].other_id == entry("Names the river and also its bridge").id
    assert kinds(entry("Uses at most 50 words in all"), entry("Uses at most 90 words in all")) == []


def test_never_active_is_reported_only_for_a_trained_bank() -> None:
    """A rubric that no prompt selects is found where others are selected."""
    assert kinds(entry("Cites a source"), entry("Names the river", activation_rate=0.0)) == [("never_active", 1)]
    assert kinds(entry("Names the river", activation_rate=0.0)) == []


@pytest.mark.parametrize(
    ("text", "detail"),
    [
        ('Says "good morning" first', '"good morning"'),
        ("Explains why Ada left London", "ada, london"),
        ("Gives 1,024 as the answer", "1,0"),
        ("Gives p = 6·q as the probability", "6·"),
        ("Explains why she left", ""),
        ("Gives 3 examples", ""),
    ],
)
def test_too_specific(text: str, detail: str) -> None:
    """Quotes, names, long numbers and formulas tie a rubric to one response, unless it was seen often."""
    assert specifics(text) == detail
    assert kinds(entry(text, observed_count=1)) == ([("too_specific", 0)] if detail else [])
    assert kinds(entry(text)) == []


def test_long_dependent_and_broken() -> None:
    """Texts above 40 words, texts about another response, and checks that no program knows are found."""
    assert kinds(entry("Names " + "the river " * 20)) == [("too_long", 0)]
    assert kinds(entry("Is shorter than the other response")) == [("not_self_contained", 0)]
    assert kinds(entry("Is short", check=Check.of("no_such_check"))) == [("broken_check", 0)]
    assert kinds(entry("Is good", check=Check.of("max_words", n=50))) == []


def test_findings_are_ordered_and_say_what_to_do() -> None:
    """By rubric in the bank's order, each with its advice."""
    found = lint(
        [entry("Cites a source"), entry("Is good"), entry("Is clear and concise"), entry("The answer is fine")]
    )
    assert [(finding.kind, finding.advice) for finding in found] == [
        (kind, ADVICE[kind]) for kind in ("vague", "double_barrelled", "vague")
    ]
    assert lint([]) == ()
