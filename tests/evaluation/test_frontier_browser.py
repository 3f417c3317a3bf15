"""The page of a frontier in a real browser: attacks are inert, nothing overflows a phone, all of it can be read."""

from __future__ import annotations

from pathlib import Path

import pytest
from chromium import chromium
from hostile_run import ATTACK, HARMLESS
from made_run import write_run
from page_checks import CENSUS, OPEN_ALL, OVERFLOWING, TOO_FAINT
from test_frontier import column, drawn

from svr_async.evaluation.run_folder import RunFolder
from svr_async.reports.frontier_view import render_frontier

pytestmark = pytest.mark.browser


async def write_page(folder: Path, name: str) -> Path:
    """Render a frontier of three judges, one of them with this name and one without all replies."""
    write_run(folder / "run", metrics={"judge_label": f"{name} (SIMULATED endpoint)"})
    found = await drawn(
        column("small", 0.6), column(name, 0.9, usd=0.01, seed="big"), column("half", 0.7, lack=2, usd=0.002)
    )
    path = folder / "page.html"
    path.write_text(render_frontier([RunFolder.load(folder / "run")], found), encoding="utf-8")
    return path


async def test_attacks_in_names_are_inert(tmp_path: Path) -> None:
    """Same elements and attributes as with a harmless name, no script run, no request but the file."""
    good, bad = await write_page(tmp_path / "good", HARMLESS), await write_page(tmp_path / "bad", ATTACK)
    async with chromium() as tab:
        await tab.open(good)
        expected = await tab.run(CENSUS)
        tab.requests.clear()
        await tab.open(bad)
        assert await tab.run(CENSUS) == expected
        assert await tab.run("window.pwned ?? null") is None
        assert tab.requests == [bad.as_uri()]
        assert tab.errors == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_it_can_be_read_at_any_width(tmp_path: Path, scheme: str) -> None:
    """Phone or desk, light or dark: nothing stands out of the page, and every text is dark enough."""
    page = await write_page(tmp_path, "big")
    async with chromium() as tab:
        for width in (390, 1280):
            await tab.open(page, width=width, scheme=scheme)
            await tab.run(OPEN_ALL)
            wide, inner, out = await tab.run(OVERFLOWING)
            assert wide <= inner
            assert width > 600 or out == []  # a desk's screen is not as wide as its window here
            assert await tab.run(TOO_FAINT) == []
