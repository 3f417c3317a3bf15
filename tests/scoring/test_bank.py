"""A bank is coherent or cannot be made."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from made_bank import made_bank, made_rubrics

from svr_async.core.rubric import Rubric
from svr_async.scoring.bank import InferenceSettings

NAN, INF = float("nan"), float("inf")
ONE = made_rubrics()[1]


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"rubrics": ()}, "at least one rubric"),
        ({"rubrics": (ONE, ONE)}, "occurs twice"),
        (
            {
                "rubrics": [replace(one, weight=3e38) for one in made_rubrics()],
                "selector": {"a": np.ones(1, np.float32)},
            },
            "add up to",
        ),
        ({"selector": {}}, "needs arrays"),
        ({"selector_kind": ""}, "selector_kind"),
        ({"selector": {"hidden": np.ones(2)}}, "float32"),
        ({"selector": {"hidden": np.array([[1, NAN]], np.float32)}}, "'hidden' holds 1 values that are not finite"),
        ({"selector": {"weight": np.ones(2, np.float32)}}, "one entry for each of 3 rubrics"),
        ({"selector": {"weight": np.ones(3, np.float32)}}, "differs from the selector's"),
        ({"selector": {"hidden": np.array([object()])}}, "float32"),
        ({"idf": np.array([1, INF], np.float32)}, "idf holds 1 values"),
        ({"idf": np.array([1, -1], np.float32)}, "idf must be >= 0"),
        ({"idf": np.ones(3, np.float32)}, "2 terms, idf has shape"),
        ({"vocabulary": {"a": 0, "b": 2}}, "number its terms"),
        ({"vocabulary": {"a": 0, "": 1}}, "the term ''"),
        ({"notes": ("x" * 5000,)}, "too long"),
        ({"judge": "\ud800"}, "not valid Unicode"),
    ],
)
def test_an_incoherent_bank_is_refused(changes: dict[str, Any], problem: str) -> None:
    """Empty, doubled, of wrong shapes or types, not finite: the message says which."""
    with pytest.raises(ValueError, match=problem):
        made_bank(**changes)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"weight": -0.1}, "weight must be >= 0"),
        ({"weight": NAN}, "weight must be >= 0"),
        ({"weight": INF}, "weight must be >= 0"),
        ({"weight": 4e38}, "finite in float32"),
        ({"weight": "1"}, "weight must be >= 0"),
        ({"activation_rate": 1.5}, "activation_rate must be >= 0 and <= 1"),
        ({"observed_count": -1}, "observed_count"),
        ({"support_count": 1.5}, "support_count"),
        ({"rubric": Rubric(text="x" * 513)}, "513 characters"),
        ({"rubric": Rubric(text="Cites a source", id="r0")}, "not the hash of its text"),
        ({"aliases": ("\udfff",)}, "not valid Unicode"),
        ({"aliases": ("a",) * 2000}, "2000 aliases"),
    ],
)
def test_a_rubric_out_of_range_is_refused(changes: dict[str, Any], problem: str) -> None:
    """Weights, rates, counts, texts and ids are checked, and the rubric is named."""
    with pytest.raises(ValueError, match=problem) as caught:
        replace(ONE, **changes)
    assert str(caught.value).startswith("rubric r")


@pytest.mark.parametrize(
    "changes", [{"top_k": 0}, {"top_k": True}, {"selection_pool": 1.5}, {"filler_weight": -1.0}, {"filler_weight": NAN}]
)
def test_settings_out_of_range_are_refused(changes: dict[str, Any]) -> None:
    """Top k, pool and filler weight name field, rule and value."""
    with pytest.raises(ValueError, match=f"{next(iter(changes))} must be"):
        InferenceSettings(**changes)


def test_what_was_given_cannot_be_changed_from_outside() -> None:
    """Arrays are copied and read-only; the mappings are read-only."""
    hidden = np.ones((2, 4), np.float32)
    bank = made_bank(selector={"hidden": hidden})
    hidden[:] = 9
    assert float(bank.selector["hidden"].max()) == 1.0
    with pytest.raises(ValueError, match="read-only"):
        bank.selector["hidden"][0] = 2
    with pytest.raises(TypeError):
        bank.vocabulary["x"] = 3  # type: ignore[index]


def test_looking_up() -> None:
    """A rubric is found by its id or an unambiguous start of it."""
    bank = made_bank()
    assert len(bank) == 3
    assert bank.find(ONE.id) is bank.rubrics[1]
    assert bank.find(ONE.id[:6]) is bank.rubrics[1]
    assert bank.find("r") is None
    assert bank.find("") is None
    assert bank.weights.tolist() == [0.75, 0.5, 0.25]
    assert bank.texts[1] == ONE.text
