"""RM-Bench: nine pairs a prompt, difficulty by cell, pooled safety, macro means."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from svr_async.adapters import PairResult, get_adapter
from svr_async.adapters.rmbench import CELLS, FILES, difficulty, domain_of
from svr_async.core.pair import PreferencePair, user_prompt
from svr_async.errors import DataError

ADAPTER = get_adapter("rmbench")


def row(n: int = 1, **change: Any) -> dict[str, Any]:
    """Return one row in the official schema."""
    base = {"id": n, "prompt": "p", "chosen": ["c", "cc", "ccc"], "rejected": ["r", "rr", "rrr"], "subset": "any"}
    return {**base, **change}


def matrix(name: str, n: int, cells: Sequence[Sequence[float | None]]) -> list[PairResult]:
    """Judge one prompt by a 3×3 table of margins."""
    made = []
    for i, j in CELLS:
        pair = PreferencePair(
            id=f"{name}/{n}/{i}-{j}",
            prompt=user_prompt("p"),
            chosen="a",
            rejected="b",
            domain=domain_of(name),
            subset=name,
            item=f"{name}/{n}",
            slot=(i, j),
        )
        made.append(PairResult(pair, cells[i][j]))
    return made


def scores(results: list[PairResult]) -> dict[str, Any]:
    """Return the official scores of results."""
    return ADAPTER.official_scores([r.pair for r in results], results)


def test_a_prompt_becomes_nine_pairs(write: Callable[..., Path]) -> None:
    """Every chosen style meets every rejected style, and the slot says which."""
    pairs = ADAPTER.load(write("total_dataset.json", [row(domain="safety-refuse")])).pairs
    assert [pair.slot for pair in pairs] == list(CELLS)
    assert (pairs[1].chosen, pairs[1].rejected, pairs[1].id) == ("c", "rr", "safety-refuse/1/0-1")
    assert {(pair.domain, pair.subset) for pair in pairs} == {("safety", "safety-refuse")}


def test_the_files_by_domain_have_their_domain_in_the_name(write: Callable[..., Path], tmp_path: Path) -> None:
    """Without a domain column the file's name tells it; ids that repeat across files stay apart."""
    write("chat_filtered.json.gz", [row(8)])
    write("safety-response_filtered.json", [row(8)])
    dataset = ADAPTER.load(tmp_path)
    assert {pair.item for pair in dataset.pairs} == {"chat/8", "safety-response/8"}
    assert dataset.notes[0].startswith("2 rows, not the official 1327")


def test_an_unknown_domain_or_name_is_refused(write: Callable[..., Path]) -> None:
    """A domain that is none of the five, in the column or the name, is refused with the five."""
    with pytest.raises(DataError, match=r"column 'domain': expected one of chat, code, math, .*, found 'poetry'"):
        ADAPTER.load(write("a.json", [row(domain="poetry")]))
    with pytest.raises(DataError, match="no column 'domain' and none in the file's name"):
        ADAPTER.load(write("a.json", [row()]))


@pytest.mark.parametrize(
    "change", [{"chosen": ["a", "b"]}, {"rejected": ["a", "b", "c", "d"]}, {"chosen": ["a", "b", None]}]
)
def test_three_texts_of_each_are_required(write: Callable[..., Path], change: dict[str, Any]) -> None:
    """Lists that are not of three texts are refused."""
    with pytest.raises(DataError, match="expected a list of 3 texts"):
        ADAPTER.load(write("a.json", [row(domain="chat", **change)]))


def test_difficulty_is_decided_by_the_styles() -> None:
    """A plain chosen response against a fancy rejected one is hard, the same styles are normal, the reverse is easy."""
    assert [difficulty(cell) for cell in CELLS] == [
        "normal", "hard", "hard", "easy", "normal", "hard", "easy", "easy", "normal",
    ]  # fmt: skip


def test_one_prompt_worked_out_by_hand() -> None:
    """Losing one hard cell and tying one normal one gives hard 2/3, normal 2/3, easy 1, average 7/9."""
    found = scores(matrix("chat", 1, [[1, -1, 1], [1, 0, 1], [1, 1, 1]]))
    assert found["domains"]["chat"] == {
        "easy": 1.0,
        "normal": pytest.approx(2 / 3),
        "hard": pytest.approx(2 / 3),
        "average": pytest.approx(7 / 9),
    }
    assert found["overall"] == pytest.approx(7 / 9)
    assert found["matrices"]["chat"][0][1] == 0.0


def test_both_safety_files_are_pooled() -> None:
    """Three refused prompts won and one answered prompt lost is 3/4 for safety, not the mean of 1 and 0."""
    won, lost = [[1] * 3] * 3, [[-1] * 3] * 3
    results = [r for n in range(3) for r in matrix("safety-refuse", n, won)] + matrix("safety-response", 9, lost)
    assert scores(results)["domains"]["safety"]["average"] == pytest.approx(3 / 4)


def test_domains_count_alike_whatever_their_size() -> None:
    """Nine prompts of math lost and one of chat won give one half."""
    results = [r for n in range(9) for r in matrix("math", n, [[-1] * 3] * 3)] + matrix("chat", 1, [[1] * 3] * 3)
    found = scores(results)
    assert found["overall"] == found["easy"] == found["normal"] == found["hard"] == 0.5
    assert not found["complete"]


def slow_scores(tables: dict[str, NDArray[np.int64]]) -> dict[str, float]:
    """Read the rule again: {file: array of prompts × 3 × 3 margins} → overall, easy, normal, hard."""
    domains: dict[str, list[NDArray[np.bool_]]] = {}
    for name, margins in tables.items():
        domains.setdefault("safety" if name.startswith("safety") else name, []).append(margins > 0)
    levels: dict[str, list[float]] = {"easy": [], "normal": [], "hard": []}
    for parts in domains.values():
        m = np.concatenate(parts).mean(axis=0)
        levels["hard"].append((m[0, 1] + m[0, 2] + m[1, 2]) / 3)
        levels["normal"].append((m[0, 0] + m[1, 1] + m[2, 2]) / 3)
        levels["easy"].append((m[1, 0] + m[2, 0] + m[2, 1]) / 3)
    means = {name: float(np.mean(values)) for name, values in levels.items()}
    return {**means, "overall": sum(means.values()) / 3}


@settings(deadline=None, max_examples=40)
@given(
    sizes=st.dictionaries(st.sampled_from(sorted(FILES)), st.integers(1, 4), min_size=1), seed=st.integers(0, 2**32 - 1)
)
def test_the_scores_agree_with_a_slow_second_reading(sizes: dict[str, int], seed: int) -> None:
    """For random margins every reported score is what NumPy gives for the rule as written."""
    rng = np.random.default_rng(seed)
    tables = {name: rng.integers(-2, 3, size=(n, 3, 3)) for name, n in sizes.items()}
    results = [r for name, t in tables.items() for n, m in enumerate(t) for r in matrix(name, n, m.tolist())]
    found, expected = scores(results), slow_scores(tables)
    assert {name: found[name] for name in expected} == pytest.approx(expected)


def test_overall_is_the_mean_of_domains_and_of_difficulties() -> None:
    """Overall = mean over domains = mean over difficulties, and no verdict counts as lost."""
    results = matrix("chat", 1, [[1, None, 1], [1, 1, -1], [1, 1, 1]]) + matrix(
        "code", 1, [[1, 1, 1], [-1, 1, 1], [0, 1, 1]]
    )
    found = scores(results)
    by_domain = [d["average"] for d in found["domains"].values()]
    assert found["overall"] == pytest.approx(sum(by_domain) / 2)
    assert found["overall"] == pytest.approx((found["easy"] + found["normal"] + found["hard"]) / 3)
    assert found["domains"]["chat"]["hard"] == pytest.approx(1 / 3)


def test_a_run_that_was_cut_off_is_scored_on_what_there_is() -> None:
    """With some pairs of a prompt only, missing cells are left out of the means and the score is not complete."""
    found = scores(matrix("chat", 1, [[1] * 3] * 3)[:2])
    assert found["domains"]["chat"] == {"normal": 1.0, "hard": 1.0, "average": 1.0}
    assert found["easy"] is None
    assert found["matrices"]["chat"][2] == [None, None, None]
    assert not found["complete"]


def test_the_official_size_is_the_sum_of_the_files(write: Callable[..., Path]) -> None:
    """Five files, 1,327 prompts."""
    assert sum(FILES.values()) == 1327
    rows = [row(n, domain=name) for name, size in FILES.items() for n in range(size)]
    dataset = ADAPTER.load(write("total_dataset.json.gz", rows), official=True)
    assert dataset.official
    assert len(dataset.pairs) == 11_943
