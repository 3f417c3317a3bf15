"""Scores of tables are the benchmarks' own, with intervals; a printed score differs where chance does not reach."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

import pytest
from stand_ins import official_scores

from svr_async.adapters import get_adapter
from svr_async.adapters.records import PairResult
from svr_async.adapters.rewardbench import SECTIONS, SUBSETS
from svr_async.adapters.rmbench import CELLS, FILES
from svr_async.core.pair import PreferencePair, user_prompt
from svr_async.core.statistics import newcombe_interval, wilson_interval
from svr_async.evaluation.items import Item
from svr_async.reproduction.scores import Score, evenly, mean_of, scored
from svr_async.reproduction.tables.benches import item_parts, level_parts, pair_parts, section_parts


def pair(name: str, domain: str, subset: str, item: str = "", slot: tuple[int, ...] = ()) -> PreferencePair:
    """Return a pair of which only the names matter."""
    return PreferencePair(
        id=name, prompt=user_prompt(name), chosen="a", rejected="b", domain=domain, subset=subset, item=item, slot=slot
    )


def judged(pairs: Sequence[PreferencePair], seed: int) -> tuple[list[Item], list[PairResult]]:
    """Judge pairs by lot: items of a run, and what an adapter scores."""
    rng = random.Random(seed)
    marks = [rng.random() < 0.7 for _ in pairs]
    items = [
        Item(
            id=one.id, item=one.item or one.id, domain=one.domain, subset=one.subset, order="ab", outcome="scored",
            predicted="A" if right else "B", gold="A", correct=right, margin=1.0, margins={}, rubrics=(), flags=(),
            detail="", requests=(),
        )
        for one, right in zip(pairs, marks, strict=True)
    ]  # fmt: skip
    return items, [PairResult(one, 1.0 if right else -1.0) for one, right in zip(pairs, marks, strict=True)]


def of_rmbench() -> Iterator[PreferencePair]:
    """Yield nine pairs a prompt of all five files."""
    for file in FILES:
        for number in range(4):
            for i, j in CELLS:
                item = f"{file}/{number}"
                yield pair(f"{item}/{i}-{j}", file.partition("-")[0], file, item, (i, j))


def test_rewardbench_sections_are_the_official_ones() -> None:
    """Math is weighted up as its authors do, whatever subsets are there."""
    pairs = [
        pair(f"{subset}/{n}", name, subset) for name, held in SECTIONS.items() for subset in held for n in range(3)
    ]
    items, results = judged(pairs, 1)
    official = official_scores(get_adapter("rewardbench"), pairs, results)["sections"]
    for name, value in official.items():
        score = scored(section_parts(items, name))
        assert score is not None
        assert score.value == pytest.approx(value)


def test_rewardbench_2_counts_items_and_beside_them_pairs() -> None:
    """An item needs all three of its pairs; the pairs by themselves are the other number."""
    pairs = [
        pair(f"{name}/{n}/0-{m}", name, name, f"{name}/{n}", (0, m))
        for name in SUBSETS
        if name != "Ties"
        for n in range(5)
        for m in (1, 2, 3)
    ]
    items, results = judged(pairs, 2)
    official = official_scores(get_adapter("rewardbench2"), pairs, results)
    for name in official["pair_level"]:
        whole, single = scored(item_parts(items, name)), scored(pair_parts(items, name))
        assert whole is not None
        assert single is not None
        assert whole.value == pytest.approx(official["subsets"][name])
        assert single.value == pytest.approx(official["pair_level"][name])


def test_rmbench_levels_are_means_over_domains() -> None:
    """Both safety files are one domain, and the nine pairs of a prompt are one witness."""
    pairs = list(of_rmbench())
    items, results = judged(pairs, 3)
    official = official_scores(get_adapter("rmbench"), pairs, results)
    parts = {level: level_parts(items, level) for level in ("easy", "normal", "hard")}
    for level, held in parts.items():
        score = scored(held)
        assert score is not None
        assert score.value == pytest.approx(official[level])
    whole = scored(mean_of(list(parts.values())))
    assert whole is not None
    assert whole.value == pytest.approx(official["overall"])
    assert whole.effective <= len(pairs)


def test_a_plain_share_has_wilsons_interval() -> None:
    """Where all weigh the same and each pair stands alone the effective number is the number of pairs."""
    score = scored(evenly(("", f"{n}", float(n < 30)) for n in range(40)))
    assert score is not None
    assert score.effective == pytest.approx(40)
    assert score.interval == pytest.approx(wilson_interval(30, 40))
    everything = scored(evenly(("", f"{n}", 1.0) for n in range(40)))
    assert everything is not None
    assert everything.interval == pytest.approx(wilson_interval(40, 40))
    assert scored([]) is None


def test_a_printed_score_differs_where_chance_does_not_reach() -> None:
    """Of 1,147 pairs 82.8 and 83.1 % are not told apart, 78 and 83.1 % are."""
    ours = Score(value=0.831, effective=1147)
    assert not ours.differs_from(0.828)
    assert ours.differs_from(0.78)


def test_newcombes_interval_is_that_of_his_paper() -> None:
    """Newcombe 1998, table II, method 10, contrast a: 56/70 less 48/80 gives 0.0524 to 0.3339."""
    found = newcombe_interval(56 / 70, 70, 48 / 80, 80)
    assert (round(found.low, 4), round(found.high, 4)) == (0.0524, 0.3339)
