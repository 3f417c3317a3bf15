"""Pools: which rubrics are judged for a pair, planned as if the pair had not been mined."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from svr_async.core.rubric import Rubric
from svr_async.errors import UsageError
from svr_async.training.bank.merge import Candidate
from svr_async.training.rounds.config import PoolConfig, PoolPolicy
from svr_async.training.rounds.pools import PoolInputs, choose_pools
from svr_async.training.rounds.session import Sources

N_PAIRS, N_RUBRICS = 12, 40
NOTHING = np.zeros(0, np.int32)


def bank(seed: int = 0) -> list[Candidate]:
    """Return rubrics of one to three source pairs each."""
    rng = np.random.default_rng(seed)
    picks = [rng.choice(N_PAIRS, size=rng.integers(1, 4), replace=False) for _ in range(N_RUBRICS)]
    return [
        Candidate(rubric=Rubric(text=f"Point {n}"), source_pair_ids=tuple(f"p{k}" for k in pick), observed_count=n + 1)
        for n, pick in enumerate(picks)
    ]


def inputs(seed: int = 0, **changes: Any) -> PoolInputs:
    """Return the inputs of twelve pairs with a prompt each, whose kind gives nine rubrics."""
    sources = Sources.of(bank(seed), {f"p{n}": n for n in range(N_PAIRS)})
    rows = range(N_PAIRS)
    made = PoolInputs(
        pair_ids=[f"p{row}" for row in rows],
        likely=[np.random.default_rng([seed, row]).permutation(N_RUBRICS)[:9].astype(np.int32) for row in rows],
        mined=[sources.mined(row) for row in rows],
        own=[sources.own(row) for row in rows],
        observed=np.arange(1, N_RUBRICS + 1),
        judged=[NOTHING] * N_PAIRS,
        preferred=[NOTHING] * N_PAIRS,
        criteria=np.arange(N_RUBRICS, dtype=np.int32),
    )
    return replace(made, **changes)


def as_lists(pools: list[NDArray[np.int32]]) -> list[list[int]]:
    """Return pools as lists."""
    return [pool.tolist() for pool in pools]


@given(seed=st.integers(0, 300), size=st.integers(1, 60), number=st.integers(1, 4))
@settings(deadline=None, max_examples=60)
def test_rubrics_that_only_this_prompt_gave_are_never_in_its_pool(seed: int, size: int, number: int) -> None:
    """Whatever the sizes: no own rubric, no rubric twice, rising order, and as many as asked for where there are."""
    made = inputs(seed)
    for row, pool in enumerate(choose_pools(made, PoolConfig(size=size), round_number=number)):
        own = set(made.own[row].tolist())
        assert not own & set(pool.tolist())
        assert pool.tolist() == sorted(set(pool.tolist()))
        assert len(pool) == min(size, N_RUBRICS - len(own))
        assert pool.dtype == np.int32


def test_a_rubric_that_other_prompts_gave_too_may_be_judged_where_it_was_mined() -> None:
    """With room for all of them, a pool holds the shared rubrics and lacks only the own ones."""
    made = inputs()
    shared = 0
    for row, pool in enumerate(choose_pools(made, PoolConfig(size=N_RUBRICS), round_number=1)):
        assert set(pool.tolist()) == set(range(N_RUBRICS)) - set(made.own[row].tolist())
        shared += len(set(pool.tolist()) & set(made.mined[row].tolist()))
    assert shared > 0


@pytest.mark.parametrize("size", [5, 8, 10])
def test_rubrics_that_the_kind_of_prompts_gives_come_first(size: int) -> None:
    """All but the explored part of a pool is what the pair's kind gives, the likeliest first, without own ones."""
    made = inputs()
    for row, pool in enumerate(choose_pools(made, PoolConfig(size=size), round_number=1)):
        own = set(made.own[row].tolist())
        wanted = [index for index in made.likely[row].tolist() if index not in own]
        assert set(wanted[: size - size // 4]) <= set(pool.tolist())


def test_a_part_of_every_pool_is_drawn_from_the_whole_bank() -> None:
    """However much a kind gives and a selector prefers, pools of all pairs hold rubrics beyond that."""
    known = np.arange(20, dtype=np.int32)
    made = inputs(own=[NOTHING] * N_PAIRS, likely=[known] * N_PAIRS, preferred=[known[::-1]] * N_PAIRS)
    for size in (1, 4, 10, 20):
        pools = choose_pools(made, PoolConfig(size=size), round_number=1)
        drawn = np.concatenate(pools)
        assert 0 < (drawn >= 20).sum() <= max(len(pools), len(drawn) / 2)


def test_where_nothing_is_known_of_a_kind_the_whole_pool_is_drawn() -> None:
    """No likely rubrics, as of a prompt without known words: pools are as large, and differ from pair to pair."""
    pools = as_lists(choose_pools(inputs(likely=[NOTHING] * N_PAIRS), PoolConfig(size=6), round_number=1))
    assert {len(pool) for pool in pools} == {6}
    assert len({tuple(pool) for pool in pools}) == N_PAIRS


def test_plans_are_repeatable_and_differ_by_round_and_pair() -> None:
    """The same inputs give the same pools; another round or another pair id draws others."""
    made, config = inputs(), PoolConfig(size=6)
    first = as_lists(choose_pools(made, config, round_number=1))
    assert as_lists(choose_pools(made, config, round_number=1)) == first
    assert as_lists(choose_pools(made, config, round_number=2)) != first
    renamed = replace(made, pair_ids=[f"q{n}" for n in range(N_PAIRS)])
    assert as_lists(choose_pools(renamed, config, round_number=1)) != first


def test_a_draw_depends_on_the_pair_id_and_the_round_and_not_on_the_place() -> None:
    """Alone in its plan, a pair draws the same rubrics wherever it stood, and later pairs never change earlier ones."""
    made, config = inputs(), PoolConfig(size=6)
    whole = as_lists(choose_pools(made, config, round_number=1))

    def part(rows: range | list[int]) -> PoolInputs:
        names = ("pair_ids", "likely", "mined", "own", "judged", "preferred")
        parts: dict[str, Any] = {name: [getattr(made, name)[row] for row in rows] for name in names}
        return replace(made, **parts)

    assert as_lists(choose_pools(part(range(5)), config, round_number=1)) == whole[:5]
    alone = as_lists(choose_pools(part([7]), config, round_number=1))
    assert alone == as_lists(choose_pools(part([7]), config, round_number=1))
    assert as_lists(choose_pools(part([0]), config, round_number=1)) == whole[:1]


def test_rubrics_that_are_judged_already_are_left_out() -> None:
    """A second plan of the same round asks nothing again."""
    made, config = inputs(), PoolConfig(size=10)
    first = choose_pools(made, config, round_number=1)
    second = choose_pools(replace(made, judged=first), config, round_number=1)
    for before, after in zip(first, second, strict=True):
        assert not set(before.tolist()) & set(after.tolist())
    everything = [np.arange(N_RUBRICS, dtype=np.int32)] * N_PAIRS
    for policy in PoolPolicy:
        again = choose_pools(replace(made, judged=everything), PoolConfig(policy=policy), round_number=1)
        assert as_lists(again) == [[]] * N_PAIRS


def test_policy_own_takes_what_was_mined_from_the_pair_and_all_takes_the_bank() -> None:
    """The two other policies, for the ablation and for judges that cost nothing."""
    made = inputs()
    own = choose_pools(made, PoolConfig(policy=PoolPolicy.OWN, size=3), round_number=1)
    assert as_lists(own) == [sorted(mined.tolist())[:3] for mined in made.mined]
    whole = choose_pools(made, PoolConfig(policy=PoolPolicy.ALL, size=3), round_number=1)
    assert as_lists(whole) == [list(range(N_RUBRICS))] * N_PAIRS


def test_the_selectors_favourites_fill_half_of_the_pool() -> None:
    """The five best favourites of a pool of ten are taken, before what the kind gives, and own ones never."""
    made = inputs()
    favourites = np.arange(N_RUBRICS, dtype=np.int32)
    pools = choose_pools(replace(made, preferred=[favourites] * N_PAIRS), PoolConfig(size=10), round_number=2)
    for row, pool in enumerate(pools):
        own = set(made.own[row].tolist())
        assert {0, 1, 2, 3, 4} - own <= set(pool.tolist())
        assert not own & set(pool.tolist())


def test_rarely_judged_rubrics_are_drawn_more_often() -> None:
    """A rubric that most pairs were judged on is drawn less often than one that none was."""
    many = 400
    made = inputs()
    rows = [n % N_PAIRS for n in range(many)]
    worn = np.arange(20, dtype=np.int32)
    grown = replace(
        made,
        pair_ids=[f"p{n}" for n in range(many)],
        likely=[NOTHING] * many,
        mined=[made.mined[row] for row in rows],
        own=[NOTHING] * many,
        observed=np.ones(N_RUBRICS, np.int64),
        judged=[worn if n >= 300 else NOTHING for n in range(many)],
        preferred=[NOTHING] * many,
    )
    drawn = np.concatenate(choose_pools(grown, PoolConfig(size=3), round_number=1)[:300])
    assert (drawn >= 20).sum() > 1.5 * (drawn < 20).sum()


def test_a_pool_of_nothing_is_refused_and_an_empty_bank_has_empty_pools() -> None:
    """Size 0 is a usage error; no rubrics give no pools, and no crash."""
    with pytest.raises(UsageError, match="pool size"):
        PoolConfig(size=0)
    nobody = inputs(
        mined=[NOTHING] * N_PAIRS,
        own=[NOTHING] * N_PAIRS,
        likely=[NOTHING] * N_PAIRS,
        observed=np.zeros(0, np.int64),
        criteria=np.zeros(0, np.int32),
    )
    assert as_lists(choose_pools(nobody, PoolConfig(), round_number=1)) == [[]] * N_PAIRS


def test_a_pool_is_as_large_as_asked_for() -> None:
    """At every size, whatever a kind gives."""
    made = inputs(own=[NOTHING] * N_PAIRS)
    for size in (1, 4, 8, 9, 18):
        assert {len(pool) for pool in choose_pools(made, PoolConfig(size=size), round_number=1)} == {size}


def test_a_pool_takes_each_criterion_once_before_any_second_wording() -> None:
    """Of four criteria with ten wordings each, pools of four and six have at least one of each."""
    criteria = (np.arange(N_RUBRICS) % 4).astype(np.int32)
    made = inputs(own=[NOTHING] * N_PAIRS, criteria=criteria)
    for size in (4, 6):
        for pool in choose_pools(made, PoolConfig(size=size), round_number=1):
            counts = np.bincount(criteria[pool], minlength=4)
            assert counts.sum() == size
            assert counts.min() == 1
