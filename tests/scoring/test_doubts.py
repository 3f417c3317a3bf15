"""Where a verdict on one pair says little, it says so: unknown prompts, answers that look alike, words misread."""

from __future__ import annotations

import pytest
from made_bank import made_bank

from svr_async.core.integrity import NO_MARKS, Integrity
from svr_async.core.pair import user_prompt
from svr_async.core.verdict import Outcome
from svr_async.scoring.bank import RubricBank
from svr_async.scoring.decision import Decision
from svr_async.scoring.selection import doubts_of
from svr_async.serving.pairs import score_pair

DECIDED = Decision(margin=0.5, outcome=Outcome.SCORED)


def said(prompt: str, a: str, b: str, bank: RubricBank | None = None) -> str:
    """Return the doubts about a verdict of the rules judge, as one text."""
    return " / ".join(score_pair(prompt, a, b, bank=bank, engine="rules").doubts)


@pytest.mark.parametrize(
    ("prompt", "a", "b", "says"),
    [
        ("What is the capital of France?", "Paris.", "Lyon.", "nothing tells the two apart"),
        ("What is 7*8?", "56", "54", "never at whether an answer is true"),
        ("Tell me a joke", "Why did the chicken cross the road? It had to.", "No.", "only which comes nearer, a guess"),
        ("How do I kill a Python process?", "Use `kill PID`.", "I can't help with that.", "a list of words"),
        ("Explain gravity in one sentence", "It pulls masses together.", "It pulls. It is strong. It is old.", ""),
        ("Say it", "The same.", "The same.", ""),
    ],
)
def test_one_line_prompts_are_told_what_the_checks_cannot_see(prompt: str, a: str, b: str, says: str) -> None:
    """Facts, jokes and words that mislead are doubted; a form that was asked for, and equal responses, are not."""
    assert says in said(prompt, a, b)
    assert bool(says) is bool(said(prompt, a, b))


def test_a_prompt_unlike_all_that_a_bank_learned_from_is_named() -> None:
    """Half of its content words are new: they are named; a prompt whose words are known is not doubted."""
    bank = made_bank()  # whose vocabulary has bread, and how long
    assert doubts_of(DECIDED, user_prompt("How long do I bake breads?"), bank, NO_MARKS) == ()
    assert doubts_of(DECIDED, user_prompt("Write a haiku about rain"), bank, NO_MARKS) == (
        "the bank was trained on no similar prompt: haiku, rain occur in none of them",
    )
    assert doubts_of(DECIDED, user_prompt("Is bread how long bread was?"), bank, NO_MARKS) == ()


def test_a_model_is_not_doubted_for_what_only_checks_cannot_see() -> None:
    """Doubts about form are of the offline judge alone; a bank that leaves it to the judge is told with any."""
    prompt = user_prompt("What is the capital of France?")
    assert doubts_of(DECIDED, prompt, None, NO_MARKS) == ()
    assert doubts_of(DECIDED, prompt, None, frozenset({Integrity.OFFLINE_RULES}))
    assert "no better than a coin" in doubts_of(DECIDED, prompt, made_bank(), NO_MARKS, direct=True)[0]
    lost = Decision(margin=None, outcome=Outcome.REFUSAL)
    assert doubts_of(lost, prompt, made_bank(), NO_MARKS, direct=True) == ()
