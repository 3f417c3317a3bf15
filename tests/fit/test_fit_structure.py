"""The structure chosen by cross-validation: what was planted is taken, and nothing more than the data show."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_matrix, vstack

from svr_async.fit import structure
from svr_async.fit.config import Choice, Structure
from svr_async.fit.evidence import Evidence
from svr_async.fit.paraphrase_clusters import ParaphraseClusters, cluster_paraphrases, one_each
from svr_async.fit.structure import choose, prompt_kinds, top_k_steps, used_points

RUBRICS, WORDS = 16, 40
TOP_KS = (2, 4)


def planted(n: int = 600, *, kinds: int = 2, pool: int = 12, seed: int = 0) -> Evidence:
    """Return evidence of pairs with a prompt each: a kind has five words, and two rubrics that decide its pairs.

    What decides favours the chosen response in 85 % of pairs.
    """
    rng = np.random.default_rng(seed)
    kind, rubric = np.arange(n) % kinds, np.arange(RUBRICS)
    decides = rubric // 2 == kind[:, None]
    z = rng.choice([0.25, 0.75, 1.25], (n, RUBRICS)) * np.where(rng.random((n, RUBRICS)) < 0.5, 1, -1)
    z = np.where(decides & (rng.random(z.shape) < 0.85), np.abs(z), np.where(decides, -np.abs(z), z))
    judged = rng.random((n, RUBRICS)).argsort(axis=1) < pool
    words = rng.random((n, WORDS)) < np.where(np.arange(WORDS)[None] // 5 == kind[:, None], 0.4, 0.05)
    mined = rng.random((n, RUBRICS)) < np.where(rubric // 2 == kind[:, None], 0.5, 0.03)
    return evidence(csr_matrix(z * judged), csr_matrix(words.astype(float)), csr_matrix(mined.astype(float)))


def evidence(z: csr_matrix, features: csr_matrix, mined: csr_matrix, prompt: NDArray[Any] | None = None) -> Evidence:
    """Return the evidence of sparse z, a prompt a pair, without wordings or likeness."""
    prompt = np.arange(z.shape[0]) if prompt is None else prompt
    own = one_each(z.shape[1])
    return Evidence(
        z=z, merged=z, paraphrases=own, prompt=prompt, features=features, views={"rubrics": mined}, mined=mined
    )


def chosen(given: Evidence, *, most_groups: int = 16, top_ks: tuple[int, ...] = TOP_KS, seed: int = 0) -> Choice:
    """Return the choice."""
    return choose(given, top_ks, kinds=prompt_kinds(given, most=most_groups, seed=seed), seed=seed)


@pytest.fixture(scope="module")
def of_two_kinds() -> Choice:
    """Return the choice for two planted kinds."""
    return chosen(planted())


def test_two_kinds_of_prompts_are_two_groups_or_more(of_two_kinds: Choice) -> None:
    """Where different rubrics decide, no structure without groups is within chance of the best."""
    assert of_two_kinds.structure.groups > 1
    grouped = [trial.accuracy for trial in of_two_kinds.trials if trial.structure.groups > 1]
    assert max(grouped) > max(t.accuracy for t in of_two_kinds.trials if t.structure.groups == 1) + 0.03


@pytest.mark.parametrize("seed", [0, 1])
def test_one_kind_of_prompts_is_one_group(seed: int) -> None:
    """Where the same rubrics decide for all, there are no groups, though words and rubrics are many."""
    assert chosen(planted(kinds=1, seed=seed)).structure.groups == 1


def test_little_data_are_one_group() -> None:
    """With thirty prompts nothing is said of groups: there is no candidate with more than one."""
    choice = chosen(planted(30))
    assert {trial.structure.groups for trial in choice.trials} == {1}
    assert choice.structure.groups == 1


@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_a_handful_of_pairs_is_enough_to_choose(n: int) -> None:
    """With less than a pair for each fold something is chosen, and nothing is NaN."""
    choice = chosen(planted(n))
    assert choice.structure.top_k <= RUBRICS
    assert np.isfinite([[trial.accuracy, trial.error] for trial in choice.trials]).all()


def test_every_candidate_is_tried_and_told(of_two_kinds: Choice) -> None:
    """Trials hold each number of groups with each penalty and each number of rubrics, once, with accuracy and error."""
    tried = [trial.structure for trial in of_two_kinds.trials]
    structures = [each for each in tried if each.solver == "margin" and each.sparsity]
    groups, tops = ({getattr(each, name) for each in structures} for name in ("groups", "top_k"))
    penalties = {(each.sparsity, each.common) for each in structures}
    assert len(set(tried)) == len(tried)
    assert {each.top_k for each in tried if each.solver == "shrunken"} == tops
    assert len(structures) == len(groups) * len(tops) * len(penalties)
    assert tops >= set(TOP_KS)
    assert {common > 0 for _, common in penalties} == {True, False}, "with a part in common and without"
    assert of_two_kinds.structure in structures
    assert all(0.3 < trial.accuracy < 1 and 0 < trial.error < 0.05 for trial in of_two_kinds.trials)


def taken(rows: list[Structure], points: NDArray[np.float64], few: bool = False) -> Choice:
    """Return the choice of these candidates, points by candidate and pair."""
    return structure._chosen(rows, points, "prompts", few=few)


def test_the_simplest_within_chance_of_the_best_is_taken() -> None:
    """Of near-equals the fewest groups, then the least of its own, then the fewest rubrics; never what is worse."""
    rows = [Structure(groups=4, sparsity=0.1, top_k=4), Structure(groups=1, sparsity=0.3, top_k=4),
            Structure(groups=1, sparsity=0.3, top_k=2), Structure(groups=1, sparsity=0.6, top_k=4)]  # fmt: skip
    equal = np.ones((4, 400))
    equal[:, :100] = 0
    assert taken(rows, equal).structure == rows[3]
    equal[3, 100:180] = 0
    assert taken(rows, equal).structure == rows[2]
    equal[1:, 100:180] = 0
    assert taken(rows, equal).structure == rows[0]


def test_others_as_good_may_be_averaged_with_it() -> None:
    """Those near the best, with as many rubrics and solved alike, the best first, never the taken one itself."""
    rows = [Structure(groups=size, top_k=k) for k in (2, 4) for size in (1, 2, 4)]
    rows.append(Structure(solver="shrunken", sparsity=0.0, top_k=2))
    points = np.ones((7, 400))
    points[0, :2], points[1, :3], points[2, 3:5], points[3:6, :80] = 0, 0, 0, 0
    choice = taken(rows, points)
    assert choice.structure == rows[6], "it is the best by itself"
    assert choice.averaged == ()
    choice = taken(rows[:6], points[:6])
    assert choice.structure == rows[0]
    assert choice.averaged[0] == rows[2]
    assert set(choice.averaged) <= {rows[1], rows[2]}


def test_points_are_those_of_use_where_what_was_not_judged_says_nothing() -> None:
    """The best k of the whole bank decide; of those not judged on a pair nothing comes, and a tie is half."""
    effects = np.array([[0.9, 0.5, 0.1], [0.1, 0.5, 0.9]])
    mixture = np.array([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    z = csr_matrix([[-0.25, 0.0, 1.25], [0.0, 0.0, 1.25], [0.25, -1.25, 0.0], [-1.25, 0.0, 0.25]])
    for top_k, points in {1: [0, 0.5, 1, 1], 2: [0, 0.5, 0, 1], 99: [0, 1, 0, 1]}.items():
        assert used_points(mixture, effects, z, [top_k]).tolist() == [points]
    assert used_points(mixture, effects, z, [99, 1]).tolist() == [[0, 1, 0, 1], [0, 0.5, 1, 1]]
    alone = used_points(np.ones((4, 1)), effects[:1], z, [1, 2])
    assert alone.tolist() == used_points(np.full((4, 2), 0.5), effects[[0, 0]], z, [1, 2]).tolist()


def test_points_of_many_pairs_are_found_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few pairs at a time, with the same points."""
    rng = np.random.default_rng(4)
    mixture, effects = rng.dirichlet([1, 1, 1], 50), rng.random((3, 9))
    z = csr_matrix(rng.choice([-1.25, 0, 0.75], (50, 9)))
    whole = used_points(mixture, effects, z, (2, 4))
    monkeypatch.setattr(structure, "MOST_CELLS", 70)
    np.testing.assert_array_equal(used_points(mixture, effects, z, (2, 4)), whole)


def test_groups_are_bounded_and_need_words_and_mined_rubrics() -> None:
    """No more groups than the settings allow; without what tells prompts apart there is one."""
    given = planted()
    assert max(trial.structure.groups for trial in chosen(given, most_groups=2, top_ks=(2,)).trials) == 2
    assert chosen(replace(given, views={}, mined=None), top_ks=(2,)).structure.groups == 1
    assert chosen(replace(given, features=csr_matrix((600, 0))), top_ks=(2,)).structure.groups == 1


def test_hundreds_of_pairs_of_a_prompt_are_no_evidence_of_many_prompts() -> None:
    """What bounds the groups is the number of prompts, not of pairs."""
    single = planted(30)
    prompt = np.tile(np.arange(30), 10)
    given = evidence(vstack([planted(30, seed=seed).z for seed in range(10)]), single.features, single.mined, prompt)
    assert {trial.structure.groups for trial in chosen(given, top_ks=(2,)).trials} == {1}


def test_wordings_take_part_in_the_choice() -> None:
    """With each rubric in two wordings the choice is by criteria and their spread, and does as well as without."""
    single = planted(kinds=1)
    rng = np.random.default_rng(5)
    twin = single.z.copy()
    twin.data = np.where(rng.random(len(twin.data)) < 0.05, -twin.data, twin.data)
    z = csr_matrix(np.hstack([single.z.toarray(), twin.toarray()]))
    paraphrases = cluster_paraphrases(z)
    assert paraphrases.count == RUBRICS
    both = replace(single, z=z, merged=paraphrases.merge(z), paraphrases=paraphrases)
    with_twins, alone = (max(trial.accuracy for trial in chosen(each, top_ks=(4,)).trials) for each in (both, single))
    assert with_twins > alone - 0.02


@pytest.mark.parametrize("judged", [1, 4])
def test_shrunken_means_are_tried_if_most_wordings_are_judged(judged: int) -> None:
    """Of four wordings of each criterion, pairs are judged on one in turn, or on all."""
    single, of = planted(kinds=1), np.repeat(np.arange(RUBRICS), 4)
    turn = (np.arange(single.z.shape[0])[:, None] + np.arange(4 * RUBRICS)) % 4 < judged
    z = csr_matrix(single.z.toarray()[:, of] * turn)
    paraphrases = ParaphraseClusters(of=of, agreement=np.full(RUBRICS, 0.5))
    worded = replace(single, z=z, merged=paraphrases.merge(z), paraphrases=paraphrases)
    assert ("shrunken" in {trial.structure.solver for trial in chosen(worded).trials}) is (judged == 4)


def test_the_same_evidence_gives_the_same_choice(of_two_kinds: Choice) -> None:
    """To the last digit; another seed has other folds."""
    assert chosen(planted()) == of_two_kinds
    assert chosen(planted(), seed=1).trials != of_two_kinds.trials


def test_a_large_corpus_is_tried_on_a_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    """Above the limit a sample of pairs is tried, the same each time."""
    monkeypatch.setattr(structure, "MOST_PAIRS", 200)
    first, second = (chosen(planted(), most_groups=1, top_ks=(2,)) for _ in range(2))
    assert first == second
    assert all(trial.error > 0.02 for trial in first.trials)


def test_a_structure_has_words() -> None:
    """They name groups, sparsity and rubrics, and count spurious rubrics."""
    some = Structure(groups=4, sparsity=0.6, common=0.3, top_k=9)
    assert some.in_words() == "4 groups of prompts, sparsity 0.6, shared 0.3, up to 9 rubrics a prompt"
    assert Structure().in_words().startswith("one group of prompts")
    one = Choice(structure=Structure(sparsity=0.0, top_k=9), spurious=(3, 4))
    assert one.in_words() == "one weight per rubric, up to 9 rubrics a prompt, 2 rubrics spurious"


def test_dense_entries_open_further_numbers_of_rubrics_up_to_all() -> None:
    """Several numbers double up to all rubrics if nearly all entries are judged; a single one stays."""
    assert top_k_steps(planted(pool=16), (2, 4)) == (2, 4, 8, 16)
    assert top_k_steps(planted(), (2, 4)) == (2, 4)
    assert top_k_steps(planted(pool=16), (4,)) == (4,)


def test_one_weight_per_rubric_is_taken_where_all_rubrics_decide() -> None:
    """With 64 rubrics that all matter and are all judged, more rubrics per prompt beat the usual few."""
    rng = np.random.default_rng(0)
    z = rng.choice([-1.25, -0.25, 0.25, 1.25], (1200, 64))
    z *= np.where(z @ rng.exponential(1, 64) < 0, -1, 1)[:, None]
    given = evidence(csr_matrix(z), csr_matrix((1200, 0)), csr_matrix((1200, 64)))
    choice = chosen(replace(given, views={}, mined=None), top_ks=(6, 12))
    assert choice.structure.top_k > 12
    assert Structure(sparsity=0.0, top_k=64) in [trial.structure for trial in choice.trials]
    assert choice.taken is not None
    few = max(trial.accuracy for trial in choice.trials if trial.structure.top_k == 6)
    assert choice.taken.accuracy > few + 0.05
