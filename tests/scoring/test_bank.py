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
        ({"selector": {"hidden": np.array([[1, NAN]], np.float32)}}, "'hidden' holds 1 values that are not finite"),
        ({"selector": {"weight": np.ones(2, np.float32)}}, "differs from the weights"),
        ({"selector": {"weight": np.ones(3, np.float32)}}, "differs from the weights"),
        ({"idf": np.array([1, INF], np.float32)}, "idf must be >= 0 and finite"),
        ({"idf": np.array([1, -1], np.float32)}, "idf must be >= 0"),
        ({"idf": np.ones(3, np.float32)}, "2 terms, idf has shape"),
        ({"vocabulary": {"a": 0, "b": 2}}, "number its terms"),
        *(
            ({"rubrics": (replace(ONE, weight=weight),)}, "weight must be >= 0 and")
            for weight in (-0.1, NAN, INF, 4e38)
        ),
    ],
)
def test_an_incoherent_bank_is_refused(changes: dict[str, Any], problem: str) -> None:
    """Empty, doubled, of wrong shapes, not finite: the message says which."""
    with pytest.raises(ValueError, match=problem):
        made_bank(**changes)


def test_a_rubric_has_the_id_of_its_text() -> None:
    """Contributions are found by it."""
    with pytest.raises(ValueError, match=r"^rubric r0: its id is not the hash of its text"):
        replace(ONE, rubric=Rubric(text="Cites a source", id="r0"))


@pytest.mark.parametrize(
    "changes", [{"top_k": 0}, {"selection_pool": 0}, {"filler_weight": -1.0}, {"filler_weight": NAN}]
)
def test_settings_out_of_range_are_refused(changes: dict[str, Any]) -> None:
    """Top k, pool and filler weight: the message has rule and value."""
    with pytest.raises(ValueError, match=f"{next(iter(changes))}={next(iter(changes.values()))}"):
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
