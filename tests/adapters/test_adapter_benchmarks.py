"""RewardBench, RewardBench 2 and RM-Bench: rows read and refused, official counts, scores of a part."""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from rig import evaluate

from svr_async.adapters import ADAPTERS, get_adapter
from svr_async.adapters.contract import Adapter
from svr_async.adapters.fields import Fields
from svr_async.adapters.records import Parsed, accuracy
from svr_async.adapters.rmbench import CELLS, FILES, difficulty
from svr_async.adapters.rubricbench import GROUPS
from svr_async.adapters.training_sets import TIE
from svr_async.core.pair import PreferencePair
from svr_async.errors import DataError
from svr_async.evaluation.settings import EvalSettings
from svr_async.evaluation.setup import load_sample
from svr_async.training.settings import refuse_benchmark_for_training

Write = Callable[..., Path]
REWARDBENCH, REWARDBENCH2, RMBENCH = (get_adapter(name) for name in ("rewardbench", "rewardbench2", "rmbench"))


def rb(subset: str = "hep-go", n: int = 1) -> dict[str, Any]:
    """Return a row of RewardBench."""
    return {"prompt": "p", "chosen": "good", "rejected": "bad", "subset": subset, "id": n}


def rb2(
    subset: str = "Math",
    n: int | str = 1,
    chosen: Sequence[str] = ("good",),
    rejected: Sequence[str] = ("bad", "worse", "worst"),
) -> dict[str, Any]:
    """Return a row of RewardBench 2."""
    return {"id": str(n), "prompt": f"p{n}", "chosen": list(chosen), "rejected": list(rejected), "subset": subset}


def rm(n: int = 1, **change: Any) -> dict[str, Any]:
    """Return a row of RM-Bench."""
    return {"id": n, "prompt": "p", "chosen": ["c", "cc", "ccc"], "rejected": ["r", "rr", "rrr"], **change}


def test_the_order_of_the_responses_does_not_give_the_answer_away(write: Write) -> None:
    """The data lists chosen first throughout, so the order of the two is drawn by a hash of the id: about half each."""
    path = write("a.jsonl", [rb(n=n) for n in range(400)])
    first = [pair.chosen_first for pair in REWARDBENCH.load(path).pairs]
    assert 150 < sum(first) < 250
    assert first == [pair.chosen_first for pair in REWARDBENCH.load(path).pairs]


def test_an_item_of_rewardbench2_is_three_pairs_and_of_ties_a_round_robin(write: Write) -> None:
    """Right responses meet every wrong one; in Ties also each other, without a preference."""
    ties = rb2("Ties", "tied:3", ("r0", "r1", "r2"), ("w0", "w1"))
    pairs = REWARDBENCH2.load(write("a.parquet", [rb2("Precise IF", 7), ties])).pairs
    assert [pair.id for pair in pairs[:3]] == [f"Precise IF/7/0-{j}" for j in (1, 2, 3)]
    assert {(pair.item, pair.chosen, pair.domain) for pair in pairs[:3]} == {("Precise IF/7", "good", "Precise IF")}
    assert [pair.rejected for pair in pairs[:3]] == ["bad", "worse", "worst"]
    assert [pair.slot for pair in pairs[3:] if pair.has_preference] == [(i, j) for i in range(3) for j in (3, 4)]
    assert [pair.slot for pair in pairs if not pair.has_preference] == [(0, 1), (0, 2), (1, 2)]
    assert [pair.gold for pair in pairs[-3:]] == [None] * 3


def test_a_prompt_of_rmbench_is_nine_pairs(write: Write, tmp_path: Path) -> None:
    """Every chosen style meets every rejected one; the domain is in a column, or in the file's name."""
    pairs = RMBENCH.load(write("total_dataset.json", [rm(domain="safety-refuse")])).pairs
    assert [pair.slot for pair in pairs] == list(CELLS)
    assert (pairs[1].chosen, pairs[1].rejected, pairs[1].id) == ("c", "rr", "safety-refuse/1/0-1")
    assert {(pair.domain, pair.subset) for pair in pairs} == {("safety", "safety-refuse")}
    assert [difficulty(cell) for cell in CELLS] == [
        "normal", "hard", "hard", "easy", "normal", "hard", "easy", "easy", "normal",
    ]  # fmt: skip
    write("by_file/chat_filtered.json.gz", [rm(8)])
    write("by_file/code_filtered.json", [rm(8)])
    assert {pair.item for pair in RMBENCH.load(tmp_path / "by_file").pairs} == {"chat/8", "code/8"}


@pytest.mark.parametrize(
    ("name", "row", "message"),
    [
        ("rewardbench2", {**rb2(), "chosen": "text"}, "expected a list of texts"),
        ("rewardbench2", {**rb2(), "chosen": []}, "expected a list of texts"),
        ("rewardbench2", {**rb2(), "rejected": [1]}, "expected a list of texts"),
        ("rewardbench2", {**rb2(), "rejected": None}, "expected a list of texts"),
        ("rewardbench2", rb2("Ties", "12"), r"called ref:<n> or tied:<n>, found '12'"),
        ("rmbench", rm(domain="chat", chosen=["a", "b"]), "expected a list of 3 texts"),
        ("rmbench", rm(domain="chat", rejected=list("abcd")), "expected a list of 3 texts"),
        ("rmbench", rm(domain="chat", chosen=["a", "b", None]), "expected a list of 3 texts"),
        ("rmbench", rm(domain="poetry"), "column 'domain': expected one of"),
        ("rmbench", rm(), "no column 'domain' and no domain in the file's name"),
    ],
)
def test_rows_that_cannot_be_scored_are_refused(write: Write, name: str, row: dict[str, Any], message: str) -> None:
    """A row that breaks its schema is an error, which says how."""
    with pytest.raises(DataError, match=message):
        get_adapter(name).load(write("a.json", [row]))


def test_official_counts_are_recognised(write: Write) -> None:
    """All rows of a release make a data set official; a row in another group does not."""
    counts = REWARDBENCH.groups
    rows = [rb(subset, n) for subset, size in counts.items() for n in range(size)]
    assert len(rows) == 2985
    assert REWARDBENCH.load(write("all.jsonl", rows), official=True).official
    rows[0] = rb("hep-js", 9999)
    with pytest.raises(DataError, match="rows by group differ"):
        REWARDBENCH.load(write("moved.jsonl", rows), official=True)
    assert sum(REWARDBENCH2.groups.values()) == 1865
    dataset = RMBENCH.load(
        write("total_dataset.json.gz", [rm(n, domain=name) for name, size in FILES.items() for n in range(size)]),
        official=True,
    )
    assert (dataset.official, len(dataset.pairs)) == (True, 11_943)


# --- RMB and HelpSteer3 -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["rmb", "pairs"])
def test_a_record_of_rmb_is_a_pair_with_its_category(write: Write, name: str) -> None:
    """The top category is the domain, the rest the subset; empty and identical answers are counted, not used."""

    def record(number: int, chosen: str, rejected: str) -> dict[str, Any]:
        return {
            "pair_uid": str(number), "conversation_input": [{"role": "user", "content": "hi", "language": "English"}],
            "chosen": {"llm_name": "m", "answer": chosen}, "reject": {"llm_name": "m", "answer": rejected},
            "category_path": "Pairwise_set/Helpfulness/Chat/Discussion",
        }  # fmt: skip

    rows = [record(1, "good", "bad"), record(2, "", "bad"), record(3, "good", " \n"), record(4, "x", "x")]
    dataset = get_adapter(name).load(write("a.json.gz", rows))
    assert [(pair.id, pair.chosen, pair.domain, pair.subset) for pair in dataset.pairs] == [
        ("1", "good", "helpfulness", "Chat/Discussion")
    ]
    assert dataset.skipped == {"an answer is empty": 2, "the two answers are identical": 1}


def test_the_sign_of_helpsteer3_names_the_better_response(write: Write) -> None:
    """Below 0 it is response1, above 0 response2, with the distance as strength; ties are counted, not used."""
    rows = [
        {"domain": "code", "language": "python", "context": [{"role": "user", "content": f"Write {sign}."}],
         "response1": "one", "response2": "two", "overall_preference": sign} for sign in (-3, 1, 0)
    ]  # fmt: skip
    dataset = get_adapter("helpsteer3").load(write("train.jsonl.gz", rows))
    assert [(pair.chosen, pair.strength, pair.subset) for pair in dataset.pairs] == [
        ("one", 3, "python"), ("two", 1, "python"),
    ]  # fmt: skip
    assert dataset.skipped == {TIE: 1}


# --- the sample and a new benchmark -----------------------------------------------------------------------------------


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


def test_a_new_benchmark_is_one_file_and_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An adapter in the registry is all: a run of it has its pairs, scores and name."""

    def parse(fields: Fields) -> Parsed:
        prompt = fields.prompt("question")
        return Parsed(pairs=(PreferencePair(id="1", prompt=prompt, chosen=fields.text("good"), rejected="No."),))

    made = Adapter(
        name="made", title="MADE", licence="none", columns=("question", "good"),
        parse=parse, score=lambda results, tie: {"overall": accuracy(results, tie), "rule": "plain"},
    )  # fmt: skip
    monkeypatch.setitem(ADAPTERS, "made", made)
    (tmp_path / "made.jsonl").write_text('{"question": "Name three cats.", "good": "Lion, lynx and tiger."}\n')
    done = evaluate(
        EvalSettings(benchmark="made", data=tmp_path / "made.jsonl", method="longest", out=tmp_path / "run")
    )
    assert done.complete
    assert done.metrics["official"]["overall"] == 1.0
    assert "MADE" in (tmp_path / "run" / "report.html").read_text("utf-8")
    with pytest.raises(DataError, match="MADE, and that is for evaluation only"):
        refuse_benchmark_for_training("made.jsonl")
