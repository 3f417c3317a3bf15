"""Support pairs, probes, the data's own alternatives and hard negatives."""

from dataclasses import replace

import numpy as np
import pytest

from svr_async.core.pair import PreferencePair, user_prompt
from svr_async.training.rounds.boundary import (
    alternatives,
    hard_negatives,
    most_support,
    probed_pair,
    random_rows,
    support_rows,
    usable_probe,
)
from svr_async.training.rounds.session import HardNegative

TEXT = "Cut the bread first. Then warm the pan for two minutes. Put the cheese between the slices and fry both sides."


def pair(
    name: str = "p", chosen: str = TEXT, rejected: str = "no", prompt: str = "How do I make a toastie?"
) -> PreferencePair:
    """Return a pair."""
    return PreferencePair(id=name, prompt=user_prompt(prompt), chosen=chosen, rejected=rejected)


def test_support_rows_are_the_hardest_first_with_ties_in_row_order_and_at_most_so_many() -> None:
    """A margin on the limit counts; rows without an entry have none; the list is cut after sorting."""
    margins = np.array([0.5, 0.2, -1.0, 0.0, 0.0, -1.0, 0.21, -9.0], np.float32)
    known = np.array([1, 1, 1, 1, 1, 1, 1, 0], bool)
    assert support_rows(margins, known, margin=float(np.float32(0.2)), most=99) == [2, 5, 3, 4, 1]
    assert support_rows(margins, known, margin=float(np.float32(0.2)), most=3) == [2, 5, 3]
    assert support_rows(margins, known, margin=-5.0, most=3) == []
    assert support_rows(margins[:0], known[:0], margin=1.0, most=3) == []


def test_pairs_of_the_kind_that_fails_most_often_come_first() -> None:
    """A pair of a kind that mostly fails is probed before a harder one of a kind that mostly does not."""
    margins = np.array([-9.0, 3.0, 3.0, 3.0, 0.1, -0.1, 3.0], np.float32)
    kinds = np.array([[1, 0]] * 4 + [[0, 1]] * 3, np.float32)
    rows = support_rows(margins, np.ones(7, bool), margin=0.2, most=9, shares=kinds)
    assert rows == [5, 4, 0]
    assert support_rows(margins, np.ones(7, bool), margin=0.2, most=1, shares=kinds) == [5]


def test_random_rows_are_drawn_by_pair_id_and_round() -> None:
    """As many as asked for, the same in every run, others in another round."""
    pairs = [pair(str(number)) for number in range(40)]
    first = random_rows(pairs, 10, round_number=1)
    assert len(set(first)) == 10
    assert first == random_rows(pairs, 10, round_number=1) != random_rows(pairs, 10, round_number=2)
    backwards = random_rows(pairs[::-1], 10, round_number=1)
    assert [39 - row for row in backwards] == first


@pytest.mark.parametrize(
    "probe",
    [
        "",
        " \n\t",
        TEXT,
        TEXT + "\n",
        "  " + TEXT,
        TEXT.replace("two", "Two"),
        TEXT.replace("sides", "side"),
        "I'm sorry, but I can't help with that.",
        TEXT.replace(". ", "! "),
        TEXT.replace(" ", "  "),
        TEXT.removesuffix(".") + "!!",
    ],
    ids=["empty", "blank", "same", "newline", "indent", "case", "near", "refusal", "marks", "spaces", "end"],
)
def test_a_probe_that_is_no_other_response_is_discarded(probe: str) -> None:
    """None, nothing, a refusal, the chosen response again or one nearly like it."""
    assert not usable_probe(pair(), probe, same=0.98)


def test_a_probe_that_is_worse_is_used() -> None:
    """Half of the response, another one, and damage that a bracket, an operator or the end of a long text shows."""
    assert usable_probe(pair(), TEXT[:60], same=0.98)
    assert usable_probe(pair(), "Ask somebody who can cook, and do as they say, step by step.", same=0.98)
    code = "```python\nprint(sum([1, 2]))\n```"
    assert usable_probe(pair(chosen=code), code.replace("]))", "])"), same=0.98)
    assert usable_probe(pair(chosen="return a + b"), "return a - b", same=0.98)
    assert usable_probe(pair(chosen="word " * 1200 + "is safe"), "word " * 1200 + "no safe", same=0.98)


def test_a_probed_pair_is_a_pair_of_its_own() -> None:
    """Its id names pair and round; prompt and chosen response stay."""
    made = probed_pair(replace(pair(), chosen_first=False), "worse", round_number=2)
    assert (made.id, made.rejected, made.chosen, made.prompt) == ("p~probe2", "worse", TEXT, pair().prompt)


def test_alternatives_are_other_rejected_responses_to_the_same_prompt_and_chosen_response() -> None:
    """Other prompts, other chosen responses, and the same rejected one are not among them."""
    pairs = [
        pair("a", rejected="x"),
        pair("b", rejected="y"),
        pair("c", rejected="x"),
        pair("d", rejected="y", chosen="else"),
        pair("e", rejected="y", prompt="else"),
    ]
    found = {name: [other.id for other in others] for name, others in alternatives(pairs).items()}
    assert found == {"a": ["b"], "b": ["a", "c"], "c": ["b"]}


def test_the_hardest_candidate_is_the_negative_unless_it_is_the_pair_itself() -> None:
    """The smallest margin wins, ties go to the earlier, so to the pair."""
    original, other, third = pair("a"), pair("b"), pair("c")
    assert hard_negatives(original, []) == []
    assert hard_negatives(original, [(original, 0.5), (other, 0.5)]) == []
    assert hard_negatives(original, [(original, 0.1), (other, 0.5)]) == []
    expected = HardNegative(pair=other, of="a")
    assert hard_negatives(original, [(original, 0.5), (other, -0.5), (third, -0.5)]) == [expected]


def test_every_candidate_near_the_boundary_is_a_negative_even_where_the_pair_is_harder() -> None:
    """A pair that is decided wrongly keeps its near copies; what is decided clearly is none."""
    original, other, third = pair("a"), pair("b"), pair("c")
    found = hard_negatives(original, [(original, -3.0), (other, 0.2), (third, 0.3)], margin=0.2)
    assert found == [HardNegative(pair=other, of="a")]


def test_support_pairs_are_a_share_within_bounds() -> None:
    """A tenth of the pairs, up to the paper's 1,024, and 64 where that is more."""
    wanted = {10: 64, 640: 64, 650: 65, 2_850: 285, 10_240: 1_024, 36_591: 1_024}
    assert {n: most_support(n, share=0.1, most=1_024) for n in wanted} == wanted
    assert most_support(50_000, share=1.0, most=1_024) == 1_024
