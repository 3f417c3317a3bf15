"""The shipped sample: made by our own generator, balanced, and right where a program can tell."""

import importlib.util
import sys
from collections import Counter, defaultdict
from importlib.resources import files
from pathlib import Path

import pytest

from svr_async.adapters import load_sample
from svr_async.adapters.rubricbench import GROUPS

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def generator():
    """Return the generator, benchmarks/make_samples.py, as a module."""
    spec = importlib.util.spec_from_file_location("make_samples", ROOT / "benchmarks/make_samples.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["make_samples"] = module
    spec.loader.exec_module(module)
    return module


def test_the_generator_writes_the_same_bytes(generator, capsys):
    """The shipped file is what the generator writes, byte for byte; on the way every proof holds."""
    shipped = files("svr_async.adapters") / "samples" / "rubricbench_sample.jsonl"
    assert generator.sample_bytes() == shipped.read_bytes()
    assert generator.main(["--check"]) == 0
    assert "up to date" in capsys.readouterr().out


def test_most_code_sum_and_instruction_items_are_proved(generator):
    """Code that runs, sums that come out and constraints that can be counted carry a proof."""
    assert all(item.proof for item in (*generator.CODE, *generator.FOLLOWING))
    assert sum(item.proof is not None for item in generator.STEM) >= 12


def test_the_sample_is_balanced():
    """At least 60 pairs over the five groups, with as many labels of one kind as of the other in each."""
    dataset = load_sample()
    sides = defaultdict(Counter)
    for pair in dataset.pairs:
        sides[pair.domain][pair.chosen_first] += 1
    assert len(dataset.pairs) >= 60
    assert set(sides) == set(GROUPS)
    assert all(count[True] == count[False] for count in sides.values())


def test_length_does_not_give_the_better_response_away():
    """Picking the longer response, or the shorter one, is right about half of the time, overall and by group."""
    longer = defaultdict(list)
    for pair in load_sample().pairs:
        longer[pair.domain].append(len(pair.chosen) > len(pair.rejected))
    everything = [flag for flags in longer.values() for flag in flags]
    assert 0.4 < sum(everything) / len(everything) < 0.6
    assert all(0.3 < sum(flags) / len(flags) < 0.7 for flags in longer.values())


def test_every_item_has_rubrics_and_a_text_of_its_own():
    """Three to seven rubrics an item, no prompt twice, no response twice, no empty text."""
    pairs = load_sample().pairs
    assert all(3 <= len(pair.rubrics) <= 7 for pair in pairs)
    texts = [text for pair in pairs for text in (pair.prompt[0].content, pair.chosen, pair.rejected)]
    assert len(set(texts)) == len(texts)
    assert all(text.strip() for text in texts)


def test_the_sample_does_not_pass_for_the_benchmark():
    """The sample says that it is not RubricBench, and is not official."""
    dataset = load_sample()
    assert not dataset.official
    assert dataset.name == "rubricbench-sample"
    assert dataset.notes == ("the sample shipped with svr-async, not a benchmark",)
