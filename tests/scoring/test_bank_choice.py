"""The structure of a fit in plain words, and the candidates in order."""

from __future__ import annotations

from dataclasses import replace

from made_bank import made_bank
from made_history import made_choice, made_history

from svr_async.scoring.bank_card import how_chosen, render_card, structure_parts
from svr_async.scoring.bank_history import Choice, Structure


def named(structure: Structure) -> dict[str, str]:
    """Return the values of a structure's parts by name."""
    return {name: value for name, value, _ in structure_parts(Choice(structure=structure))}


def test_each_part_of_a_structure_is_named() -> None:
    """Groups, sparsity, part in common, rubrics a prompt; what is not there is said to be none."""
    grouped = named(Structure(groups=8, sparsity=0.3, common=0.2, top_k=9))
    assert grouped == {"Groups of prompts": "8", "Sparsity": "0.3", "Part in common": "0.2", "Rubrics a prompt": "9"}
    assert named(Structure())["Groups of prompts"] == named(Structure())["Part in common"] == "none"


def test_what_was_left_out_is_said() -> None:
    """Sources, not prompts, were left out, and what is averaged is counted."""
    choice = replace(made_choice(), left_out="sources", beside=(Structure(groups=2), Structure(groups=4)))
    assert "leaving out sources in turn" in how_chosen(choice)
    assert "averaged with 2" in how_chosen(choice)


def test_the_card_holds_the_structure() -> None:
    """A bank without a choice has no such part."""
    part = render_card(made_bank(history=made_history())).partition("## What the pairs chose")[2].partition("\n## ")[0]
    assert "| Groups of prompts | 2 |" in part
    assert "Chosen among 15" in part
    assert "What the pairs chose" not in render_card(made_bank(history=made_history(choice=None)))


def test_the_card_tells_no_accuracy_of_too_few_dev_pairs() -> None:
    """In the place of the number it says how many pairs there are."""
    card = render_card(made_bank(dev_metrics={"accuracy": 0.6543, "pairs": 24}))
    assert "| accuracy | not reported: 24 held-out pairs, 100 needed |" in card
    assert "0.6543" not in card
    assert "0.6543" in render_card(made_bank(dev_metrics={"accuracy": 0.6543, "pairs": 100}))
