"""Runs of 13 words that texts share: refused rubrics, and training pairs that overlap with a benchmark."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from svr_async.core.pair import PreferencePair, prompt_text, user_prompt
from svr_async.core.rubric import MAX_RUBRIC_CHARS, Rubric
from svr_async.training.bank.overlap import find_contaminated, refusal, runs_of, screen, self_contained

PAIR = PreferencePair(
    id="p1",
    prompt=user_prompt("Please tell me in a few plain words how long the bread has to prove when it is cold outside."),
    chosen="In a cool room the dough wants ten hours, and in a warm one it wants no more than four or five.",
    rejected="Bread is nice. 在寒冷的房间里面团需要发酵十个小时左右才能达到理想的状态所以请耐心等待",
)
RUNS = (
    frozenset(runs_of(prompt_text(PAIR.prompt))),
    frozenset((*runs_of(PAIR.chosen), *runs_of(PAIR.rejected))),
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
    assert refusal(text) == "not_self_contained"


@pytest.mark.parametrize("text", STANDING_ALONE)
def test_rubrics_that_only_sound_like_it_are_taken(text: str) -> None:
    """Options, user's answers and counts of responses are no reference to the pair."""
    assert self_contained(text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "empty"),
        ("…?!", "empty"),
        ("\n\t-", "empty"),
        ("x" * MAX_RUBRIC_CHARS, ""),
        ("x" * (MAX_RUBRIC_CHARS + 1), "too_long"),
        ("Says that In a cool room, THE DOUGH wants ten hours, and in a", ""),
        ("Says that In a cool room, THE DOUGH wants ten hours, and in a warm", "quotes_response"),
        ("tells in a few plain words how long the bread has to prove when it", "quotes_prompt"),
        ("说明面团需要发酵十个小时左右", ""),
        ("说明在寒冷的房间里面团需要发酵十个小时左右才能达到理想的状态", "quotes_response"),
    ],
)
def test_what_is_refused(text: str, reason: str) -> None:
    """No text, a long text, and 13 words of the pair (26 characters of Chinese), in any case and punctuation."""
    assert refusal(text, *RUNS) == reason
    assert len(screen([Rubric(text=text)] if text.strip() else [], PAIR)) == (not reason)


@given(before=st.lists(st.sampled_from("abcdefg"), max_size=6), start=st.integers(0, 7), after=st.integers(0, 3))
@settings(deadline=None)
def test_any_thirteen_words_in_a_row_are_found(before: list[str], start: int, after: int) -> None:
    """Wherever the quote begins in the response and in the rubric, it is found."""
    words = PAIR.chosen.split()
    text = " ".join([*before, *words[start : start + 13], *"xyz"[:after]])
    assert refusal(text, *RUNS) == "quotes_response"


@given(text=st.text(max_size=120))
@settings(deadline=None)
def test_any_text_gets_an_answer(text: str) -> None:
    """No text makes the check fail."""
    assert isinstance(refusal(text, *RUNS), str)


# ── training pairs and benchmarks ───────────────────────────────────────────────────────────────────────────────────

WORDS = "seven grey herons stood by the café and watched how Tom's ferry left for its island"
RUN = " ".join(WORDS.split()[:13])
SIX, FIVE = "What does a lighthouse keeper do", "What does a lighthouse do"


def pair(
    name: str = "t", prompt: str = "Say something.", chosen: str = "One.", rejected: str = "Two."
) -> PreferencePair:
    """Return a pair."""
    return PreferencePair(id=name, prompt=user_prompt(prompt), chosen=chosen, rejected=rejected)


BENCH = [("bench", [pair("item-1", "Nothing of the kind here at all, only other words."), pair("item-2", WORDS)])]


@pytest.mark.parametrize("field", ["prompt", "chosen", "rejected"])
def test_a_run_of_thirteen_words_is_found_in_prompt_and_responses(field: str) -> None:
    """In the middle of a longer text too; the hit names pair, benchmark and item."""
    hits = find_contaminated([pair("clean"), pair("dirty", **{field: f"It began: {RUN}, and so on it went."})], BENCH)
    assert hits == [{"pair": "dirty", "benchmark": "bench", "item": "item-2"}]


@pytest.mark.parametrize(
    "spelled",
    [
        WORDS.upper(),
        WORDS.replace("é", "e\u0301"),
        WORDS.replace("é", "&eacute;").replace("'", "&#39;"),
        WORDS.replace(" ", " – ").replace("by", "**by**").replace("left", "_left_"),
        "".join(chr(ord(c) + 0xFEE0) if c.isascii() and c.isalpha() else c for c in WORDS),
    ],
    ids=["case", "combining", "entities", "punctuation", "wide"],
)
def test_spelling_does_not_hide_a_run(spelled: str) -> None:
    """Case, combining marks, HTML entities, punctuation and wide letters are folded on both sides."""
    assert len(find_contaminated([pair(prompt=spelled)], BENCH)) == 1
    assert len(find_contaminated([pair(prompt=WORDS)], [("b", [pair("i", chosen=spelled)])])) == 1


CHINESE = "请说明为什么潮汐在海湾里比在开阔的海面上更高并举一个例子"
MIXED = "请说明为什么 SuperTide 在海湾里比在 open sea 更高并举一个例子"
JAPANESE = "みずうみのほとりにすむ漁師はなぜ朝早く舟を出すのですか"
THAI = "เหตุใดน้ำขึ้นน้ำลงในอ่าวจึงสูงกว่าในทะเลเปิด"


@pytest.mark.parametrize(
    ("text", "item", "hits"),
    [
        (f"x {' '.join(WORDS.split()[:11])} y", WORDS, 0),
        (RUN.replace("café", "inn"), WORDS, 0),
        (f"{SIX}?", SIX.upper(), 1),
        (FIVE, FIVE, 0),
        ("", "", 0),
        *((f"短简{text}短简", text, 1) for text in (CHINESE, JAPANESE, THAI, MIXED)),
        (f"{CHINESE[:12]}短简", CHINESE, 0),
        ("สวัสดีครับ", "สวัสดีครับ", 0),
    ],
)
def test_what_a_run_is(text: str, item: str, hits: int) -> None:
    """13 words in a row; a shorter text counts whole from 6 words on; 2 characters without spaces are a word."""
    assert len(find_contaminated([pair(prompt=text)], [("b", [pair("i", item)])])) == hits
