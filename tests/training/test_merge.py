"""Merging candidates: which become one, which never do, what is kept; candidates as rubrics of a bank."""

import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rubric_texts import rubric_texts

from svr_async.core.rubric import Check, Rubric, rubric_id
from svr_async.core.similarity import similarity
from svr_async.scoring.bank import MAX_NOTE_CHARS, MAX_SOURCES, BankRubric, RubricBank
from svr_async.training.bank.criteria import checks_differ, differ
from svr_async.training.bank.edit import merge_banks
from svr_async.training.bank.merge import bank_rubric, main_domain, merge, without

FEW, MANY = Check.of("max_words", n=50), Check.of("max_words", n=100)


def candidate(text: str, *sources: str, count: int = 1, aliases: tuple[str, ...] = (), **fields: Any) -> BankRubric:
    """Return a candidate with this text."""
    rubric = Rubric(text=text, **fields)
    return BankRubric(rubric=rubric, source_pair_ids=sources, observed_count=count, aliases=aliases)


def texts(merged: tuple[BankRubric, ...]) -> list[str]:
    """Return the texts of merged candidates."""
    return [one.rubric.text for one in merged]


@st.composite
def candidates(draw: st.DrawFn) -> list[BankRubric]:
    """Draw candidates with near-identical texts, and checks, counts and sources of all kinds."""
    pool = rubric_texts(40, seed=draw(st.integers(0, 5)), near=0.7)
    rows = draw(st.lists(st.tuples(st.sampled_from(pool), st.integers(1, 4), st.integers(0, 9)), max_size=20))
    checks = st.sampled_from([None, None, FEW, MANY])
    return [
        candidate(
            text, f"p{source}", count=count, check=draw(checks), facet=draw(st.sampled_from(["", "style", "format"]))
        )
        for text, count, source in rows
    ]


@given(given_=candidates(), seed=st.integers(0, 99))
@settings(deadline=None, max_examples=80)
def test_order_does_not_matter_and_merging_again_changes_nothing(given_: list[BankRubric], seed: int) -> None:
    """The result is the same for the candidates in any order, and is its own result."""
    merged = merge(given_, cap=None)
    shuffled = random.Random(seed).sample(given_, len(given_))
    assert merge(shuffled, cap=None) == merged
    assert merge(merged, cap=None) == merged


@given(given_=candidates())
@settings(deadline=None, max_examples=80)
def test_nothing_is_lost_and_different_criteria_stay_apart(given_: list[BankRubric]) -> None:
    """Counts, sources and texts add up; no group holds two texts or checks that differ; no two results could merge."""
    merged = merge(given_, cap=None)
    assert sum(one.observed_count for one in merged) == sum(one.observed_count for one in given_)
    assert {pair for one in merged for pair in one.source_pair_ids} == {
        p for one in given_ for p in one.source_pair_ids
    }
    ids = [rubric_id(text) for one in merged for text in one.texts]
    assert sorted(ids) == sorted({one.rubric.id for one in given_})
    for one in merged:
        assert not any(differ(a, b) for a in one.texts for b in one.texts)
    assert not any(_could_merge(a, b) for a in merged for b in merged if a is not b)


def _could_merge(a: BankRubric, b: BankRubric) -> bool:
    if similarity(a.rubric.text, b.rubric.text) < 0.88 or checks_differ(a.rubric.check, b.rubric.check):
        return False
    return not any(differ(x, y) for x in a.texts for y in b.texts)


def test_near_identical_texts_become_one_and_keep_what_they_knew() -> None:
    """Counts and sources add up, the stronger importance and the majority's facet win, other texts become aliases."""
    merged = merge(
        [
            candidate("The response cites a source for each figure", "p1", importance="minor", facet="grounding"),
            candidate("The response cites a source for each figure.", "p2", importance="major", facet="grounding"),
            candidate("The response cites one clear source for each figure", "p3", facet="style"),
            candidate("The response cites a clear source for each figure", "p4", "p1", count=2, importance="critical"),
        ]
    )
    assert len(merged) == 2, "the number one is a number"
    first = merged[0]
    assert (first.observed_count, first.source_pair_ids) == (4, ("p1", "p2", "p4"))
    assert (first.rubric.importance, first.rubric.facet) == ("critical", "grounding")
    assert set(first.texts) == {
        "The response cites a source for each figure",
        "The response cites a source for each figure.",
        "The response cites a clear source for each figure",
    }


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("The response uses at most 50 words in total", "The response uses at most 100 words in total"),
        ("The response uses at least 50 words in total", "The response uses at most 50 words in total"),
        ('The response begins with the word "yes" and a comma', 'The response begins with the word "no" and a comma'),
        ("The response uses bullet points for its steps", "The response does not use bullet points for its steps"),
        ("The example of the response is written in Python", "The example of the response is written in Perl"),
        ("The response names the limits of tide tables", "The response names the limits of tide charts"),
    ],
)
def test_texts_that_differ_in_what_counts_never_merge(first: str, second: str) -> None:
    """Near-identical texts with other numbers, quotes, negation, direction, names or things stay two rubrics."""
    assert similarity(first, second) >= 0.85
    assert len(merge([candidate(first), candidate(second)], cutoff=0.8)) == 2


def test_what_the_answer_is_called_makes_no_other_criterion() -> None:
    """Rubrics of "the answer", of "a good response" and of "the reply" that say the same are one."""
    heads = ["The response", "The answer", "A good response", "The reply clearly"]
    same = [
        candidate(f"{head} names the step that was left out.", f"p{n}", count=5 - n) for n, head in enumerate(heads)
    ]
    other = candidate("The answer names the step that was done twice.", "p9")
    merged = merge([*same, other])
    assert texts(merged) == ["The response names the step that was left out.", other.rubric.text]
    assert merged[0].observed_count == 5 + 4 + 3 + 2
    assert set(merged[0].texts) == {one.rubric.text for one in same}
    assert len(merge(same, by_text_alone=True)) > 1, "the paper goes by similarity alone"


def test_different_checks_never_merge_and_one_check_is_kept() -> None:
    """Two checks keep two rubrics apart; a check and none become one rubric, worded as the one with the check."""
    few = candidate("The response stays quite short throughout", check=FEW)
    many = candidate("The response stays rather short throughout", check=MANY)
    plain = candidate("The response stays short throughout", count=5)
    assert len(merge([few, many], cutoff=0.8)) == 2
    merged = merge([few, plain], cutoff=0.8)
    assert [(one.rubric.text, one.rubric.check) for one in merged] == [(few.rubric.text, FEW)]


def test_a_text_with_two_checks_keeps_none() -> None:
    """Where the same text came with different checks, no check can be trusted: a judge decides."""
    merged = merge([candidate("Is short enough", check=FEW), candidate("is short  enough", check=MANY)])
    assert [one.rubric.check for one in merged] == [None]
    assert merged[0].aliases == ()


def test_two_that_exclude_each_other_do_not_meet_in_a_third() -> None:
    """Each is near the plain text, but one group never holds both."""
    merged = merge(
        [
            candidate("The response is more concise in each of its paragraphs"),
            candidate("The response is less concise in each of its paragraphs"),
            candidate("The response is concise in each of its paragraphs", count=9),
        ],
        cutoff=0.8,
    )
    assert len(merged) == 2
    assert not any({"more", "less"} <= set(" ".join(one.texts).split()) for one in merged)


def test_the_most_central_text_is_kept() -> None:
    """Of several wordings the one nearest to all others stays, not the first, the longest or the most frequent."""
    centre = "The answer names the river and the bridge over it"
    merged = merge(
        [
            candidate("The answer clearly names the river and the bridge over it", count=3),
            candidate("The answer names the river and explicitly the bridge over it"),
            candidate("The good answer names the river and the bridge over it"),
            candidate(centre),
        ]
    )
    assert texts(merged) == [centre]


def test_texts_with_a_content_word_each_do_not_meet_in_one_without() -> None:
    """Both may join the plain text alone; the first that does keeps the other out, unless texts alone decide."""
    rows = [
        candidate("The answer names the river and the bridge over it", count=9),
        candidate("The answer names the river and the stone bridge over it", count=2),
        candidate("The answer names the wide river and the bridge over it"),
    ]
    assert [one.observed_count for one in merge(rows)] == [11, 1]
    assert [one.observed_count for one in merge(rows, by_text_alone=True)] == [12]


def test_the_cap_keeps_the_most_observed_with_stable_ties() -> None:
    """The cap drops the least observed; ties go to more sources, then the shorter, then the alphabet."""
    rows = [
        candidate("Names the author", "p1", count=2),
        candidate("Cites a source", "p1", "p2", count=2),
        candidate("Is polite to the user", "p1", count=2),
        candidate("Gives the date", "p1", count=1),
    ]
    for seed in range(5):
        shuffled = random.Random(seed).sample(rows, len(rows))
        assert texts(merge(shuffled, cap=3)) == ["Cites a source", "Names the author", "Is polite to the user"]


def test_an_alias_that_is_a_rubric_of_its_own_is_counted_once() -> None:
    """Where one candidate's alias is another's text, the text is its own rubric and may merge as any other."""
    first = candidate("Names the river", aliases=("Cites the law of the land",))
    merged = merge([first, candidate("Cites the law of the land")])
    assert sorted(texts(merged)) == ["Cites the law of the land", "Names the river"]
    assert all(one.aliases == () for one in merged)


def test_nothing_gives_nothing() -> None:
    """No candidates, no rubrics."""
    assert merge([]) == ()


def test_what_was_pruned_does_not_come_back() -> None:
    """A pruned rubric takes all of its wordings along, whatever their case."""
    pruned = candidate("Names the river", aliases=("Names the great river",))
    rows = [candidate("names the RIVER"), candidate("Names the great river"), candidate("Cites a source")]
    assert texts(without(rows, [pruned])) == ["Cites a source"]


# ── candidates as rubrics of a bank ──

DOMAINS = {"p1": "code", "p2": "code", "p3": "chat", "p4": "chat"}


def test_the_results_of_a_fit_are_added_to_a_candidate() -> None:
    """All that the candidate knew is kept; the fit's facts are added."""
    given = BankRubric(
        rubric=Rubric(text="Cites a source", check=Check.of("max_words", n=9)),
        source_pair_ids=("p1", "p2", "p3"),
        observed_count=5,
        aliases=("Names a source",),
    )
    long = "x" * (MAX_NOTE_CHARS + 1)
    entry = bank_rubric(replace(given, aliases=(long, *given.aliases)), weight=0.5, support_count=2)
    assert entry == replace(given, weight=0.5, support_count=2)


@pytest.mark.parametrize(
    ("pairs", "domain"),
    [(["p1", "p2", "p3"], "code"), (["p1", "p3"], ""), (["p9"], ""), ([], ""), (["p1", "p9"], "code")],
)
def test_a_domain_needs_more_than_half(pairs: list[str], domain: str) -> None:
    """Rubrics of several domains have none; pairs of unknown domain do not count."""
    assert main_domain(pairs, DOMAINS) == domain


def test_a_bank_keeps_some_source_pairs_of_a_frequent_rubric() -> None:
    """A rubric of a hundred thousand pairs names some of them; how often it was proposed and its domain are of all."""
    pairs = tuple(f"p{number:06}" for number in range(5000))
    given = BankRubric(rubric=Rubric(text="Cites a source"), source_pair_ids=pairs, observed_count=5000)
    entry = bank_rubric(given, domain=main_domain(pairs, dict.fromkeys(pairs[1500:], "code")))
    assert entry.source_pair_ids == pairs[:MAX_SOURCES]
    assert (entry.observed_count, entry.domain) == (5000, "code")
    assert len(merge_banks([RubricBank(rubrics=(entry,))]).rubrics[0].source_pair_ids) == MAX_SOURCES
