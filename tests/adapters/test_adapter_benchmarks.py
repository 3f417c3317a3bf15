"""RewardBench, RewardBench 2 and RM-Bench: what a row becomes, what is refused, official counts, scores of a part."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from svr_async.adapters import get_adapter
from svr_async.adapters.rmbench import CELLS, FILES, difficulty
from svr_async.errors import DataError

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
        ("rmbench", rm(), "no column 'domain' and none in the file's name"),
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
