"""A training problem as arrays: rows, own entries, hard negatives, sources."""

from dataclasses import replace

import numpy as np

from svr_async.core.pair import PreferencePair, prompt_text, user_prompt
from svr_async.core.rubric import Rubric
from svr_async.fit.tfidf import learn
from svr_async.training.bank.merge import Candidate
from svr_async.training.bank.near_duplicates import redundancy_edges
from svr_async.training.rounds.session import HardNegative, Ledger, Prompts, Sources, build_arrays

PAIRS = [
    PreferencePair(id=f"p{n}", prompt=user_prompt(f"bread and {word}"), chosen="a", rejected=f"b{n}")
    for n, word in enumerate(("butter", "salt", "butter", "water"))
]
BANK = [
    Candidate(rubric=Rubric(text="Names butter"), source_pair_ids=("p0", "p2")),
    Candidate(rubric=Rubric(text="Weighs the salt"), source_pair_ids=("p1", "p3", "gone")),
    Candidate(rubric=Rubric(text="Is brief"), source_pair_ids=("gone",)),
]
IDS = [candidate.rubric.id for candidate in BANK]


def prompts() -> Prompts:
    """Return the prompts of all pairs."""
    return Prompts.of(PAIRS, learn([prompt_text(pair.prompt) for pair in PAIRS]))


def sources() -> Sources:
    """Return the sources of the bank."""
    made = prompts()
    return Sources.of(BANK, {pair.id: made.row(pair) for pair in PAIRS})


def test_prompts_are_distinct_and_in_order_of_appearance() -> None:
    """Pairs of one prompt share its row; features are unit rows."""
    made = prompts()
    assert made.texts == ("bread and butter", "bread and salt", "bread and water")
    assert [made.row(pair) for pair in PAIRS] == [0, 1, 0, 2]
    for row in range(3):
        np.testing.assert_allclose(np.linalg.norm(made.features(row)[1]), 1, rtol=1e-5)


def test_own_rubrics_come_from_one_prompt_only_however_many_pairs_it_has() -> None:
    """Two pairs of the same prompt are one source; a rubric of two prompts is nobody's own."""
    found = sources()
    assert found.rows_of == ((0,), (1, 2), ())
    assert [found.own(row).tolist() for row in range(3)] == [[0], [], []]
    assert [found.mined(row).tolist() for row in range(3)] == [[0], [1], [1]]


def test_arrays_hold_every_judged_entry_and_mark_own_ones_and_negatives() -> None:
    """Rows are pairs, then hard negatives that point at their originals; missing entries are not there."""
    ledger = Ledger()
    ledger.note("p0", IDS, {IDS[0]: 1.25, IDS[1]: -0.25})
    ledger.note("p3", IDS[1:], {IDS[2]: 0.75, IDS[1]: 0.25})
    probed = PreferencePair(id="p3~probe1", prompt=PAIRS[3].prompt, chosen="a", rejected="c")
    ledger.note("p3~probe1", IDS[:1], {IDS[0]: -1.25})
    index = {rubric_id: place for place, rubric_id in enumerate(IDS)}
    edges = redundancy_edges([candidate.rubric.text for candidate in BANK])
    negatives = [HardNegative(pair=probed, of="p3")]
    arrays = build_arrays(PAIRS, negatives, prompts(), ledger, index, sources(), edges)
    assert arrays.z_indptr.tolist() == [0, 2, 2, 2, 4, 5]
    assert arrays.z_rubric.tolist() == [0, 1, 1, 2, 0]
    assert arrays.z_delta.tolist() == [1.25, -0.25, 0.25, 0.75, -1.25]
    assert arrays.z_own is not None
    assert arrays.z_own.tolist() == [True, False, False, False, False]
    assert arrays.pair_prompt.tolist() == [0, 1, 0, 2, 2]
    assert arrays.negative_of is not None
    assert arrays.negative_of.tolist() == [-1, -1, -1, -1, 3]
    assert arrays.source_indptr is not None
    assert arrays.source_indptr.tolist() == [0, 1, 3, 3]
    assert build_arrays([], [], prompts(), ledger, index, sources(), edges).n_pairs == 0


def test_arrays_number_the_sources_of_pairs() -> None:
    """By name, a hard negative as its original; None where all pairs are from one source or none names any."""
    edges = redundancy_edges([candidate.rubric.text for candidate in BANK])
    named = [replace(pair, source=name) for pair, name in zip(PAIRS, "bcab", strict=True)]
    negative = HardNegative(pair=replace(PAIRS[1], id="p1~probe1"), of="p1")
    index = {rubric_id: place for place, rubric_id in enumerate(IDS)}
    parts = (prompts(), Ledger(), index, sources(), edges)
    of_named = build_arrays(named, [negative], *parts).pair_source
    assert of_named is not None
    assert of_named.tolist() == [1, 2, 0, 1, 2]
    assert build_arrays(PAIRS, [negative], *parts).pair_source is None


def test_all_that_a_dev_prompt_gave_is_its_own_however_many_other_prompts_gave_it_too() -> None:
    """Rubrics that were induced with another split: what came from a dev prompt cannot tell how a bank does on it."""
    made = prompts()
    rows = {pair.id: made.row(pair) for pair in PAIRS}
    train, dev = ({name: row for name, row in rows.items() if (row == 1) is held} for held in (False, True))
    found = Sources.of(BANK, train, dev)
    assert found.own(1).tolist() == [1]
    assert [found.own(row).tolist() for row in (0, 2)] == [[0], [1]]
    assert (found.rows_of, found.mined(1).tolist()) == (((0,), (2,), ()), [])
