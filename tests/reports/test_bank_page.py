"""The page of a bank: its rubrics first, what it says of its accuracy, and that it is one safe file."""

from __future__ import annotations

import re
from dataclasses import replace
from html import unescape

import pytest
from hostile_run import ATTACK
from made_bank_page import bank, made_curve, made_history

from svr_async.core.integrity import Integrity
from svr_async.reports.bank_page import bank_figures, render_bank
from svr_async.reports.bank_summary import NO_HISTORY, summarise_bank
from svr_async.scoring.bank import BankHistory, RubricBank, TrainedOn


def page_of(one: RubricBank) -> str:
    """Return the page of a bank."""
    return render_bank(summarise_bank(one))


def words_of(one: RubricBank) -> str:
    """Return the visible words of a bank's page, blanks joined."""
    body = re.sub(r"(?s)<style>.*?</style>|<[^>]*>", " ", page_of(one))
    return " ".join(unescape(body).replace("\u00a0", " ").split())


def test_it_starts_with_its_rubrics_and_says_how_they_were_fitted() -> None:
    """Rubrics, accuracy with interval and yardsticks, plots, structure, rounds, learning curve, training data."""
    words = words_of(bank(judge="gpt"))
    order = (
        "The rubrics that decide most", "Keeps to the point 0", "4.000 20.00 %",
        "Accuracy 66.0 % on pairs held out of the fit (95 % interval 56.3–74.5 %, 100 held-out pairs).",
        "These pairs also chose the epoch and the round", "One weight a rubric 58.0 %", "Unweighted vote 50.0 %",
        "Plots", "+3.0 points [+1.2, +4.8]", "Round by round", "3 (chosen)", "sparsity 0.3", "3 more were tried",
        "What it was trained on", "1,900 pairs", "they share 13 words in a row",
        "Ablation probes: hard negatives come from",
    )  # fmt: skip
    places = [words.find(text, words.find("svr-async bank")) for text in order]
    assert -1 not in places, order[places.index(-1)]
    assert places == sorted(places)
    names = [figure.name for figure in bank_figures(summarise_bank(bank()))]
    assert names == ["training", "fit", "learning"]


def test_a_weight_that_all_rubrics_share_is_a_sentence() -> None:
    """The default fit gives one: no column of equal numbers, and rubrics stay in the order of their activation."""
    one = bank()
    shared = summarise_bank(replace(one, rubrics=tuple(replace(entry, weight=4.0) for entry in one.rubrics))).rubrics
    assert shared.heads == ("Rubric", "Activation", "Domain and facet")
    assert "Each weighs 4; only the activations differ." in shared.notes
    mixed = tuple(replace(entry, weight=1.0 + place) for place, entry in enumerate(one.rubrics))
    assert "Weight" in summarise_bank(replace(one, rubrics=mixed)).rubrics.heads


@pytest.mark.parametrize(
    ("mark", "word"),
    [
        (Integrity.SIMULATED, "SIMULATED"),
        (Integrity.OFFLINE_RULES, "OFFLINE RULES"),
        (Integrity.RECORDED, "RECORDED"),
    ],
)
def test_numbers_that_are_not_a_judges_are_labelled(mark: Integrity, word: str) -> None:
    """A bank of the simulated endpoint, of the rules judge or of a recording says so at the top."""
    assert f"<strong>{word}</strong>" in page_of(bank(marks=frozenset({mark}))).split("<main")[0]


@pytest.mark.parametrize(
    ("held_out", "claimed", "headline"),
    [(0, 0.9, "Accuracy not known"), (24, 0.66, "24 held-out pairs, 100 needed")],
)
def test_without_enough_held_out_pairs_no_accuracy_is_claimed(held_out: int, claimed: float, headline: str) -> None:
    """No percentage of dev pairs is left, in words, tables or plots."""
    curve = made_curve(dev_pairs=held_out)
    history = made_history(curves=(curve,), learning_curve=None, choice=None, chosen_round=0)
    if not held_out:
        history = BankHistory(trained_on=TrainedOn(train_pairs=9, dev_pairs=0), curves=(curve,), chosen_seed=42)
    one = bank(history=history, dev_metrics={"accuracy": claimed, "pairs": held_out})
    found = summarise_bank(one)
    assert (found.accuracy, found.ci95) == (None, None)
    assert headline in found.headline
    words = words_of(one)
    for gone in (f"{100 * claimed:.1f} %", "64.0 %", "58.0 %", "Unweighted vote"):
        assert gone not in words


def test_a_bank_without_history_is_shown_as_it_is() -> None:
    """An older or merged bank has a page too, which names the missing parts."""
    words = words_of(bank(history=None, dev_metrics={}))
    assert NO_HISTORY in words
    assert "Keeps to the point 0" in words
    assert "Round by round" not in words


def test_hostile_texts_are_words_in_one_file_without_scripts() -> None:
    """Every text is escaped, hidden characters are shown, nothing is requested; equal banks give equal bytes."""
    one = replace(bank(ATTACK.replace("\x00", "")))
    page = page_of(one)
    assert page == page_of(one)
    assert not re.search(r"<script|<link|<iframe|@import|url\(|\ssrc=\"(?!data:image/svg)|<img(?! src=\"data:)", page)
    assert "⟨U+202E⟩" in page
    assert "default-src 'none'" in unescape(page)
