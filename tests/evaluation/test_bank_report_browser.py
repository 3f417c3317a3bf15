"""A bank's report in a real browser: attacks are inert, nothing overflows a phone, contrast is AA in both schemes."""

from __future__ import annotations

from pathlib import Path

import pytest
from chromium import chromium
from hostile_run import ATTACK, HARMLESS, LONG
from made_bank_page import bank, made_curve, made_history
from page_checks import CENSUS, OPEN_ALL, OVERFLOWING, TOO_FAINT

from svr_async.reports.bank_report import render_bank_report
from svr_async.scoring.bank import RubricBank

pytestmark = pytest.mark.browser


def write_page(path: Path, held: RubricBank) -> Path:
    """Render a bank to a file and return its path."""
    path.write_text(render_bank_report(held), encoding="utf-8")
    return path


async def test_attacks_in_every_field_are_inert(tmp_path: Path) -> None:
    """Same elements and attributes as with harmless words, no script run, no request but the file, no violation."""
    pages = {
        name: write_page(tmp_path / f"{name}.html", bank(text)) for name, text in (("good", HARMLESS), ("bad", ATTACK))
    }
    async with chromium() as tab:
        await tab.open(pages["good"])
        expected = await tab.run(CENSUS)
        await tab.open(pages["bad"])
        found = await tab.run(CENSUS)
        await tab.run(OPEN_ALL)
        pwned = await tab.run("window.pwned ?? null")
        shown = await tab.run("document.body.innerText.includes('<script>window.pwned=1</script>')")
    expected.pop("@title", None)
    assert found == expected
    assert pwned is None
    assert shown
    assert tab.errors == []
    assert set(tab.requests) == {page.as_uri() for page in pages.values()}


@pytest.mark.parametrize("width", [390, 320])
async def test_a_phone_never_scrolls_sideways(tmp_path: Path, width: int) -> None:
    """With details open, unbroken words of hundreds of letters and ten rounds, the page is as wide as the phone."""
    many = made_history(rounds=10)
    held = (bank("word", tail=LONG), bank(history=many), bank(history=made_history(curves=(made_curve(1, 60),))))
    async with chromium() as tab:
        for number, one in enumerate(held):
            await tab.open(write_page(tmp_path / f"{number}.html", one), width=width)
            await tab.run(OPEN_ALL)
            wide, inner, culprits = await tab.run(OVERFLOWING)
            assert (wide, inner, culprits) == (width, width, [])


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_every_text_has_enough_contrast(tmp_path: Path, scheme: str) -> None:
    """All texts of a marked report with open details reach 4.5 : 1, by day and by night."""
    page = write_page(tmp_path / "bank.html", bank(judge="x (SIMULATED endpoint)"))
    async with chromium() as tab:
        await tab.open(page, scheme=scheme)
        await tab.run(OPEN_ALL)
        faint = await tab.run(TOO_FAINT)
        paper = await tab.run("getComputedStyle(document.body).backgroundColor")
    assert faint == []
    assert paper == {"light": "rgb(251, 250, 247)", "dark": "rgb(20, 22, 26)"}[scheme]
