"""Constraints read out of prompts."""

from __future__ import annotations

import pytest

from svr_async.core.rubric import Check
from svr_async.judges.rules.constraints import constraints_in

STATED = (
    ("Write a story under 100 words", [Check.of("max_words", n=99)]),
    ("Explain gravity in three bullet points", [Check.of("bullet_list"), Check.of("exact_items", n=3)]),
    ("Describe a cat. Do not write more than 1,200 words.", [Check.of("max_words", n=1200)]),
    ("Write a summary in 50 words or less", [Check.of("max_words", n=50)]),
    ("Keep it between 100 and 200 words", [Check.of("words_between", low=100, high=200)]),
    ("Write about 100 words on owls", [Check.of("words_between", low=80, high=120)]),
    ("Use exactly 7 words.", [Check.of("exact_words", n=7)]),
    ("At least 3 paragraphs, 5 or more sentences", [Check.of("min_paragraphs", n=3), Check.of("min_sentences", n=5)]),
    ("Write 2 paragraphs. Each paragraph has 50 words.", [Check.of("exact_paragraphs", n=2)]),
    ("Answer in one word.", [Check.of("exact_words", n=1)]),
    ("Write a poem with four lines", [Check.of("exact_lines", n=4)]),
    ("Give me 10 ideas for a party", [Check.of("exact_items", n=10)]),
    ("Top 5 podcasts about the sea", [Check.of("exact_items", n=5)]),
    ("List the planets using bullet points", [Check.of("bullet_list")]),
    ("Return the result as JSON", [Check.of("json_only")]),
    ("Answer in French: what is the sun?", [Check.of("in_language", language="fr")]),
    ("Translate this sentence into German.", [Check.of("contains_language", language="de")]),
    ("Is it true? Answer yes or no.", [Check.of("yes_or_no")]),
    ("Write it in all lowercase", [Check.of("all_lowercase")]),
    ("Your reply should be in all capital letters", [Check.of("all_uppercase")]),
    ('Start with "Dear Sir"', [Check.of("starts_with", text="Dear Sir")]),
    ("Begin your answer with the word Indeed", [Check.of("starts_with", text="Indeed")]),
    ("End your letter with “Yours, Ada”", [Check.of("ends_with", text="Yours, Ada")]),
    ("End with a question.", [Check.of("ends_with_question")]),
    ("Do not mention cats or dogs.", [Check.of("avoids_words", words=("cats", "dogs"))]),
    ('Explain it without using the word "light"', [Check.of("avoids_words", words=("light",))]),
    ("Don't use the words big, large or huge", [Check.of("avoids_words", words=("big", "large", "huge"))]),
    ("Include the words 'sun', 'moon' and 'star'", [Check.of("includes_words", words=("sun", "moon", "star"))]),
    ("Include keywords ['red', 'blue'] in the reply", [Check.of("includes_words", words=("red", "blue"))]),
    ('Use the word "rain" at least three times', [Check.of("uses_word", word="rain", n=3)]),
    ("Use the word very at most 2 times", [Check.of("limits_word", word="very", n=2)]),
    ("The letter q should appear at least 4 times", [Check.of("uses_letter", letter="q", n=4)]),
    ("Do not use any commas", [Check.of("no_commas")]),
    ("Your reply should not contain emojis", [Check.of("no_emoji")]),
    ("Reply in plain text", [Check.of("plain_text")]),
    ("Wrap your entire response in double quotation marks", [Check.of("in_quotes")]),
    ("Highlight at least 3 sections with markdown", [Check.of("min_highlights", n=3)]),
    ("Use at least 2 placeholders such as [name]", [Check.of("min_placeholders", n=2)]),
    ("Give two answers, separated by 6 asterisks: ******", [Check.of("separated_by", text="******")]),
    ("Explain it step by step", [Check.of("gives_steps")]),
    ("Give an example", [Check.of("gives_example")]),
    ("Cite your sources", [Check.of("names_source")]),
    ("Write a sorting function in Python", [Check.of("code_in", language="python")]),
)


@pytest.mark.parametrize(("prompt", "checks"), STATED, ids=[text[:40] for text, _ in STATED])
def test_stated_constraints_are_read(prompt: str, checks: list[Check]) -> None:
    """A constraint stated in a prompt becomes the check that it stands for, and nothing else is read into it."""
    assert sorted(checks, key=str) == sorted((rubric.check for rubric in constraints_in(prompt)), key=str)


NOT_STATED = (
    "Why is the sky blue?",
    "Summarise the 3 paragraphs below",
    "Each bullet should be under 20 words",
    "What is the table of elements?",
    "Write a script that returns JSON",
    'Summarize the following text:\n\nPlease write 300 words in French. Start with "x".',
    '"Write exactly five words, and use only capital letters in all that you say." Who said that?',
    "> Answer in one word.\n\nWhat do you think of that?",
    "```\nAnswer in one word.\n```\nWhat does it print?",
    "Translate to Spanish, French and German: hello",
    "I never mention it to her.",
    "Who was the first person on the moon?",
    "",
)


@pytest.mark.parametrize("prompt", NOT_STATED)
def test_nothing_is_invented(prompt: str) -> None:
    """Questions about counts and words, parts of an answer, and pasted or quoted text state no constraint."""
    assert constraints_in(prompt) == ()


def test_long_prompts_are_read_at_their_edges() -> None:
    """In a long turn, instructions count in the first and last sentences, and what stands between is material."""
    filler = "The boat went out and came back with the tide. " * 60
    prompt = f"Summarize this in two sentences. {filler}You must answer in one word. {filler}Do not use commas."

    assert [Check.of("exact_sentences", n=2), Check.of("no_commas")] == [r.check for r in constraints_in(prompt)]
