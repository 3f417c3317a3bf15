"""How near-identical rubrics are distinguished, and their content words."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rubric_texts import rubric_texts

from svr_async.core.rubric import Check, Rubric
from svr_async.training.bank.criteria import checks_differ, differ, rubric_words
from svr_async.training.bank.lint import opposed

DIFFERENT = [
    ("Uses at most 50 words", "Uses at most 100 words", "numbers"),
    ("Gives three examples", "Gives four examples", "numbers"),
    ("Costs 3.5 euros", "Costs 35 euros", "numbers"),
    ("Names the first step", "Names the second step", "numbers"),
    ("Gives 2 reasons and 3 examples", "Gives 3 reasons and 2 examples", "numbers"),
    ('Says "yes" at the start', 'Says "no" at the start', "quoted words"),
    ("Calls `map` on the list", "Calls `zip` on the list", "quoted words"),
    ("Begins with ‘Dear’ and a name", "Begins with ‘Hello’ and a name", "quoted words"),
    ("Uses bullet points", "Does not use bullet points", "negation"),
    ("Contains links", "Doesn't contain links", "negation"),
    ("Explains it with jargon", "Explains it without jargon", "negation"),
    ("Uses at least 5 words", "Uses at most 5 words", "opposite words"),
    ("Puts the answer before the reasons", "Puts the answer after the reasons", "opposite words"),
    ("Is consistent throughout", "Is inconsistent throughout", "opposite words"),
    ("Keeps a formal tone", "Keeps an informal tone", "opposite words"),
    ("Includes the source", "Excludes the source", "negation"),
    ("Writes the example in Python", "Writes the example in Haskell", "names"),
    ("Gives the reasons rather than examples", "Gives the examples rather than reasons", "order"),
    ("Converts miles to metres", "Converts metres to miles", "order"),
    ("Explains the limits of tide tables", "Explains the limits of rain gauges", "content words"),
    ("Names the wide river and its bridge", "Names the river and its stone bridge", "content words"),
    ("Is concise", "The response is helpful", "content words"),
]
ALIKE = [
    ("Uses at most 50 words", "The response uses at most fifty words"),
    ("Is clear and concise", "Is concise and clear"),
    ("Explains the main steps", "Clearly explains the main steps"),
    ("Gives an example in Python", "The response gives a Python example"),
    ("The user's question is answered", "The users question is answered"),
    ("Does not use bullet points", "Never uses bullet points"),
    ("Puts the answer before the reasons", "The answer is put before all of the reasons"),
    ("Names the river and its bridge", "Names the river and its stone bridge"),
    ("Lists the steps of baking", "The response clearly lists each step of baking"),
    ("Includes two examples of joins", "Provides two examples of the joins"),
]


@pytest.mark.parametrize(("first", "second", "reason"), DIFFERENT)
def test_different_criteria_are_told_apart(first: str, second: str, reason: str) -> None:
    """Texts that read almost alike and ask for something else are different, and it is said why, both ways."""
    assert differ(first, second) == reason
    assert differ(second, first) == reason


@pytest.mark.parametrize(("first", "second"), ALIKE)
def test_the_same_criterion_in_other_words_is_not(first: str, second: str) -> None:
    """Order of qualities, praise, words for numbers, a plural, or words more on one side make no other criterion."""
    assert differ(first, second) == ""
    assert differ(second, first) == ""


@given(texts=st.lists(st.one_of(st.sampled_from(rubric_texts(60)), st.text(max_size=80)), min_size=2, max_size=2))
@settings(deadline=None)
def test_symmetric(texts: list[str]) -> None:
    """Of any two texts the order does not matter, and a text never differs from itself."""
    first, second = texts
    assert differ(first, second) == differ(second, first)
    assert differ(first, first) == ""


def test_checks_differ_only_where_both_have_one() -> None:
    """A rubric without a check may be the same criterion as one with."""
    few, many = Check.of("max_words", n=50), Check.of("max_words", n=100)
    assert checks_differ(few, many)
    assert not checks_differ(few, None)
    assert not checks_differ(few, Check.of("max_words", n=50))


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("Uses bullet points for the steps", "Does not use bullet points for the steps", True),
        ("Uses bullet points for the steps", "Avoids bullet points for the steps", True),
        ("Keeps a formal tone", "Keeps an informal tone", True),
        ("The response is brief", "The response is detailed", True),
        ("Must include links", "Must not include links", True),
        ("Uses bullet points", "Uses numbered lists", False),
        ("Uses at most 50 words", "Uses at least 20 words", False),
        ("Is not formal", "Is informal", False),
        ("Cites a source", "Cites a source", False),
        ("Avoids jargon", "Explains each step", False),
    ],
)
def test_opposed_texts(first: str, second: str, expected: bool) -> None:
    """One asks for what the other forbids; different, equal and doubly negated criteria are no contradiction."""
    assert opposed(Rubric(text=first), Rubric(text=second)) is expected
    assert opposed(Rubric(text=second), Rubric(text=first)) is expected


def test_rubrics_share_the_numbers_of_the_words_that_they_share() -> None:
    """Stopwords, names for the response and negations do not count; plural and singular are one; no text, no words."""
    texts = ["The response cites a source.", "Names the sources of each figure.", "The answer must not be.", ""]
    borders, words = rubric_words(texts)
    rows = [set(words[first:last].tolist()) for first, last in pairwise(borders)]
    assert len(rows[0] & rows[1]) == 1
    assert len(rows[0]) == 2
    assert rows[2] == rows[3] == set()
    assert rubric_words([])[0].tolist() == [0]
