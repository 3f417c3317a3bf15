"""Which rubrics are used for a prompt, and why a verdict may be weak: unknown prompts, responses that look alike."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_bank import made_bank

from svr_async.core.integrity import NO_MARKS, Integrity
from svr_async.core.pair import user_prompt
from svr_async.core.similarity import similarity
from svr_async.core.verdict import Outcome
from svr_async.scoring.bank import InferenceSettings, RubricBank
from svr_async.scoring.decision import Decision
from svr_async.scoring.selection import Active, doubts_of, select
from svr_async.serving.pairs import score_pair

TEXTS = (
    "Names the river",
    "Names the great river",
    "Cites a source for each figure",
    "Names the rivers",
    "Stays polite throughout",
    "Cites a good source for each figure",
    "Uses the units of the prompt",
)


def chosen(alphas: list[float], weights: list[int] | None = None, **settings_: Any) -> tuple[Active, ...]:
    """Select with these numbers; weights are 1 unless given."""
    alpha = np.array(alphas, np.float32)
    weight = np.ones_like(alpha) if weights is None else np.array(weights, np.float32)
    return select(alpha, weight, TEXTS, InferenceSettings(**settings_))


def test_free_slots_go_to_the_most_different() -> None:
    """Fillers are the least similar to those chosen, one by one, and weigh the filler weight."""
    found = chosen([1, 0, 0, 0, 0, 0, 0], top_k=4, filler_weight=0.25)
    fillers = {one.index for one in found[1:]}
    assert found[0].index == 0
    assert fillers >= {4, 6}
    assert len(fillers & {2, 5}) == 1, "one of two twins, and no other river"
    assert all(one.filler and one.importance == 0.25 for one in found[1:])


def plain_selection(
    alpha: tuple[Any, ...], weight: tuple[Any, ...], config: InferenceSettings
) -> tuple[list[int], int]:
    """Select by the words of the paper, in plain loops."""
    order = sorted(range(len(alpha)), key=lambda i: (-(alpha[i] * weight[i]), -weight[i], i))
    pool = order[: max(config.selection_pool, config.top_k)]
    picked = [i for i in pool if alpha[i] * weight[i] > 0][: config.top_k]
    n_best = len(picked)
    while config.filler_weight and len(picked) < min(config.top_k, len(pool)):
        rest = [i for i in pool if i not in picked]
        picked.append(
            min(rest, key=lambda i: (max((similarity(TEXTS[i], TEXTS[j]) for j in picked), default=0.0), pool.index(i)))
        )
    return picked, n_best


@given(
    rows=st.lists(
        st.tuples(st.sampled_from([0.0, 0.0, 0.125, 0.25, 0.5]), st.sampled_from([0.5, 1.0, 2.0])),
        min_size=1,
        max_size=7,
    ),
    top_k=st.integers(1, 12),
    pool=st.integers(1, 20),
    filler=st.sampled_from([0.0, 0.25, 1.0]),
)
@settings(deadline=None, max_examples=200)
def test_same_as_the_plain_loops_for_any_size(
    rows: list[tuple[float, float]], top_k: int, pool: int, filler: float
) -> None:
    """For banks of one rubric up to seven, k and pool larger than the bank included, the plain rule is followed."""
    alpha, weight = zip(*rows, strict=True)
    config = InferenceSettings(top_k=top_k, selection_pool=pool, filler_weight=filler)
    found = select(np.array(alpha, np.float32), np.array(weight, np.float32), TEXTS, config)
    picked, n_best = plain_selection(alpha, weight, config)
    assert [one.index for one in found] == picked
    assert [one.filler for one in found] == [place >= n_best for place in range(len(picked))]
    assert len(found) <= min(top_k, len(rows))


# ── why a verdict is weak ──

DECIDED = Decision(margin=0.5, outcome=Outcome.SCORED)


def said(prompt: str, a: str, b: str, bank: RubricBank | None = None) -> str:
    """Return the doubts about a verdict of the rules judge, as one text."""
    return " / ".join(score_pair(prompt, a, b, bank=bank, engine="rules").doubts)


@pytest.mark.parametrize(
    ("prompt", "a", "b", "says"),
    [
        ("What is the capital of France?", "Paris.", "Lyon.", "no difference found"),
        ("What is 7*8?", "56", "54", "never at whether an answer is true"),
        ("Tell me a joke", "Why did the chicken cross the road? It had to.", "No.", "which is closer, a guess"),
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
        "the bank was trained on no similar prompt: haiku, rain never occurred",
    )
    assert doubts_of(DECIDED, user_prompt("Is bread how long bread was?"), bank, NO_MARKS) == ()


def test_a_model_is_not_doubted_for_what_only_checks_cannot_see() -> None:
    """Doubts about form are of the offline judge alone; a bank that leaves it to the judge is named for any judge."""
    prompt = user_prompt("What is the capital of France?")
    assert doubts_of(DECIDED, prompt, None, NO_MARKS) == ()
    assert doubts_of(DECIDED, prompt, None, frozenset({Integrity.OFFLINE_RULES}))
    assert "no better than guessing" in doubts_of(DECIDED, prompt, made_bank(), NO_MARKS, direct=True)[0]
    lost = Decision(margin=None, outcome=Outcome.REFUSAL)
    assert doubts_of(lost, prompt, made_bank(), NO_MARKS, direct=True) == ()
