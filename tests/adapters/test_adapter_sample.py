"""The shipped sample: our own, balanced, and right where a program can tell."""

from collections import Counter, defaultdict

from sample_proofs import PROOFS

from svr_async.adapters import load_sample
from svr_async.adapters.rubricbench import GROUPS

UNPROVED_STEM = 2  # explanations of science


def test_the_better_response_passes_its_proof_and_the_worse_one_does_not() -> None:
    """Code that runs, sums that come out and constraints that can be counted are proved, item by item."""
    pairs = {pair.id: pair for pair in load_sample().pairs}
    for case_id, proof in PROOFS.items():
        assert proof(pairs[case_id].chosen), f"{case_id}: the better response fails its proof"
        assert not proof(pairs[case_id].rejected), f"{case_id}: the worse response passes its proof"
    unproved = [pair.domain for pair in pairs.values() if pair.id not in PROOFS]
    assert not {"CODE", "IF"} & set(unproved)
    assert unproved.count("STEM") <= UNPROVED_STEM


def test_the_sample_is_balanced() -> None:
    """At least 60 pairs over the five groups, with as many labels of one kind as of the other in each."""
    dataset = load_sample()
    sides: defaultdict[str, Counter[int]] = defaultdict(Counter)
    for pair in dataset.pairs:
        sides[pair.domain][pair.chosen_first] += 1
    assert len(dataset.pairs) >= 60
    assert set(sides) == set(GROUPS)
    assert all(count[True] == count[False] for count in sides.values())


def test_length_does_not_give_the_better_response_away() -> None:
    """Picking the longer response, or the shorter one, is right about half of the time, overall and by group."""
    longer = defaultdict(list)
    for pair in load_sample().pairs:
        longer[pair.domain].append(len(pair.chosen) > len(pair.rejected))
    everything = [flag for flags in longer.values() for flag in flags]
    assert 0.4 < sum(everything) / len(everything) < 0.6
    assert all(0.3 < sum(flags) / len(flags) < 0.7 for flags in longer.values())


def test_every_item_has_rubrics_and_a_text_of_its_own() -> None:
    """Three to seven rubrics an item, no prompt twice, no response twice, no empty text."""
    pairs = load_sample().pairs
    assert all(3 <= len(pair.rubrics) <= 7 for pair in pairs)
    texts = [text for pair in pairs for text in (pair.prompt[0].content, pair.chosen, pair.rejected)]
    assert len(set(texts)) == len(texts)
    assert all(text.strip() for text in texts)


def test_the_sample_does_not_pass_for_the_benchmark() -> None:
    """The sample says that it is not RubricBench, and is not official."""
    dataset = load_sample()
    assert not dataset.official
    assert dataset.name == "rubricbench-sample"
    assert dataset.notes == ("the sample shipped with svr-async, not a benchmark",)
