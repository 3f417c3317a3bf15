"""The report of a bank: what it says, how it is labelled, and that it is one safe and reproducible file."""

from __future__ import annotations

import re
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser

import pytest
from hostile_run import ATTACK
from made_bank_page import bank, made_curve, made_history

from svr_async.reports.bank_report import render_bank_report
from svr_async.reports.bank_view import NO_HISTORY, SHOWN_RUBRICS, view_bank
from svr_async.scoring.bank_history import BankHistory, TrainedOn


class Words(HTMLParser):
    """Collects the visible words of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []
        self.hidden = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.hidden = tag == "style"

    def handle_endtag(self, tag: str) -> None:
        self.hidden = False

    def handle_data(self, data: str) -> None:
        if not self.hidden:
            self.parts.append(data)


def words_of(page: str) -> str:
    """Return the visible words of a page, blanks joined."""
    parser = Words()
    parser.feed(page)
    return " ".join(" ".join(parser.parts).replace("\u00a0", " ").split())


def test_it_says_how_the_bank_was_fitted_and_what_is_in_it() -> None:
    """Accuracy with interval and yardsticks, curves, rounds, rubrics, what it was trained on, what was left out."""
    page = render_bank_report(bank(judge="gpt"))
    words = words_of(page)
    for text in (
        "66.0 %", "56.3–74.5 %", "One weight a rubric 58.0 %", "Unweighted vote 50.0 %",
        "1,900 pairs", "These pairs also chose the epoch and the round",
        "Round 3 is in this bank", "LEFT OUT probes: hard negatives come from the data’s own responses only",
        f"{SHOWN_RUBRICS} of 30 rubrics", "Keeps to the point 0", "4.000", "20.00 %", "they share 13 words in a row",
    ):  # fmt: skip
        assert text in words, text
    assert page.count('class="curve"') == 3  # loss, dev accuracy, learning curve
    assert page.count('class="rounds"') == 6
    assert "SIMULATED" not in page


@pytest.mark.parametrize("mark", ["simulated", "offline_rules", "recorded"])
def test_numbers_that_are_not_a_judges_are_labelled(mark: str) -> None:
    """A bank of the simulated endpoint, of the rules judge or of a recording says so at the top."""
    page = render_bank_report(bank(marks=frozenset({mark})))
    assert f"<strong>{mark.replace('_', ' ').upper()}</strong>" in page.split("<main")[0]


def test_seeds_are_thin_lines_and_the_chosen_one_is_marked() -> None:
    """A fit by itself with several seeds has no rounds; the seed is among what dev chose."""
    curves = (made_curve(seed=1), made_curve(seed=2), made_curve(seed=3))
    facts = TrainedOn(train_pairs=50, dev_pairs=100)
    view = view_bank(
        bank(history=BankHistory(trained_on=facts, curves=curves, chosen_seed=2), dev_metrics={"accuracy": 0.64})
    )
    assert view.curves is not None
    assert view.curves.accuracy is not None
    assert [trace.kind for trace in view.curves.accuracy.traces] == ["thread", "thread", "dev"]
    assert view.curves.accuracy.marked == pytest.approx((3, 0.64))
    assert view.curves.stretches == ()
    assert "the epoch and the seed" in view.reading
    assert [line.place for line in view.epochs][::4] == ["seed 1", "seed 2", "seed 3"]
    assert sum(line.best for line in view.epochs) == 3


def test_epochs_have_one_place_each_and_fits_follow_each_other() -> None:
    """Rounds and phases lie side by side, whether a fit begins with its start or with its first epoch."""
    curves = (made_curve(0, 3, round=1), made_curve(0, 1, round=1, phase="calibrate"), made_curve(1, 2, round=2))
    view = view_bank(bank(history=made_history(curves=curves, chosen_round=2)))
    assert view.curves is not None
    plot = view.curves.accuracy
    assert plot is not None
    assert plot.slots == 8
    assert plot.borders == (4, 6)
    assert plot.ticks == (0, 1, 2, 3, 0, 1, 1, 2)
    assert [point[0] for trace in plot.traces for point in trace.points] == list(range(8))
    assert view.curves.stretches == ((1, 0.0, 0.75), (2, 0.75, 1.0))
    assert plot.marked is not None
    assert plot.marked[0] == 7
    train = [trace for trace in view.curves.loss.traces if trace.kind == "train"]
    assert [point[0] for trace in train for point in trace.points] == [1, 2, 3, 5, 6, 7]  # a start has no training loss


def test_without_dev_no_accuracy_is_claimed() -> None:
    """Training accuracies never stand where dev accuracies would."""
    curve = made_curve(dev_pairs=0)
    history = BankHistory(trained_on=TrainedOn(train_pairs=9, dev_pairs=0), curves=(curve,), chosen_seed=42)
    view = view_bank(bank(history=history, dev_metrics={"accuracy": 0.9}))
    assert view.accuracy is None
    assert view.curves is not None
    assert view.curves.accuracy is None
    words = words_of(render_bank_report(bank(history=history, dev_metrics={"accuracy": 0.9})))
    assert "Nothing was measured on held-out pairs" in words
    assert "90.0 %" not in words


def test_of_too_few_dev_pairs_the_page_tells_no_accuracy() -> None:
    """It says how many there are; no percentage of dev pairs is left, nor the numbers beside it."""
    small = bank(dev_metrics={"accuracy": 0.66, "pairs": 24}, history=made_history(learning_curve=None, choice=None))
    page = render_bank_report(small)
    words = words_of(page)
    assert "Accuracy not reported: 24 held-out pairs, 100 needed." in words
    for gone in ("66.0 %", "64.0 %", "58.0 %", "One weight a rubric", "Unweighted vote", "Dev accuracy by epoch"):
        assert gone not in words, gone
    curves = view_bank(small).curves
    assert curves is not None
    assert curves.accuracy is None
    assert "Rubrics kept" in words
    chosen = words_of(render_bank_report(bank(dev_metrics={"accuracy": 0.66, "pairs": 24})))
    assert "On pairs left out of the fit in turn, while the structure was chosen:" in chosen


def test_a_bank_that_was_solved_on_too_few_dev_pairs_has_no_curve_to_show() -> None:
    """Its one record is the start, of which only dev numbers are known."""
    curve = made_curve(0, 0, dev_pairs=24, round=1)
    small = bank(dev_metrics={"accuracy": 0.66, "pairs": 24}, history=made_history(curves=(curve,), chosen_round=1))
    assert view_bank(small).curves is None
    assert "epoch by epoch" not in words_of(render_bank_report(small))


def test_the_structure_is_shown_with_all_that_were_tried() -> None:
    """Its parts in words; twelve candidates with accuracy and error, the taken one marked, and the rest folded up."""
    page = render_bank_report(bank())
    words = words_of(page)
    for text in ("Groups of prompts 2", "Sparsity 0.3", "Part in common 0.2", "Rubrics a prompt 6", "among 15"):
        assert text in words, text
    shown, folded = page.split("3 more candidates")
    assert shown.count("± 1.2") == 12
    assert folded.count("± 1.2") == 3
    assert "70.0 %" in words
    assert "2 taken" in words
    assert "What the pairs chose" not in render_bank_report(bank(history=made_history(choice=None)))


def test_the_learning_curve_is_drawn_with_its_numbers_and_what_it_says() -> None:
    """Four points with whiskers, the pairs below them, a table beside it, and a sentence on the last doubling."""
    page = render_bank_report(bank())
    part = page.partition('id="learning"')[2].partition("</section>")[0]
    assert part.count('class="whisker"') == 4
    for text in (">178<", ">1,425<", "61.0", "65.0–72.0", "from 712 to 1,425 pairs, brought +3.0 points [+1.2, +4.8]"):
        assert text in part.replace("\u00a0", " "), text
    assert "What more pairs bring" not in render_bank_report(bank(history=made_history(learning_curve=None)))


def test_a_bank_without_history_is_shown_as_it_is() -> None:
    """An older or merged bank has a page too, which says what is missing."""
    words = words_of(render_bank_report(bank(history=None, dev_metrics={})))
    assert NO_HISTORY in words
    assert "Keeps to the point 0" in words
    assert "Round by round" not in words


def test_many_rounds_and_epochs_are_cut_down() -> None:
    """Tables of rounds are four wide; a thousand epochs are not all listed, and the page says so."""
    curve = made_curve(1, 1000)
    flat = tuple(replace(record, dev_accuracy=0.5) for record in curve.epochs)
    history = made_history(rounds=10, curves=(made_curve(epochs=flat, round=10, best_epoch=1),))
    page = render_bank_report(bank(history=history))
    assert page.count('<table class="by-round">') == 4  # three of rounds, one of domains
    assert "the first 400 of 1,000" in page


def test_the_page_is_one_file_and_the_same_every_time() -> None:
    """No script, no request, no address; a policy that forbids them; equal banks give equal bytes."""
    page = render_bank_report(bank())
    assert page == render_bank_report(bank())
    assert not re.search(r"<script|<link|<img|@import|url\(|https?://", page)
    assert "default-src 'none'" in unescape(page)


def test_hostile_texts_are_words() -> None:
    """Every text of a bank is escaped, and hidden characters are shown."""
    page = render_bank_report(bank(ATTACK.replace("\x00", "")))
    assert "<script" not in page
    assert "<img" not in page
    assert "⟨U+202E⟩" in page
    assert page.count("<iframe") == 0


def test_many_notes_of_a_bank_are_folded_up_and_warnings_are_not() -> None:
    """A few notes stand at the top as sentences; a dozen is one line that opens, below what warns of the numbers."""
    few, many = (bank(notes=("trained offline", *map(str, range(n)))) for n in (2, 11))
    assert (view_bank(few).notes[1], view_bank(few).more_notes) == ("Trained offline", ())
    assert (len(view_bank(many).notes), len(view_bank(many).more_notes)) == (1, 12)
    page = render_bank_report(many)
    assert '<details class="notes-more"><summary>12 notes about this bank' in page
    assert "notes-more" not in render_bank_report(few).partition("</style>")[2]


def test_a_weight_that_all_rubrics_have_is_said_once() -> None:
    """No column of equal numbers: the page says what each weighs."""
    entries = tuple(replace(entry, weight=4.00001) for entry in bank().rubrics)
    words = words_of(render_bank_report(replace(bank(), rubrics=entries)))
    assert "Each weighs 4." in words
    assert "4.000" not in words
    assert "Mean weight" not in words
