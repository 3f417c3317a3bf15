"""The boundary: support pairs, probes, the data's own alternatives and hard negatives."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from baker import FAIL, OVEN, PAIR, PASS, REST, TIME, Baker, Verdicts, fitted_of, session

from svr_async.core.pair import PreferencePair, user_prompt
from svr_async.core.verdict import Verdict
from svr_async.training.rounds.config import TrainConfig
from svr_async.training.rounds.induction import alternatives, find_negatives, find_support, support_rows, usable_probe

TEXT = "Cut the bread first. Then warm the pan for two minutes. Put the cheese between the slices and fry both sides."


def pair(
    name: str = "p", chosen: str = TEXT, rejected: str = "no", prompt: str = "How do I make a toastie?"
) -> PreferencePair:
    """Return a pair."""
    return PreferencePair(id=name, prompt=user_prompt(prompt), chosen=chosen, rejected=rejected)


# ── support pairs ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_support_rows_are_the_hardest_first_with_ties_in_row_order_and_at_most_as_many_as_allowed() -> None:
    """A margin on the limit counts; rows without an entry have none; the list is cut after sorting."""
    margins = np.array([0.5, 0.2, -1.0, 0.0, 0.0, -1.0, 0.21, -9.0], np.float32)
    known = np.array([1, 1, 1, 1, 1, 1, 1, 0], bool)
    assert support_rows(margins, known, margin=float(np.float32(0.2)), most=99) == [2, 5, 3, 4, 1]
    assert support_rows(margins, known, margin=float(np.float32(0.2)), most=3) == [2, 5, 3]
    assert support_rows(margins, known, margin=-5.0, most=3) == []
    assert support_rows(margins[:0], known[:0], margin=1.0, most=3) == []


def test_pairs_of_the_cluster_that_fails_most_often_come_first() -> None:
    """A pair of a cluster that mostly fails is probed before a harder one of a cluster that mostly does not."""
    margins = np.array([-9.0, 3.0, 3.0, 3.0, 0.1, -0.1, 3.0], np.float32)
    clusters = np.array([[1, 0]] * 4 + [[0, 1]] * 3, np.float32)
    rows = support_rows(margins, np.ones(7, bool), margin=0.2, most=9, shares=clusters)
    assert rows == [5, 4, 0]
    assert support_rows(margins, np.ones(7, bool), margin=0.2, most=1, shares=clusters) == [5]


@pytest.mark.parametrize(("n_pairs", "share", "most", "expected"), [
    (80, 0.1, 1024, 64), (650, 0.1, 1024, 65), (650, 1.0, 100, 100), (80, 1.0, 1024, 80),
])  # fmt: skip
def test_support_pairs_are_a_share_within_bounds(
    tmp_path: Path, n_pairs: int, share: float, most: int, expected: int
) -> None:
    """A tenth of the pairs, up to the paper's 1,024, and 64 where that is more; drawn by pair and round if ablated."""
    pairs = [replace(PAIR, id=f"p{n}", prompt=user_prompt(f"bread {n % 9}")) for n in range(n_pairs + 1)]
    config = TrainConfig(support_share=share, max_support=most)
    run = session(tmp_path, config, Baker({}), pairs)
    for one in run.material.train:
        run.ledger.note(one.id, [OVEN.id], [0.0])
    assert find_support(run, 1, fitted_of(run)) == pairs[:expected]
    run.config = replace(config, ablate=("support",))
    first, second = ([one.id for one in find_support(run, number, fitted_of(run))] for number in (1, 2))
    assert len(set(first)) == len(set(second)) == expected
    assert first != second


# ── probes and alternatives ─────────────────────────────────────────────────────────────────────────────────────────


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
    assert found == {"a": ["b"], "b": ["a", "c"], "c": ["b"], "d": [], "e": []}


# ── hard negatives ──────────────────────────────────────────────────────────────────────────────────────────────────


def says(oven: Verdict | None, time: Verdict) -> Verdicts:
    """Return the verdicts on a response."""
    return {OVEN: oven, TIME: time}


@pytest.mark.parametrize(
    ("bad", "worse", "expected"),
    [
        (says(FAIL, FAIL), says(FAIL, PASS), ["p0~probe1"]),
        (says(PASS, PASS), says(FAIL, PASS), []),
        (says(PASS, PASS), None, []),
        (says(FAIL, PASS), says(None, PASS), []),
        (says(None, FAIL), says(None, PASS), ["p0~probe1"]),
        (None, says(PASS, PASS), []),
        (None, None, []),
    ],
    ids=["nearer", "further", "no answer", "half an answer", "alike", "none to its original", "none to both"],
)
async def test_a_response_is_a_hard_negative_only_by_verdicts_wherever_its_original_has_one(
    tmp_path: Path, bad: Verdicts | None, worse: Verdicts | None, expected: list[str]
) -> None:
    """What the judge did not answer is no low margin: a probe without verdicts never beats a judged response."""
    run = session(tmp_path, TrainConfig(), Baker({"bad": bad, "worse": worse}), (PAIR, *REST[:3]))
    found = await find_negatives(run, 1, fitted_of(run), [PAIR])
    assert [negative.pair.id for negative in found] == expected
    for negative in found:
        assert negative.pair == replace(PAIR, id="p0~probe1", rejected="worse")
