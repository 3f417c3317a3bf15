"""The card says what a bank is, and its texts cannot act."""

from dataclasses import replace

import pytest
from made_bank import made_bank
from made_history import made_choice, made_history

from svr_async.core.rubric import Rubric
from svr_async.fit.config import Structure
from svr_async.scoring.bank import BankRubric, RubricBank
from svr_async.scoring.bank_card import (
    accuracy_in_words,
    bank_stats,
    enough,
    how_chosen,
    metrics_in_words,
    render_card,
    small_dev_warnings,
)

HOSTILE = "<script>x</script> | ![i](javascript:x)\n# head `code` \x1b[31m\u202e --- *bold*"


def test_the_card_names_what_the_bank_was_made_with() -> None:
    """Judge, licence, data, settings, metrics, rubrics and gaps are on the page."""
    card = render_card(made_bank())
    for words in ("# small", "a judge", 'license: "cc-by-4.0"', "e" * 64, "0.8125", "Made for the tests."):
        assert words in card
    assert "2 of 3 rubrics were never active" in card
    assert card == render_card(made_bank())


def test_texts_of_a_bank_cannot_act_as_markdown() -> None:
    """Markup, table bars, line breaks, control and bidi characters in names and rubrics are inert."""
    hostile = BankRubric(rubric=Rubric(text=HOSTILE))
    card = render_card(RubricBank(rubrics=(hostile,), name=HOSTILE, licence='x"\nevil: 1', notes=(HOSTILE,)))
    assert "<script>" not in card
    assert "\x1b" not in card
    assert "\u202e" not in card
    assert "![i]" not in card
    assert "\n# head" not in card
    row = next(line for line in card.splitlines() if "script" in line and line.startswith("| 1.000"))
    assert row.replace("\\|", "").count("|") == 5
    assert card.split("---")[1].count("\n") == 5, "the front matter has its four lines"


def test_statistics_count_what_the_bank_holds() -> None:
    """Counts by domain add up to the total; shares are fractions of 1."""
    found = bank_stats(made_bank())
    assert (found["n_rubrics"], found["with_check"], found["never_active"], found["source_pairs"]) == (3, 1, 2, 2)
    assert list(found["domains"]) == ["chat", "code", "generic", "total"]
    assert found["domains"]["total"]["supports"] == 3
    assert sum(row["rubrics"] for name, row in found["domains"].items() if name != "total") == 3
    assert found["facets"]["none"]["critical"] == 1
    assert found["weight_quantiles"] == [0.25, 0.375, 0.5, 0.625, 0.75]


@pytest.mark.parametrize(("rates", "count"), [([0, 0], 0), ([0.2], 1), ([0.1] * 4, 4), ([0.5, 0, 0.5], 2)])
def test_the_effective_number_of_rubrics(rates: list[float], count: int) -> None:
    """Rubrics used equally count one each; those never used count 0."""
    rubrics = tuple(BankRubric(rubric=Rubric(text=f"Rule {n}"), activation_rate=one) for n, one in enumerate(rates))
    assert bank_stats(RubricBank(rubrics=rubrics))["effective_rubrics"] == pytest.approx(count)


def test_what_was_left_out_is_said() -> None:
    """Sources, not prompts, were left out, and what is averaged is counted."""
    choice = replace(made_choice(), left_out="sources", averaged=(Structure(groups=2), Structure(groups=4)))
    assert "leaving out sources in turn" in how_chosen(choice)
    assert "averaged with 2" in how_chosen(choice)


def test_the_card_holds_the_structure() -> None:
    """A bank without a choice has no such part."""
    part = render_card(made_bank(history=made_history())).partition("## What the pairs chose")[2].partition("\n## ")[0]
    assert "2 groups of prompts" in part
    assert "Chosen among 15" in part
    assert "What the pairs chose" not in render_card(made_bank(history=made_history(choice=None)))


def test_the_card_has_no_accuracy_of_too_few_dev_pairs() -> None:
    """In the place of the number it says how many pairs there are."""
    card = render_card(made_bank(dev_metrics={"accuracy": 0.6543, "pairs": 24}))
    assert "| accuracy | not reported: 24 held-out pairs, 100 needed |" in card
    assert "0.6543" not in card
    assert "0.6543" in render_card(made_bank(dev_metrics={"accuracy": 0.6543, "pairs": 100}))


def test_an_accuracy_is_reported_from_a_hundred_pairs_on() -> None:
    """Below, the line says how many there are and how many are needed."""
    assert accuracy_in_words(0.7134, 100) == "dev accuracy 71.3 %"
    assert accuracy_in_words(0.7134, 99) == "accuracy not reported: 99 held-out pairs, 100 needed"
    assert (enough(100), enough(99), enough(0)) == (True, False, False)


def test_only_accuracies_of_too_few_pairs_are_replaced_in_metrics() -> None:
    """Other values stay, and so do accuracies over enough or over an unknown number of pairs."""
    text = "not reported: 12 held-out pairs, 100 needed"
    few = metrics_in_words({"accuracy": 0.7, "vote_accuracy": 0.6, "pairs": 12, "round": 3})
    assert few == {"accuracy": text, "vote_accuracy": text, "pairs": 12, "round": 3}
    for known in ({"accuracy": 0.7, "pairs": 100}, {"accuracy": 0.7}, {}):
        assert metrics_in_words(known) == known


@pytest.mark.parametrize("n_dev", [1, 23, 99])
def test_a_small_dev_split_is_named_with_its_error_and_a_remedy(n_dev: int) -> None:
    """The count, the standard error at that size, and how many pairs would do."""
    text = small_dev_warnings(n_dev, 20 * n_dev)[0]
    assert f"{n_dev} held-out pair" in text
    assert f"{100 * (0.21 / n_dev) ** 0.5:.1f} points" in text
    assert "2,000 pairs" in text
    assert "svr data split" in text
    assert "\n" not in text
