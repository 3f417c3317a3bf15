"""The card says what a bank is, and its texts cannot act."""

import pytest
from made_bank import made_bank

from svr_async.core.rubric import Rubric
from svr_async.scoring.bank import BankRubric, RubricBank
from svr_async.scoring.bank_card import bank_stats, effective_number, render_card

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


@pytest.mark.parametrize(("shares", "count"), [([], 0), ([0, 0], 0), ([0.2], 1), ([0.1] * 4, 4), ([0.5, 0, 0.5], 2)])
def test_effective_number(shares: list[float], count: int) -> None:
    """Equal shares count one each; none count none."""
    assert effective_number(shares) == pytest.approx(count)
