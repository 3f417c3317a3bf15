"""A training problem as arrays: rows, own entries, hard negatives, sources."""

from dataclasses import replace
from pathlib import Path

import numpy as np
from stand_ins import UnaskedAuthor, UnaskedJudge

from svr_async.core.pair import PreferencePair, prompt_text, user_prompt
from svr_async.core.rubric import Rubric
from svr_async.fit.tfidf import learn
from svr_async.training.bank.merge import Candidate
from svr_async.training.rounds.config import TrainConfig
from svr_async.training.rounds.judge_calls import TrainingJudges
from svr_async.training.rounds.session import HardNegative, Prompts, Session, Sources, prepare
from svr_async.training.rounds.stages import Stages

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
    assert list(made.row_of) == ["bread and butter", "bread and salt", "bread and water"]
    assert [made.row(pair) for pair in PAIRS] == [0, 1, 0, 2]
    for row in range(3):
        np.testing.assert_allclose(np.linalg.norm(made.features(row)[1]), 1, rtol=1e-5)


def test_own_rubrics_come_from_one_prompt_only_however_many_pairs_it_has() -> None:
    """Two pairs of the same prompt are one source; a rubric of two prompts is nobody's own."""
    found = sources()
    assert found.rows_of == ((0,), (1, 2), ())
    assert [found.own(row).tolist() for row in range(3)] == [[0], [], []]
    assert [found.mined(row).tolist() for row in range(3)] == [[0], [1], [1]]


def session(pairs: list[PreferencePair]) -> Session:
    """Return a session of these pairs, with nothing judged."""
    judges = TrainingJudges(judge=UnaskedJudge(), author=UnaskedAuthor())
    material = prepare(pairs, (), digest="d")
    return Session(judges=judges, config=TrainConfig(), stages=Stages(Path()), material=material)


def test_arrays_hold_every_judged_entry_and_mark_own_ones_and_negatives() -> None:
    """Rows are pairs, then hard negatives that point at their originals; missing entries are not there."""
    run = session(PAIRS)
    run.ledger.note("p0", IDS, {IDS[0]: 1.25, IDS[1]: -0.25})
    run.ledger.note("p3", IDS[1:], {IDS[2]: 0.75, IDS[1]: 0.25})
    probed = PreferencePair(id="p3~probe1", prompt=PAIRS[3].prompt, chosen="a", rejected="c")
    run.ledger.note("p3~probe1", IDS[:1], {IDS[0]: -1.25})
    arrays = run.arrays(run.indexed(BANK), PAIRS, [HardNegative(pair=probed, of="p3")])
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
    assert arrays.criterion is None
    assert run.arrays(run.indexed(BANK), []).n_pairs == 0


def test_arrays_number_sources_and_criteria() -> None:
    """Sources by name, a hard negative as its original; criteria in order; None if all are alike or each differs."""
    named = [replace(pair, source=name) for pair, name in zip(PAIRS, "bcab", strict=True)]
    negative = HardNegative(pair=replace(PAIRS[1], id="p1~probe1"), of="p1")
    grouped = [BANK[0], replace(BANK[1], criterion=IDS[0]), BANK[2]]
    arrays = session(PAIRS).arrays(session(PAIRS).indexed(grouped), named, [negative])
    assert arrays.pair_source is not None
    assert arrays.pair_source.tolist() == [1, 2, 0, 1, 2]
    assert arrays.criterion is not None
    assert arrays.criterion.tolist() == [0, 0, 1]
    assert session(PAIRS).arrays(session(PAIRS).indexed(BANK), PAIRS, [negative]).pair_source is None


def test_all_that_a_dev_prompt_gave_is_its_own_however_many_other_prompts_gave_it_too() -> None:
    """Rubrics that were induced with another split: what came from a dev prompt cannot tell how a bank does on it."""
    made = prompts()
    rows = {pair.id: made.row(pair) for pair in PAIRS}
    train, dev = ({name: row for name, row in rows.items() if (row == 1) is held} for held in (False, True))
    found = Sources.of(BANK, train, dev)
    assert found.own(1).tolist() == [1]
    assert [found.own(row).tolist() for row in (0, 2)] == [[0], [1]]
    assert (found.rows_of, found.mined(1).tolist()) == (((0,), (2,), ()), [])
