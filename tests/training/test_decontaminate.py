"""Decontamination: shared runs of 13 words are found however they are spelled, and shorter ones are not."""

import pytest

from svr_async.core.pair import PreferencePair, user_prompt
from svr_async.training.bank.decontaminate import find_contaminated, runs_of, words_of

WORDS = "seven grey herons stood by the café and watched how Tom's ferry left for its island"
RUN = " ".join(WORDS.split()[:13])


def pair(
    name: str = "t", prompt: str = "Say something.", chosen: str = "One.", rejected: str = "Two."
) -> PreferencePair:
    """Return a pair."""
    return PreferencePair(id=name, prompt=user_prompt(prompt), chosen=chosen, rejected=rejected)


BENCH = [("bench", [pair("item-1", "Nothing of the kind here at all, only other words."), pair("item-2", WORDS)])]


@pytest.mark.parametrize("field", ["prompt", "chosen", "rejected"])
def test_a_run_of_thirteen_words_is_found_in_prompt_and_responses(field: str) -> None:
    """In the middle of a longer text too; the hit names pair, benchmark, item and words."""
    hits = find_contaminated([pair("clean"), pair("dirty", **{field: f"It began: {RUN}, and so on it went."})], BENCH)
    assert [(hit.pair_id, hit.benchmark, hit.item) for hit in hits] == [("dirty", "bench", "item-2")]
    assert hits[0].shared == " ".join(words_of(RUN)[:13])


@pytest.mark.parametrize(
    "spelled",
    [
        WORDS.upper(),
        WORDS.replace("é", "e\u0301"),
        WORDS.replace("é", "&eacute;").replace("'", "&#39;"),
        WORDS.replace(" ", " – ").replace("by", "**by**"),
        "".join(chr(ord(c) + 0xFEE0) if c.isascii() and c.isalpha() else c for c in WORDS),
    ],
    ids=["case", "combining", "entities", "punctuation", "wide"],
)
def test_spelling_does_not_hide_a_run(spelled: str) -> None:
    """Case, combining marks, HTML entities, punctuation and wide letters are folded on both sides."""
    assert len(find_contaminated([pair(prompt=spelled)], BENCH)) == 1
    assert len(find_contaminated([pair(prompt=WORDS)], [("b", [pair("i", chosen=spelled)])])) == 1


def test_twelve_words_of_a_longer_text_are_no_run() -> None:
    """One word less than thirteen, or thirteen with one changed, is no hit."""
    words = words_of(WORDS)
    assert find_contaminated([pair(prompt="x " + " ".join(words[:12]) + " y")], BENCH) == []
    assert find_contaminated([pair(prompt=" ".join([*words[:6], "other", *words[7:13]]))], BENCH) == []


def test_a_short_text_counts_as_a_whole_and_a_very_short_one_not_at_all() -> None:
    """Six to twelve words match the same text; five or fewer never do."""
    six, five = "What does a lighthouse keeper do", "What does a lighthouse do"
    assert len(find_contaminated([pair(prompt=six + "?")], [("b", [pair("i", six.upper())])])) == 1
    assert find_contaminated([pair(prompt=five)], [("b", [pair("i", five)])]) == []
    assert list(runs_of("")) == list(runs_of(five)) == []


def test_no_benchmark_and_no_pairs_are_no_hits() -> None:
    """Nothing to compare is fine."""
    assert find_contaminated([pair()], []) == []
    assert find_contaminated([], BENCH) == []


SPACELESS = {
    "Chinese": ("请说明为什么潮汐在海湾里比在开阔的海面上更高并举一个例子", "简短的问候"),
    "Japanese": ("みずうみのほとりにすむ漁師はなぜ朝早く舟を出すのですか", "おはよう"),
    "Thai": ("เหตุใดน้ำขึ้นน้ำลงในอ่าวจึงสูงกว่าในทะเลเปิด", "สวัสดีครับ"),
}


@pytest.mark.parametrize("script", SPACELESS)
def test_runs_are_found_in_scripts_that_write_no_spaces(script: str) -> None:
    """Two characters count as a word: the text inside a longer one is a hit, a greeting or the half of it is none."""
    text, greeting = SPACELESS[script]
    bench = [("bench", [pair("i", text, chosen=greeting)])]
    assert len(find_contaminated([pair(chosen=f"{greeting}{text}{greeting}")], bench)) == 1
    assert find_contaminated([pair(prompt=greeting), pair(prompt=f"{text[:12]}{greeting}")], bench) == []


def test_thirteen_words_are_counted_over_both_kinds_of_script() -> None:
    """A product's name in Latin letters is one word among the characters around it."""
    text = "请说明为什么 SuperTide 在海湾里比在 open sea 更高并举一个例子"
    hits = find_contaminated([pair(prompt=f"问题：{text}？")], [("bench", [pair("i", text)])])
    assert [(hit.item, hit.shared.split()[:2]) for hit in hits] == [("i", ["请", "说"])]
