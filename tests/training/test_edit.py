"""Edits by hand: their effect on a bank's choice of rubrics and what is refused; banks merged and compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest

from svr_async.core.pair import user_prompt
from svr_async.core.rubric import Check, Rubric
from svr_async.errors import UsageError
from svr_async.scoring.bank import BankRubric, InferenceSettings, RubricBank
from svr_async.scoring.selection import open_chooser
from svr_async.training.bank.edit import diff_banks, edit_bank, merge_banks, save_in_place
from svr_async.training.bank.lint import lint
from svr_async.training.train import load_rubrics

TEXTS = ("Names its sources", "Uses at most 50 words", "Warns of the usual slip", "Ends with a summary")
PROMPT = user_prompt("how long does bread last")
DAY = date(2026, 11, 22)


def fitted(kind: str = "topics", **changes: Any) -> RubricBank:
    """Return a bank of four rubrics with a fitted selector of two features and two units."""
    rng = np.random.default_rng(3)
    weights = (0.75, 0.5, 0.25, 0.125)
    rubrics = [
        BankRubric(rubric=Rubric(text=text), weight=weight, activation_rate=0.25, observed_count=5)
        for text, weight in zip(TEXTS, weights, strict=True)
    ]
    rubrics[1] = replace(rubrics[1], rubric=Rubric(text=TEXTS[1], check=Check.of("max_words", n=50)))
    fields: dict[str, Any] = {
        "rubrics": tuple(rubrics),
        "selector_kind": kind,
        "selector": {
            "weight": np.array(weights, np.float32),
            "hidden": rng.normal(size=(2, 2)).astype(np.float32),
            "hidden_bias": np.zeros(2, np.float32),
            "output": np.abs(rng.normal(size=(4, 2))).astype(np.float32),
            "output_bias": np.zeros(4, np.float32),
        },
        "vocabulary": {"bread": 0, "how long": 1},
        "idf": np.array([1.5, 2.25], np.float32),
        "inference": InferenceSettings(top_k=4, filler_weight=0.125),
    }
    return RubricBank(**{**fields, **changes})


def edited(bank: RubricBank, **plan: Any) -> RubricBank:
    """Carry out a plan."""
    return edit_bank(bank, **plan, author="Ana", reason="to see", day=DAY)


def chosen(bank: RubricBank) -> dict[str, float]:
    """Return what each chosen rubric counts for the prompt, by its text."""
    return {bank.rubrics[one.index].text: one.importance for one in open_chooser(bank).choose(PROMPT)}


def key(number: int) -> str:
    """Return the id of a rubric of the fitted bank."""
    return fitted().rubrics[number].id


@pytest.mark.parametrize("kind", ["topics", "mlp", "uniform"])
def test_a_disabled_rubric_is_never_chosen_and_the_others_count_as_before(kind: str) -> None:
    """Not by its importance, not to fill a slot; with a weight again, all is as it was."""
    bank = fitted(kind, **({"selector": {}} if kind == "uniform" else {}))
    without = edited(bank, disabled=[key(0)])
    before, after = chosen(bank), chosen(without)
    assert before.keys() - after.keys() == {TEXTS[0]}
    slots = {text for text in after if after[text] != 0.125}
    assert {text: after[text] for text in slots} == {text: before[text] for text in slots}
    back = edited(without, reweighed=[(key(0), 0.75)])
    assert chosen(back) == before
    assert back.rubrics == bank.rubrics


@pytest.mark.parametrize("kind", ["topics", "mlp"])
def test_an_added_rubric_counts_its_weight_on_every_prompt(kind: str) -> None:
    """The shares of the fitted rubrics stay exactly what they were."""
    more = edited(fitted(kind, inference=InferenceSettings(top_k=5)), added=["Says what it  does not know"])
    more = edited(more, reweighed=[(more.rubrics[-1].id, 2)])
    before, after = chosen(fitted(kind)), chosen(more)
    assert after.pop("Says what it does not know") == 2.0
    assert {text: value for text, value in before.items() if value != 0.125}.items() <= after.items()


def test_an_added_rubric_weighs_what_a_chosen_one_counts() -> None:
    """Without a weight it is the mean importance of a chosen rubric, by the activation rates."""
    assert edited(fitted(), added=["Is polite"]).rubrics[-1].weight == pytest.approx(0.25 * 1.625 / 4)
    unrated = fitted(rubrics=tuple(replace(entry, activation_rate=0.0) for entry in fitted().rubrics))
    assert edited(unrated, added=["Is polite"]).rubrics[-1].weight == pytest.approx(1.625 / 4)


def test_a_reworded_rubric_keeps_its_place_and_its_old_text() -> None:
    """Place, weight and counts stay; the old text is an alias; the diff pairs the two, however unlike."""
    after = edited(fitted(), reworded=[(key(2), "Flags a hazard  that people overlook")])
    entry = after.rubrics[2]
    assert (entry.text, entry.weight, entry.aliases) == ("Flags a hazard that people overlook", 0.25, (TEXTS[2],))
    assert chosen(after)[entry.text] == chosen(fitted())[TEXTS[2]]
    found = diff_banks(fitted(), after)
    assert [(one["first"]["text"], one["second"]["text"]) for one in found["reworded"]] == [(TEXTS[2], entry.text)]
    assert (found["gained"], found["lost"], len(found["kept"])) == ([], [], 3)


def test_a_new_weight_reaches_the_selector() -> None:
    """The weight of the list and that of the arrays are one."""
    after = edited(fitted(), reweighed=[(key(3), 0.9)])
    assert after.rubrics[3].weight == after.selector["weight"][3] == np.float32(0.9)
    assert chosen(after)[TEXTS[3]] > chosen(fitted())[TEXTS[3]]


def test_each_edit_is_kept_with_author_day_and_reason(tmp_path: Path) -> None:
    """The history of the saved bank has them in their order, and a later edit adds to them; the digest is another."""
    first = edited(fitted(), disabled=[key(0)], reweighed=[(key(1), 0.25)])
    second = edit_bank(first, reweighed=[(key(0), 0.75)], author="Bo", reason="was right", day=DAY)
    digest = second.save(tmp_path / "bank")
    held = RubricBank.load(tmp_path / "bank")
    assert held.digest == digest != fitted().digest
    assert held.history is not None
    edits = [(one.what, one.rubric, one.author, one.date, one.reason, one.was, one.now) for one in held.history.edits]
    assert edits == [
        ("disabled", key(0), "Ana", "2026-11-22", "to see", "", ""),
        ("reweighed", key(1), "Ana", "2026-11-22", "to see", "0.5", "0.25"),
        ("reweighed", key(0), "Bo", "2026-11-22", "was right", "disabled", "0.75"),
    ]
    assert [one.bank for one in held.history.edits] == [fitted().digest, fitted().digest, first.digest]
    found = diff_banks(first, held)
    assert found["edits"] == [asdict(held.history.edits[2])]
    assert [one["first"]["id"] for one in found["switched"]] == [key(0)]


def test_what_judges_or_merges_later_leaves_disabled_rubrics_out(tmp_path: Path) -> None:
    """A new feature store, a merged bank and the look for defects have nothing of them."""
    after = edited(fitted(), disabled=[key(0)], added=["Is polite"])
    after.save(tmp_path / "bank")
    assert [one.rubric.text for one in load_rubrics(tmp_path / "bank", None)] == [*TEXTS[1:], "Is polite"]
    assert TEXTS[0] not in merge_banks([after]).texts
    assert not [one for one in lint(after.rubrics) if one.rubric_id == key(0) or one.kind == "never_active"]


def test_an_edit_in_place_keeps_the_former_bank_whole(tmp_path: Path) -> None:
    """Beside it, byte for byte, and its card as somebody may have changed it; a second former is not written over."""
    folder = tmp_path / "bank"
    former = fitted().save(folder)
    (folder / "card.md").write_text("my own card")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    after = edited(fitted(), disabled=[key(0)])
    kept = save_in_place(after, folder, former)
    assert kept == tmp_path / f"bank-{former[:8]}"
    assert {path.name: path.read_bytes() for path in kept.iterdir()} == before
    assert RubricBank.load(folder).digest == after.digest
    with pytest.raises(UsageError, match="is there already"):
        save_in_place(after, folder, former)


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        ({}, "nothing is to be edited"),
        ({"disabled": ["zz"]}, "no single rubric has an id that begins 'zz'"),
        ({"disabled": ["r"]}, "no single rubric has an id that begins 'r'"),
        ({"disabled": [0, 1, 2, 3]}, "at least one rubric that is not disabled"),
        ({"reweighed": [(0, -0.5)]}, "weight must be >= 0 and finite in float32 \\(got -0.5\\)"),
        ({"reweighed": [(0, float("nan"))]}, "got nan"),
        ({"reweighed": [(0, 1e39)]}, "got inf"),
        ({"reworded": [(0, TEXTS[3].upper())]}, "has 'ENDS WITH A SUMMARY' already"),
        ({"reworded": [(1, "Uses at most 100 words")]}, "asks for something else \\(numbers\\)"),
        ({"reworded": [(0, " ")]}, "a rubric needs a text"),
        ({"added": ["names  its sources."]}, "already: r"),
        ({"added": ["The response ends with a summary"]}, "has 'The response ends with a summary' already"),
        ({"added": ["x" * 513]}, "its text has 513 characters"),
    ],
)
def test_what_cannot_be_edited_is_said_in_a_line(plan: dict[str, Sequence[Any]], words: str) -> None:
    """Unknown rubrics, impossible weights, texts that the bank has, and edits that change nothing."""

    def named(value: Any) -> Any:
        one, *rest = value if isinstance(value, tuple) else (value,)
        one = key(one) if isinstance(one, int) else one
        return (one, *rest) if rest else one

    plan = {name: [named(one) for one in held] if isinstance(held, list) else held for name, held in plan.items()}
    with pytest.raises(UsageError, match=words):
        edited(fitted(), **plan)


# ── banks merged and compared ──


def bank(*rows: tuple[str, float], **fields: Any) -> RubricBank:
    """Return a bank of (text, weight) rows."""
    rubrics = tuple(BankRubric(rubric=Rubric(text=text), weight=weight) for text, weight in rows)
    return RubricBank(rubrics=rubrics, **fields)


def test_banks_become_one() -> None:
    """Near-identical rubrics merge, importances averaged by count; the rest stays, and the settings that all share."""
    shared = {"judge": "j", "licence": "l", "inference": InferenceSettings(filler_weight=0.25)}
    one = bank(("Names the river and its bridge", 0.25), ("Cites a source", 1.0), name="one", **shared)
    two = bank(("Names the river and also its bridge", 0.75), name="two", **shared)
    both = merge_banks([one, two])
    assert {entry.text: entry.weight for entry in both.rubrics} == {
        "Names the river and its bridge": 0.4375,
        "Cites a source": 0.5,
    }
    assert (both.selector_kind, both.judge, both.licence, both.name) == ("uniform", "j", "l", "one + two")
    assert both.inference.filler_weight == 0.25
    assert both.texts[0] == "Cites a source", "the heaviest first"
    assert "not fitted" in both.notes[0]
    assert merge_banks([one, replace(two, judge="other")]).judge == ""
    assert merge_banks([one, one]).texts == tuple(sorted(one.texts, key=lambda text: text != "Cites a source"))


def test_banks_whose_rubrics_weigh_all_the_same_become_one_by_how_active_the_rubrics_are() -> None:
    """A fit by topics leaves all weights equal; the rubrics that were used most come first, never the first by id."""
    texts = [f"Says a thing of kind {'abcdefgh'[number] * 9}" for number in range(8)]
    rates = (0.02, 0.3, 0.0, 0.11, 0.25, 0.07, 0.04, 0.2)
    rubrics = tuple(
        BankRubric(rubric=Rubric(text=text), weight=4.0, activation_rate=rate)
        for text, rate in zip(texts, rates, strict=True)
    )
    merged = merge_banks([RubricBank(rubrics=rubrics)])
    assert merged.texts == tuple(text for _, text in sorted(zip(rates, texts, strict=True), reverse=True))
    assert merged.rubrics[0].weight == pytest.approx(1.2)
    again = merge_banks([merged])
    assert again.texts == merged.texts


def test_a_diff_tells_gained_lost_reworded_and_reweighed() -> None:
    """Each rubric of either bank is in exactly one list; settings and metrics that differ are side by side."""
    first = bank(
        ("Names the river and its bridge", 0.5),
        ("Cites a source", 0.5),
        ("Uses at most 50 words in all", 0.5),
        dev_metrics={"accuracy": 0.5},
    )
    second = bank(
        ("Names the river and also its bridge", 0.75),
        ("Cites a source", 0.25),
        ("Uses at most 90 words in all", 0.5),
        dev_metrics={"accuracy": 0.75},
        inference=InferenceSettings(top_k=4),
    )
    found = diff_banks(first, second)
    assert [entry["text"] for entry in found["gained"]] == ["Uses at most 90 words in all"]
    assert [entry["text"] for entry in found["lost"]] == ["Uses at most 50 words in all"]
    rivers = "Names the river and its bridge", "Names the river and also its bridge"
    for name, texts, weights in (("reworded", rivers, (0.5, 0.75)), ("kept", ("Cites a source",) * 2, (0.5, 0.25))):
        (change,) = found[name]
        assert (change["first"]["text"], change["second"]["text"]) == texts
        assert (change["first"]["weight"], change["second"]["weight"]) == weights
    assert orjson.loads(orjson.dumps(found["settings"])) == {"dev.accuracy": [0.5, 0.75], "inference.top_k": [6, 4]}
    same = diff_banks(first, first)
    assert not any(same[name] for name in ("gained", "lost", "reworded", "switched", "edits", "settings"))
