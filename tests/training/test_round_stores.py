"""Each round's feature store: it holds exactly what the round fitted on, and is written once."""

import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from svr_async.training.store.round_stores import drop_rounds, keep_round

from svr_async.core.pair import PreferencePair, user_prompt
from svr_async.core.rubric import Rubric
from svr_async.training.bank.merge import Candidate
from svr_async.training.bank.near_duplicates import redundancy_edges
from svr_async.training.rounds.config import FitTerms, config_of, terms_from_json
from svr_async.training.rounds.session import (
    HardNegative,
    JudgedRound,
    Ledger,
    RoundData,
    Sources,
    build_arrays,
    prepare,
)
from svr_async.training.store.facts import store_facts
from svr_async.training.store.files import MEASURED, load_store
from svr_async.training.store.rounds import stored_round

PAIRS = [PreferencePair(id=f"p{n}", prompt=user_prompt(f"bread {n // 2}"), chosen="a", rejected="b") for n in range(8)]
TEXTS = ("Names at most 50 words of it", "Names at most 100 words of it", "Is brief")
BANK = tuple(
    Candidate(rubric=Rubric(text=text), source_pair_ids=sources, observed_count=len(sources))
    for text, sources in zip(TEXTS, (("p0",), ("p0", "p2", "p6"), ("p3",)), strict=True)
)
NEGATIVES = (
    HardNegative(pair=PreferencePair(id="p0~probe1", prompt=PAIRS[0].prompt, chosen="a", rejected="c"), of="p0"),
)
TERMS = FitTerms(preset="paper", seed=7, top_k=3, ablate=("diversity",), round=2, last=False)
LABELS = {"judge": "made", "prompts_digest": "d"}


def judged_round(negatives: tuple[HardNegative, ...] = NEGATIVES) -> tuple[Any, JudgedRound]:
    """Return a session's part of a round and the round: six training pairs, two dev pairs, one entry for measuring."""
    ledger, ids = Ledger(), [candidate.rubric.id for candidate in BANK]
    index = {rubric_id: place for place, rubric_id in enumerate(ids)}
    material = prepare(PAIRS[:6], PAIRS[6:], digest="d")
    rows = ({pair.id: material.prompts.row(pair) for pair in side} for side in (material.train, material.dev))
    parts = (material.prompts, ledger, index, Sources.of(BANK, *rows), redundancy_edges(TEXTS))
    ledger.note("p0", ids, {ids[0]: 1.25, ids[2]: 0.25})
    ledger.note("p3", ids, {ids[2]: -0.75})
    ledger.note("p6", ids[:2], {ids[1]: 0.75})
    ledger.note("p0~probe1", ids, {ids[1]: -0.25})
    train, dev = build_arrays(material.train, negatives, *parts), build_arrays(material.dev, (), *parts)
    ledger.note("p6", ids[2:], {ids[2]: 1.25})
    data = RoundData(bank=BANK, train=train, dev=dev, support={ids[1]: 2}, last=False)
    measured = build_arrays(material.dev, (), *parts)
    crew = SimpleNamespace(judge=SimpleNamespace(marks=frozenset()))
    return SimpleNamespace(material=material, crew=crew), JudgedRound(
        number=2, data=data, measured=measured, negatives=tuple(negatives)
    )


@pytest.mark.parametrize("negatives", [NEGATIVES, ()])
def test_a_rounds_store_gives_back_what_the_round_fitted_on(
    tmp_path: Path, negatives: tuple[HardNegative, ...]
) -> None:
    """Arrays, byte by byte, hard negatives, own entries and sources; bank, support, plan and what measuring saw."""
    session, judged = judged_round(negatives)
    keep_round(session, judged, folder=tmp_path, terms=TERMS, **LABELS)
    store = load_store(tmp_path / "round-2")
    stored = stored_round(store)
    assert stored.data.train.digest() == judged.data.train.digest()
    assert stored.data.dev.digest() == judged.data.dev.digest()
    assert stored.measured.digest() == judged.measured.digest()
    assert stored.measured.n_entries == stored.data.dev.n_entries + 1
    assert store.z.flags[store.z.flags >= MEASURED].tolist() == [MEASURED]
    assert stored.data.bank == BANK
    assert (stored.data.support, stored.data.last) == (dict(judged.data.support), False)
    assert store.header.terms == TERMS
    assert config_of(TERMS).top_k_choices == (3,)


def test_a_rounds_store_keeps_where_pairs_are_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sources come back with the numbers that the round fitted on, hard negatives with those of their originals."""
    named = [replace(pair, source=f"set {number % 3}") for number, pair in enumerate(PAIRS)]
    monkeypatch.setattr(sys.modules[__name__], "PAIRS", named)
    session, judged = judged_round()
    sources = judged.data.train.pair_source
    assert sources is not None
    assert sources[: len(PAIRS) - 2].tolist() == [0, 1, 2, 0, 1, 2]
    keep_round(session, judged, folder=tmp_path, terms=TERMS, **LABELS)
    store = load_store(tmp_path / "round-2")
    assert store.sources[: len(PAIRS)] == [pair.source for pair in named]
    stored = stored_round(store)
    assert stored.data.train.digest() == judged.data.train.digest()
    assert stored.data.dev.digest() == judged.data.dev.digest()
    assert store_facts(store)["sources"] == {"set 0": 3 + len(NEGATIVES), "set 1": 3, "set 2": 2}


def test_a_store_that_is_there_is_left_and_one_of_other_data_or_damaged_is_written_over(tmp_path: Path) -> None:
    """The same round again touches no file; another bank's, or one with a damaged file, is replaced whole."""
    session, judged = judged_round()
    place = tmp_path / "round-2"

    def keep(one: JudgedRound) -> dict[str, bytes]:
        keep_round(session, one, folder=tmp_path, terms=TERMS, **LABELS)
        return {path.name: path.read_bytes() for path in place.iterdir()}

    first = keep(judged)
    inode = (place / "meta.json").stat().st_ino
    assert keep(judged) == first
    assert (place / "meta.json").stat().st_ino == inode
    other = keep(replace(judged, data=replace(judged.data, support={})))
    assert other.keys() == first.keys()
    assert other != first
    (place / "z-0001.npz").write_bytes(b"")
    assert keep(judged) == first
    assert [path.name for path in tmp_path.iterdir()] == ["round-2"]


def test_stores_of_rounds_that_did_not_happen_go(tmp_path: Path) -> None:
    """What an earlier, longer training left is removed; nothing else in the folder is."""
    for name in ("round-1", "round-2", "round-10", "round-x", "mine"):
        (tmp_path / name).mkdir()
    drop_rounds(tmp_path, after=1)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine", "round-1", "round-x"]
    drop_rounds(tmp_path / "nowhere", after=1)


def test_a_plan_comes_back_and_stands_for_the_settings_of_a_training() -> None:
    """As JSON and back; top_k is 6, or 256 where judging is free, and the paper's filler weighs 1."""
    assert terms_from_json(TERMS.as_json()) == TERMS
    assert config_of(FitTerms()).top_k_choices == (6,)
    free = config_of(FitTerms(free=True))
    assert (free.top_k_choices, free.filler_weights, free.fit.top_k) == ((256,), (0.0,), 256)
    paper = config_of(FitTerms(preset="paper", seed=3))
    assert (paper.filler_weights, paper.fit.top_k, paper.fit.seed) == ((1.0,), None, 3)
