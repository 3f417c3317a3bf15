"""The report in a real browser: attacks are inert, nothing overflows a phone, contrast is AA in both schemes."""

from __future__ import annotations

from pathlib import Path

import pytest
from chromium import chromium
from hostile_run import ATTACK, HARMLESS, LONG, armed_run
from made_run import made_items, write_run
from page_checks import CENSUS, OPEN_ALL, OVERFLOWING, TOO_FAINT

from svr_async.evaluation.run_folder import Run, RunFolder
from svr_async.reports.report import render_report

pytestmark = pytest.mark.browser


def write_page(folder: Path, runs: list[Run]) -> Path:
    """Render runs to a file and return its path."""
    path = folder / "report.html"
    path.write_text(render_report(runs), encoding="utf-8")
    return path


async def test_attacks_in_every_field_are_inert(tmp_path: Path) -> None:
    """Same elements and attributes as with harmless words, no script run, no request but the file, no violation."""
    pages = {}
    for name, text in (("bad", ATTACK), ("good", HARMLESS)):
        run = armed_run(tmp_path / name, text)
        pages[name] = write_page(tmp_path / name, [run])
    async with chromium() as tab:
        await tab.open(pages["good"])
        expected = await tab.run(CENSUS)
        await tab.open(pages["bad"])
        await tab.run(OPEN_ALL)
        found = await tab.run(CENSUS)
        pwned = await tab.run("window.pwned ?? null")
        styled = await tab.run("getComputedStyle(document.body).maxWidth")
        shown = await tab.run("document.body.innerText.includes('<script>window.pwned=1</script>')")
        links = await tab.run("[...document.links].every(link => link.getAttribute('href').startsWith('#'))")

    expected["@open"] = found["@open"]
    assert found == expected
    assert pwned is None
    assert shown
    assert links
    assert styled == "1120px"
    assert tab.errors == []
    assert set(tab.requests) == {page.as_uri() for page in pages.values()}


@pytest.mark.parametrize("width", [390, 320])
async def test_a_phone_never_scrolls_sideways(tmp_path: Path, width: int) -> None:
    """With every detail open and unbroken words of hundreds of letters, the page is as wide as the phone."""
    run = armed_run(tmp_path / "long", "word", tail=LONG)
    plain = RunFolder.load(write_run(tmp_path / "plain"))
    pages = [write_page(tmp_path / "long", [run]), write_page(tmp_path / "plain", [plain, run])]
    async with chromium() as tab:
        for page in pages:
            await tab.open(page, width=width)
            await tab.run(OPEN_ALL)
            wide, inner, culprits = await tab.run(OVERFLOWING)

            assert (wide, inner, culprits) == (width, width, [])


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_every_text_has_enough_contrast(tmp_path: Path, scheme: str) -> None:
    """All texts of a report with banners and open details reach 4.5 : 1, by day and by night."""
    changes = {"judge_label": "x (SIMULATED endpoint)", "complete": False, "notes": ["one note"]}
    marked = RunFolder.load(write_run(tmp_path / "b", items=made_items(seed=2), metrics=changes))
    plain = RunFolder.load(write_run(tmp_path / "a"))
    page = write_page(tmp_path, [plain, marked])
    async with chromium() as tab:
        await tab.open(page, scheme=scheme)
        await tab.run(OPEN_ALL)
        faint = await tab.run(TOO_FAINT)
        paper = await tab.run("getComputedStyle(document.body).backgroundColor")

    assert faint == []
    assert paper == {"light": "rgb(251, 250, 247)", "dark": "rgb(20, 22, 26)"}[scheme]


BARS = """[...document.querySelectorAll('.rubrics')].map(table =>
  new Set([...table.querySelectorAll('td.bar svg')].map(bar => bar.getBoundingClientRect().left)).size)"""
BROKEN = """[...document.querySelectorAll('code .whole, code.whole')]
  .filter(word => word.getClientRects().length > 1 || word.getBoundingClientRect().height > 30)
  .map(word => word.textContent)"""


async def test_a_phone_breaks_no_word_at_a_hyphen_and_keeps_bars_in_line(tmp_path: Path) -> None:
    """Arguments, ids and folders that fit a line stay whole; the bars of a table share their zero line."""
    command = ["svr-eval", "pairs", "--data", "my-own-preference-pairs.jsonl", "--limit", "300", "--judge", "gpt-oss"]
    page = write_page(tmp_path, [RunFolder.load(write_run(tmp_path / "run", manifest={"command": command}))])
    async with chromium() as tab:
        await tab.open(page, width=390)
        await tab.run(OPEN_ALL)
        assert set(await tab.run(BARS)) == {1}
        assert await tab.run(BROKEN) == []
