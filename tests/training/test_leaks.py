"""Which proposed rubrics are refused, and why."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from svr_async.core.pair import PreferencePair, user_prompt
from svr_async.core.rubric import MAX_RUBRIC_CHARS, Rubric
from svr_async.training.bank.leaks import Refusal, Source, refusal, screen, self_contained

PAIR = PreferencePair(
    id="p1",
    prompt=user_prompt("Please tell me in a few plain words how long the bread has to prove when it is cold outside."),
    chosen="In a cool room the dough wants ten hours, and in a warm one it wants no more than four or five.",
    rejected="Bread is nice. 在寒冷的房间里面团需要发酵十个小时左右才能达到理想的状态所以请耐心等待",
)

DEPENDENT = [
    "Is clearer than Response A",
    "As in response B, it lists the steps",
    "The other response leaves the steps out",
    "Unlike answer B it cites a source",
    "The first candidate is polite",
    "Matches the reference answer",
    "Both responses are polite",
    "Response 2 lists the steps",
    "Goes further than response 1.",
    "The chosen answer cites a source",
    "Is polite as described above",
    "In response_a the code runs",
    "RESPONSE A is longer",
    "Is as brief as Assistant B's reply",
    "Better than the alternative.",
    "The rejected response is rude",
    "Neither answer is complete",
]
STANDING_ALONE = [
    "States that the answer is B",
    "In response a user learns the price",
    "The response uses 2 examples",
    "Keeps the response 2 paragraphs long",
    "Compares both solutions",
    "A good response explains the reason",
    "Does the response provide two answers?",
    "Prefers option A over option B",
    "Explains the other approach to sorting",
    "Is as described in the prompt",
    "Gives the response time in milliseconds",
    "Uses the second approach of the prompt",
    "Explains the first and the second law",
]


@pytest.mark.parametrize("text", DEPENDENT)
def test_rubrics_about_the_pair_are_not_self_contained(text: str) -> None:
    """A rubric that points at another response cannot be judged elsewhere."""
    assert not self_contained(text)
    assert refusal(text) is Refusal.NOT_SELF_CONTAINED


@pytest.mark.parametrize("text", STANDING_ALONE)
def test_rubrics_that_only_sound_like_it_are_taken(text: str) -> None:
    """Options, user's answers and counts of responses are no reference to the pair."""
    assert self_contained(text)


@pytest.mark.parametrize("text", ["", "   ", "…?!", "\n\t-"])
def test_empty(text: str) -> None:
    """A text without a letter or digit says nothing."""
    assert refusal(text) is Refusal.EMPTY


def test_length() -> None:
    """The limit itself is allowed, one character more is not."""
    assert refusal("x" * MAX_RUBRIC_CHARS) is None
    assert refusal("x" * (MAX_RUBRIC_CHARS + 1)) is Refusal.TOO_LONG


def test_thirteen_words_of_a_response_or_of_the_prompt_are_a_quote() -> None:
    """Twelve words in a row are allowed, thirteen are not, whatever their case and punctuation."""
    source = Source.of(PAIR, ["one two three four five six seven eight nine ten eleven twelve thirteen fourteen"])
    words = ["In", "a", "cool", "room,", "THE", "DOUGH", "wants", "ten", "hours", "and", "in", "a"]
    assert refusal("Says that " + " ".join(words), source) is None
    assert refusal("Says that " + " ".join([*words, "warm"]), source) is Refusal.QUOTES_RESPONSE
    asked = "tells in a few plain words how long the bread has to prove when it"
    assert refusal(asked, source) is Refusal.QUOTES_PROMPT
    assert refusal("Counts one two three four five six seven eight nine ten eleven twelve thirteen", source) is (
        Refusal.QUOTES_RESPONSE
    )


def test_scripts_without_spaces_are_counted_by_characters() -> None:
    """Twenty-six characters of Chinese are thirteen words; a term of twelve characters is none."""
    source = Source.of(PAIR)
    assert refusal("说明面团需要发酵十个小时左右", source) is None
    assert refusal("说明在寒冷的房间里面团需要发酵十个小时左右才能达到理想的状态", source) is Refusal.QUOTES_RESPONSE


def test_screening_counts_every_reason() -> None:
    """What is taken stays in order; what is refused is counted by reason."""
    proposed = [
        "Names the time that the dough needs",
        "The other response is rude",
        "Both responses are rude",
        "x" * 600,
    ]
    found = screen([Rubric(text=text) for text in proposed], PAIR)
    assert [rubric.text for rubric in found.taken] == proposed[:1]
    assert found.refused == Counter({"not_self_contained": 2, "too_long": 1})


@given(before=st.lists(st.sampled_from("abcdefg"), max_size=6), start=st.integers(0, 7), after=st.integers(0, 3))
@settings(deadline=None)
def test_any_thirteen_words_in_a_row_are_found(before: list[str], start: int, after: int) -> None:
    """Wherever the quote begins in the response and in the rubric, it is found."""
    words = PAIR.chosen.split()
    text = " ".join([*before, *words[start : start + 13], *"xyz"[:after]])
    assert refusal(text, Source.of(PAIR)) is Refusal.QUOTES_RESPONSE


@given(text=st.text(max_size=120))
@settings(deadline=None)
def test_any_text_gets_an_answer(text: str) -> None:
    """Whatever is proposed, the answer is a reason or none."""
    assert refusal(text, Source.of(PAIR)) in {None, *Refusal}
