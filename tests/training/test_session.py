"""A training in memory: judged entries, prompts, sources, and the arrays of a fit."""

import tracemalloc
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from stand_ins import UnaskedAuthor, UnaskedJudge

from svr_async.core.pair import PreferencePair, user_prompt
from svr_async.core.rubric import Rubric
from svr_async.scoring.bank import BankRubric
from svr_async.training.rounds.config import TrainConfig
from svr_async.training.rounds.session import HardNegative, IndexedBank, Ledger, Material, Session, prepare
from svr_async.training.rounds.stages import Stages, TrainingJudges

PAIRS = [
    PreferencePair(id=f"p{n}", prompt=user_prompt(f"bread and {word}"), chosen="a", rejected=f"b{n}")
    for n, word in enumerate(("butter", "salt", "butter", "water"))
]
BANK = [
    BankRubric(rubric=Rubric(text="Names butter"), source_pair_ids=("p0", "p2")),
    BankRubric(rubric=Rubric(text="Weighs the salt"), source_pair_ids=("p1", "p3", "gone")),
    BankRubric(rubric=Rubric(text="Is brief"), source_pair_ids=("gone",)),
]
IDS = [candidate.rubric.id for candidate in BANK]


# ── judged entries ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_missing_stays_missing() -> None:
    """A rubric without a verdict was asked and has no entry; one that was not asked is neither; 0 is an entry."""
    ledger = Ledger()
    ledger.note("p", ["a", "b", "c"], [-0.75, np.nan, 0.0])
    index = {"c": 0, "a": 1, "b": 2, "never": 3}
    rubric, z = ledger.entries("p", index)
    assert (rubric.tolist(), z.tolist()) == ([0, 1], [0.0, -0.75])
    assert ledger.asked("p", index).tolist() == [0, 1, 2]
    assert (rubric.dtype, z.dtype) == (np.dtype(np.int32), np.dtype(np.float32))
    assert [part.tolist() for part in ledger.entries("unknown", index)] == [[], []]
    assert ledger.asked("unknown", index).tolist() == []


def test_entries_follow_the_bank_that_is_asked_for() -> None:
    """Another index, in another order or without some rubrics, gives the same entries under its own numbers."""
    ledger = Ledger()
    ledger.note("p", ["a", "b"], [0.25, 1.25])
    for index in ({"a": 0, "b": 1}, {"b": 0, "a": 1}, {"b": 0}, {"x": 0}):
        rubric, z = ledger.entries("p", index)
        assert dict(zip(rubric.tolist(), z.tolist(), strict=True)) == {
            index[name]: value for name, value in (("a", 0.25), ("b", 1.25)) if name in index
        }
    ledger.note("p", ["new"], [-0.25])
    assert ledger.asked("p", {"a": 0, "b": 1, "new": 2}).tolist() == [0, 1, 2]


def test_the_last_verdict_counts() -> None:
    """A rubric that is noted again, in another order and next to new ones, has the later z."""
    ledger = Ledger()
    ledger.note("p", ["b", "a"], [0.25, -0.25])
    ledger.note("p", ["c", "b"], [0.75, 1.25])
    assert ledger.entries("p", {"a": 0, "b": 1, "c": 2})[1].tolist() == [-0.25, 1.25, 0.75]


def test_an_entry_takes_a_few_bytes() -> None:
    """Tens of millions of entries, all pairs on a whole bank, fit into a machine's memory."""
    ids = [f"r{number}" for number in range(500)]
    z = [0.25] * len(ids)
    ledger = Ledger()
    tracemalloc.start()
    for pair_number in range(100):
        ledger.note(f"p{pair_number}", ids, z)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 16 * 100 * len(ids)


# ── prompts and sources ─────────────────────────────────────────────────────────────────────────────────────────────


def prompts() -> Material:
    """Return the prompts of all pairs."""
    return prepare(PAIRS[:3], PAIRS[3:], digest="d")


def test_prompts_are_distinct_and_in_order_of_appearance() -> None:
    """Pairs of one prompt share its row; features are unit rows."""
    made = prompts()
    assert list(made.row_of) == ["bread and butter", "bread and salt", "bread and water"]
    assert [made.row(pair) for pair in PAIRS] == [0, 1, 0, 2]
    for row in range(3):
        np.testing.assert_allclose(np.linalg.norm(made.features_of(row)[1]), 1, rtol=1e-5)


def test_own_rubrics_come_from_one_prompt_only_however_many_pairs_it_has() -> None:
    """Two pairs of the same prompt are one source; what two prompts gave is neither's own; all of a dev prompt is."""
    rows = {pair.id: prompts().row(pair) for pair in PAIRS}
    found = IndexedBank.of(BANK, rows, {})
    assert found.rows_of == ((0,), (1, 2), ())
    assert [found.own(row).tolist() for row in range(3)] == [[0], [], []]
    assert found.rubrics_of == {0: [0], 1: [1], 2: [1]}
    train, dev = ({name: row for name, row in rows.items() if (row == 1) is held} for held in (False, True))
    held_out = IndexedBank.of(BANK, train, dev)
    assert [held_out.own(row).tolist() for row in range(3)] == [[0], [1], [1]]
    assert held_out.rows_of == ((0,), (2,), ())


# ── arrays ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def session(pairs: Sequence[PreferencePair] = PAIRS) -> Session:
    """Return a session of these pairs, with nothing judged."""
    judges = TrainingJudges(judge=UnaskedJudge(), author=UnaskedAuthor())
    material = prepare(pairs, (), digest="d")
    return Session(judges=judges, config=TrainConfig(), stages=Stages(Path()), material=material)


def test_arrays_hold_every_judged_entry_and_mark_own_ones_and_negatives() -> None:
    """Rows are pairs, then hard negatives that point at their originals; missing entries are not there."""
    run = session()
    run.ledger.note("p0", IDS, [1.25, -0.25, np.nan])
    run.ledger.note("p3", IDS[1:], [0.25, 0.75])
    probed = PreferencePair(id="p3~probe1", prompt=PAIRS[3].prompt, chosen="a", rejected="c")
    run.ledger.note("p3~probe1", IDS[:1], [-1.25])
    arrays = run.arrays(run.indexed(BANK), PAIRS, [HardNegative(pair=probed, of="p3")])
    expected = {
        "z_indptr": [0, 2, 2, 2, 4, 5],
        "z_rubric": [0, 1, 1, 2, 0],
        "z_delta": [1.25, -0.25, 0.25, 0.75, -1.25],
        "z_own": [True, False, False, False, False],
        "pair_prompt": [0, 1, 0, 2, 2],
        "negative_of": [-1, -1, -1, -1, 3],
        "source_indptr": [0, 1, 3, 3],
    }
    assert {name: getattr(arrays, name).tolist() for name in expected} == expected
    assert arrays.criterion is None
    assert run.arrays(run.indexed(BANK), []).n_pairs == 0


def test_arrays_number_sources_and_criteria() -> None:
    """Sources by name, a hard negative as its original; criteria in order; None if all are alike or each differs."""
    named = [replace(pair, source=name) for pair, name in zip(PAIRS, "bcab", strict=True)]
    negative = HardNegative(pair=replace(PAIRS[1], id="p1~probe1"), of="p1")
    grouped = [BANK[0], replace(BANK[1], criterion=IDS[0]), BANK[2]]
    arrays = session().arrays(session().indexed(grouped), named, [negative])
    assert arrays.pair_source is not None
    assert arrays.pair_source.tolist() == [1, 2, 0, 1, 2]
    assert arrays.criterion is not None
    assert arrays.criterion.tolist() == [0, 0, 1]
    assert session().arrays(session().indexed(BANK), PAIRS, [negative]).pair_source is None
