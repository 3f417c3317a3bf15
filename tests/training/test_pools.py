"""Pools: which rubrics are judged for a pair, planned as if the pair had not been mined, and how they are judged."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from baker import FAIL, OVEN, PAIR, TIME, Baker, session
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from svr_async.core.pair import Order, hashed_order
from svr_async.core.rubric import Rubric
from svr_async.errors import UsageError
from svr_async.scoring.bank import BankRubric
from svr_async.training.rounds.config import Pool, TrainConfig
from svr_async.training.rounds.pools import (
    choose_pools,
    judge_pools,
    judged_z,
    likely_rubrics,
)
from svr_async.training.rounds.session import IndexedBank
from svr_async.training.rounds.stages import TrainingJudges

N_PAIRS, N_RUBRICS = 12, 40
NOTHING = np.zeros(0, np.int32)


def sources(seed: int = 0) -> IndexedBank:
    """Return the sources of rubrics that one to three pairs gave, each with another prompt."""
    rng = np.random.default_rng(seed)
    picks = [rng.choice(N_PAIRS, size=rng.integers(1, 4), replace=False) for _ in range(N_RUBRICS)]
    bank = [BankRubric(rubric=Rubric(text="x"), source_pair_ids=tuple(f"p{k}" for k in pick)) for pick in picks]
    return IndexedBank.of(bank, {f"p{n}": n for n in range(N_PAIRS)}, {})


def inputs(seed: int = 0, **changes: Any) -> dict[str, Any]:
    """Return the inputs of twelve pairs with a prompt each, whose cluster gives nine rubrics."""
    rows = range(N_PAIRS)
    made: dict[str, Any] = {
        "pair_ids": [f"p{row}" for row in rows],
        "wanted": [np.random.default_rng([seed, row]).permutation(N_RUBRICS)[:9].astype(np.int32) for row in rows],
        "own": [sources(seed).own(row) for row in rows],
        "judged": [NOTHING] * N_PAIRS,
        "observed": np.arange(1, N_RUBRICS + 1),
        "criteria": np.arange(N_RUBRICS, dtype=np.int32),
    }
    return made | changes


def pools_of(made: dict[str, Any], size: int, number: int = 1) -> list[list[int]]:
    """Return pools as lists."""
    return [pool.tolist() for pool in choose_pools(**made, size=size, round_number=number)]


# ── choosing ────────────────────────────────────────────────────────────────────────────────────────────────────────


@given(seed=st.integers(0, 300), size=st.integers(1, 60), number=st.integers(1, 4))
@settings(deadline=None, max_examples=60)
def test_rubrics_that_only_this_prompt_gave_are_never_in_its_pool(seed: int, size: int, number: int) -> None:
    """Whatever the sizes: no own rubric, none twice, rising order, as many as asked for; the wanted ones come first."""
    made = inputs(seed)
    for row, pool in enumerate(pools_of(made, size, number)):
        own = set(made["own"][row].tolist())
        assert not own & set(pool)
        assert pool == sorted(set(pool))
        assert len(pool) == min(size, N_RUBRICS - len(own))
        wanted = [index for index in made["wanted"][row].tolist() if index not in own]
        assert set(wanted[: size - -(-size // 5)]) <= set(pool)


def test_a_rubric_that_other_prompts_gave_too_may_be_judged_where_it_was_mined() -> None:
    """With room for all of them, a pool holds the shared rubrics and lacks only the own ones."""
    made, shared = inputs(), 0
    for row, pool in enumerate(pools_of(made, N_RUBRICS)):
        assert set(pool) == set(range(N_RUBRICS)) - set(made["own"][row].tolist())
        shared += len(set(pool) & set(sources().rubrics_of[row]))
    assert shared > 0


def test_a_part_of_every_pool_is_drawn_from_the_whole_bank() -> None:
    """However much is wanted, pools of all pairs hold rubrics beyond that; all of them where nothing is."""
    made = inputs(own=[NOTHING] * N_PAIRS, wanted=[np.arange(20, dtype=np.int32)] * N_PAIRS)
    for size in (1, 4, 10, 20):
        drawn = np.concatenate(pools_of(made, size))
        assert 0 < (drawn >= 20).sum() <= max(N_PAIRS, len(drawn) / 2)
    assert len({tuple(pool) for pool in pools_of(inputs(wanted=[NOTHING] * N_PAIRS), 6)}) == N_PAIRS


def test_a_draw_depends_on_the_pair_id_and_the_round_and_not_on_the_place() -> None:
    """The same inputs give the same pools; later pairs never change earlier ones; another round or id draws others."""
    made = inputs()
    whole = pools_of(made, 6)
    assert pools_of(made, 6) == whole
    assert pools_of(made, 6, number=2) != whole
    assert pools_of(made | {"pair_ids": [f"q{n}" for n in range(N_PAIRS)]}, 6) != whole
    for count in (1, 5):
        parts = {name: made[name][:count] for name in ("pair_ids", "wanted", "own", "judged")}
        assert pools_of(made | parts, 6) == whole[:count]


def test_rubrics_that_are_judged_already_are_left_out() -> None:
    """A second plan of the same round asks nothing again."""
    made = inputs()
    first = choose_pools(**made, size=10, round_number=1)
    for before, after in zip(first, pools_of(made | {"judged": first}, 10), strict=True):
        assert not set(before.tolist()) & set(after)
    everything = [np.arange(N_RUBRICS, dtype=np.int32)] * N_PAIRS
    assert pools_of(made | {"judged": everything}, 10) == [[]] * N_PAIRS


def test_rarely_judged_rubrics_are_drawn_more_often() -> None:
    """A rubric that most pairs were judged on is drawn less often than one that none was."""
    many, worn = 400, np.arange(20, dtype=np.int32)
    made = inputs(
        pair_ids=[f"p{n}" for n in range(many)],
        wanted=[NOTHING] * many,
        own=[NOTHING] * many,
        judged=[worn if n >= 300 else NOTHING for n in range(many)],
        observed=np.ones(N_RUBRICS, np.int64),
    )
    drawn = np.concatenate(pools_of(made, 3)[:300])
    assert (drawn >= 20).sum() > 1.5 * (drawn < 20).sum()


@pytest.mark.parametrize("size", [4, 6, 8])
def test_no_criterion_gets_a_third_place_before_others_have_two(size: int) -> None:
    """Of four criteria with ten wordings each, pools of up to eight have at most two of each."""
    criteria = (np.arange(N_RUBRICS) % 4).astype(np.int32)
    for pool in pools_of(inputs(own=[NOTHING] * N_PAIRS, criteria=criteria), size):
        counts = np.bincount(criteria[pool], minlength=4)
        assert counts.sum() == size
        assert counts.max() <= 2


def test_a_pool_of_nothing_is_refused() -> None:
    """Size 0 is a usage error."""
    with pytest.raises(UsageError, match="pool_size"):
        TrainConfig(pool_size=0)


# ── what a cluster of prompts gives ─────────────────────────────────────────────────────────────────────────────────

KINDS, PROMPTS, RUBRICS = 3, 360, 12


def world() -> tuple[csr_matrix, NDArray[Any], NDArray[Any]]:
    """Return words and mined rubrics of prompts of three kinds; each kind has five words and four rubrics."""
    rng = np.random.default_rng(0)
    kind = np.arange(PROMPTS) % KINDS
    words = rng.random((PROMPTS, 40)) < np.where(np.arange(40)[None] // 5 == kind[:, None], 0.6, 0.1)
    mined = rng.random((PROMPTS, RUBRICS)) < np.where(np.arange(RUBRICS)[None] // 4 == kind[:, None], 0.5, 0.02)
    return csr_matrix(words.astype(float)), mined.astype(float), kind


def ranked(
    features: csr_matrix,
    mined: NDArray[np.float64],
    trained: Sequence[int],
    count: int = RUBRICS,
    words: NDArray[np.float64] | None = None,
    criteria: NDArray[np.int32] | None = None,
) -> list[list[int]]:
    """Return the likely rubrics where nothing is mined from prompts that are not trained on."""
    inside = np.zeros(PROMPTS, bool)
    inside[list(trained)] = True
    held = np.zeros((mined.shape[1], 1)) if words is None else words
    numbers = np.arange(mined.shape[1], dtype=np.int32) if criteria is None else criteria
    given = csr_matrix(mined * inside[:, None])
    return [row.tolist() for row in likely_rubrics(features, given, csr_matrix(held), sorted(trained), count, numbers)]


def test_a_prompt_gets_the_rubrics_of_its_kind_first_also_where_it_gave_none() -> None:
    """Of prompts that were left out, as dev prompts are, nine in ten have their kind's four rubrics in front."""
    features, mined, kind = world()
    found = ranked(features, mined, range(240))
    hits = [set(found[row][:4]) == set(range(4 * kind[row], 4 * kind[row] + 4)) for row in range(240, PROMPTS)]
    assert np.mean(hits) > 0.9


def test_rubrics_that_no_two_prompts_word_alike_go_by_their_words() -> None:
    """Each prompt gives a separate rubric with two of its kind's four words: its kind's rubrics come first."""
    features, _, kind = world()
    rng, words = np.random.default_rng(1), np.zeros((PROMPTS, 12))
    for row in range(PROMPTS):
        words[row, 4 * kind[row] + rng.choice(4, 2, replace=False)] = 1
    share, chance = (
        np.mean([
            np.mean(kind[row] == of)
            for row, of in zip(ranked(features, np.eye(PROMPTS), range(PROMPTS), 20, held), kind, strict=True)
        ])
        for held in (words, None)
    )  # fmt: skip
    assert share > 0.9
    assert chance < 0.5


def test_what_was_mined_from_a_prompt_tells_its_kind_where_its_words_do_not() -> None:
    """A training prompt without a word gets its kind by what it gave; another such prompt gets the bank's usual."""
    features, mined, _ = world()
    blank = features.tolil()
    blank[0], blank[1], blank[300] = 0, 0, 0
    mined[0], mined[1] = np.arange(RUBRICS) // 4 == 0, np.arange(RUBRICS) // 4 == 1
    found = ranked(blank.tocsr(), mined, range(240))
    assert set(found[0][:4]) == {0, 1, 2, 3}
    assert set(found[1][:4]) == {4, 5, 6, 7}
    assert sorted(found[300]) == list(range(RUBRICS))


def test_where_words_tell_nothing_all_prompts_get_the_most_often_mined_first() -> None:
    """One kind for all: the order is how many prompts gave a criterion; each gives its wordings in turn."""
    mined = np.zeros((PROMPTS, 5))
    for rubric, count in enumerate((3, 9, 9, 0, 20)):
        mined[np.random.default_rng(rubric).choice(PROMPTS, count, replace=False), rubric] = 1
    unknown = csr_matrix((PROMPTS, 8))
    assert ranked(unknown, mined, range(PROMPTS)) == [[4, 1, 2, 0]] * PROMPTS
    assert ranked(unknown, mined, range(PROMPTS), count=2) == [[4, 1]] * PROMPTS
    assert ranked(unknown, np.zeros((PROMPTS, 3)), range(50)) == [[]] * PROMPTS
    turns = ranked(unknown, mined, range(PROMPTS), 4, criteria=np.array([0, 1, 1, 0, 0], np.int32))
    assert turns[:3] == [[0, 1, 3, 2], [3, 2, 4, 1], [4, 1, 0, 2]]


# ── judging ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("chosen_first", [True, False])
@pytest.mark.parametrize("order", list(Order))
async def test_z_is_positive_where_the_chosen_response_wins_however_it_was_shown(
    chosen_first: bool, order: Order
) -> None:
    """All four cases of data order and order shown: 1.25 for the chosen response, 0.25 if both pass, NaN unanswered."""
    pair_id = next(f"p{n}" for n in range(99) if hashed_order(f"p{n}") is order)
    judge = Baker({"bad": {OVEN: FAIL, TIME: None}})
    judges = TrainingJudges(judge=judge, author=judge)
    pair, more = replace(PAIR, id=pair_id, chosen_first=chosen_first), Rubric(text="Is kind")
    z, _ = await judged_z(judges, [(pair, [TIME, more, OVEN])])
    np.testing.assert_array_equal(z, [np.nan, 0.25, 1.25])


async def test_pools_are_asked_in_parts_in_order_of_ids() -> None:
    """At most as many rubrics a call as allowed, each once; a part without an answer has no entries."""
    judge, rubrics = Baker({"bad": {}, "worse": None}), [Rubric(text=f"Point {n}") for n in range(7)]
    judges = TrainingJudges(judge=judge, author=judge, rubrics_per_call=3)
    tasks = [(pair, rubrics) for pair in (PAIR, replace(PAIR, id="p9", rejected="worse"))]
    z, outcomes = await judged_z(judges, tasks)
    ordered = sorted(rubric.id for rubric in rubrics)
    assert judge.compared[:3] == judge.compared[3:] == [ordered[n : n + 3] for n in (0, 3, 6)]
    np.testing.assert_array_equal(z, [0.25] * 7 + [np.nan] * 7)
    assert outcomes == {"scored": 3, "context_too_long": 3}


@pytest.mark.parametrize(("policy", "asked"), [
    ("all", [(0, 1), (0, 1), (0, 1), (0, 1), (0,)]),
    ("own", [(0,), (0,), (), (), ()]),
    ("cross", [(0, 1), (0, 1), (0, 1), (0, 1), (0,)]),
])  # fmt: skip
async def test_every_policy_judges_its_pools_once_and_keeps_them(
    tmp_path: Path, policy: Pool, asked: list[tuple[int, ...]]
) -> None:
    """`all` the bank, `own` what the pair gave, never a dev pair on its own; a stage that was kept asks nothing."""
    judge, config = Baker({"bad": {OVEN: FAIL, TIME: None}}), TrainConfig(pool=policy)
    bank = [BankRubric(rubric=OVEN, source_pair_ids=("p0", "p1")), BankRubric(rubric=TIME, source_pair_ids=("p4",))]
    for _ in range(2):
        run = session(tmp_path, config, judge)
        indexed = run.indexed(bank)
        await judge_pools(run, "judge-1", 1, indexed)
        assert [tuple(run.ledger.asked(pair.id, indexed.place)) for pair in run.material.pairs] == asked
        z = {float(value) for pair in run.material.pairs for value in run.ledger.entries(pair.id, indexed.place)[1]}
        assert z == {1.25}
        assert run.stages.outcomes == {"judge-1": {"scored": sum(map(bool, asked))}}
        judge.verdicts = {}
