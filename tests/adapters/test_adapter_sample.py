"""The shipped sample: our own and balanced."""

from collections import Counter, defaultdict

from svr_async.adapters.rubricbench import GROUPS
from svr_async.evaluation.setup import load_sample


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
