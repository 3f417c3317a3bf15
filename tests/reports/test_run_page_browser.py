"""All items of a run in a real browser: hostile texts stay text, and what a person does is what the page shows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest
from chromium import Page, chromium
from hostile_run import ATTACK, ATTACKS, LONG, armed_run
from made_page import with_words, write_item_page
from made_run import made_items, write_run
from page_checks import OVERFLOWING, TOO_FAINT

from svr_async.core.safetext import visible
from svr_async.evaluation.human_labels import measure_agreement, read_labels
from svr_async.evaluation.items import Exchange
from svr_async.evaluation.run_folder import Run, Texts

pytestmark = pytest.mark.browser

MARKDOWN = "\n\n".join(
    (
        f"# {ATTACK}",
        f"- {ATTACK}\n- [x](javascript:window.pwned=1) ![y](x)",
        f"```{ATTACK}\n{ATTACK}\n```",
        f"| {ATTACKS[0]} | b |\n|---|---|\n| {ATTACKS[3]} | `{ATTACKS[6]}` |",
        f"> **{ATTACKS[3]}**",
    )
)
ALL_HIDDEN = "".join(map(chr, (*range(0x300), *range(0x2000, 0x2070), 0xFEFF, 0xFFFA, 0xE0001, 0x1F600)))
CELLS = "[...document.querySelectorAll('#items-rows tr[data-at]')].map(row => row.querySelector('small').textContent)"
UNTIL = """(async () => { for (;;) {
  const found = %s;
  if (found) return found instanceof Node || found;
  await new Promise(next => setTimeout(next));
} })()"""
BARS = """[...document.querySelectorAll('.contributions tbody tr')].map(row =>
  [row.querySelector('td.num').textContent[0], parseFloat(row.querySelector('.pole i').style.left) < 50])"""
STATUS = "document.getElementById('items-status').textContent"
WATCH_FILES = """(make => { window.saved = [];
  URL.createObjectURL = blob => { saved.push(blob.text()); return make.call(URL, blob) } })(URL.createObjectURL)"""
INERT = """(() => {
  const bad = [...document.querySelectorAll('#items-main *')].filter(node =>
    ['IMG', 'IFRAME', 'SCRIPT', 'BASE', 'META', 'OBJECT', 'FORM'].includes(node.tagName) && node.id !== 'items-filters'
    || [...node.attributes].some(one => one.name.startsWith('on')));
  const links = [...document.links].map(link => link.getAttribute('href')).filter(href => !href.startsWith('#'));
  return [window.pwned ?? null, document.scripts.length, bad.length, links];
})()"""


async def until(tab: Page, expression: str) -> Any:
    """Return what an expression is in the page as soon as that is something true."""
    return await tab.run(UNTIL % expression)


async def see(tab: Page, address: str) -> None:
    """Go to an address of the page and wait until it is shown."""
    there = "items-opened" if "item=" in address else "items-list"
    await tab.run(f"location.hash = {address!r}")
    await until(tab, f"location.hash === {address!r} && !document.getElementById('{there}').hidden")


def page_of(folder: Path, runs: list[Run]) -> Path:
    """Write a page of runs, with texts for each item that tell it from the others."""
    texts = {
        item.id: Texts(
            prompt=f"Question {item.id}",
            response_a=f"one two three {at} four",
            response_b=f"one two three {at} *five* needle{at}",
        )
        for at, item in enumerate(runs[0].items)
    }
    return write_item_page(folder / "page.html", runs, texts)


@pytest.mark.parametrize("two", [False, True])
async def test_nothing_hostile_runs_in_any_view(tmp_path: Path, two: bool) -> None:
    """Attacks in ids, domains, rubrics, texts, reasons, judges, replies: no script, element, link or request."""
    run = with_words(armed_run(tmp_path / "run", ATTACK), ATTACK)
    texts = {
        item.id: Texts(prompt=MARKDOWN, response_a=MARKDOWN, response_b=f"{MARKDOWN} {ATTACK}") for item in run.items
    }
    exchange = Exchange(key=ATTACK, asked=((ATTACK, f"{ATTACK}{MARKDOWN}"),), reply=ATTACK)
    page = write_item_page(tmp_path / "page.html", [run, run] if two else [run], texts, exchange=exchange)
    async with chromium() as tab:
        await tab.open(page)
        await until(tab, "document.querySelector('#items-head th')")
        n_scripts = await tab.run("document.scripts.length")
        for address in ("#items?change=all&sort=label&q=pwned", "#items?change=all"):
            await see(tab, address)
            await until(tab, f"{STATUS}.startsWith('40 of')")
            assert await tab.run(INERT) == [None, n_scripts, 0, []]
        await tab.run("document.querySelector('#items-rows a').click()")
        await until(tab, "document.querySelector('#items-opened h2')")
        for switch in ("markdown", "differences", "markdown"):
            await tab.run("document.querySelectorAll('details').forEach(node => node.open = true)")
            await tab.run(f"document.getElementById('items-taste-{switch}').click()")
            assert await tab.run(INERT) == [None, n_scripts, 0, []]
        assert await tab.run("document.querySelector('#items-opened').textContent.includes('<script>window.pwned=1')")
        await tab.call("Page.printToPDF")
        assert await tab.run(INERT) == [None, n_scripts, 0, []]

    assert tab.errors == []
    assert {url.partition("#")[0] for url in tab.requests if not url.startswith("data:image/svg")} == {page.as_uri()}


async def test_hidden_characters_are_shown_as_everywhere(tmp_path: Path) -> None:
    """The page's script and `visible` turn the same characters into their code points."""
    run = Run.load(write_run(tmp_path / "run", items=made_items(n=1)))
    texts = {run.items[0].id: Texts(prompt=f"a{ALL_HIDDEN}b", response_a="x", response_b="y")}
    page = write_item_page(tmp_path / "page.html", [run], texts)
    async with chromium() as tab:
        await tab.open(page)
        await see(tab, f"#items?item={run.items[0].id}")
        await tab.run("document.getElementById('items-taste-markdown').click()")
        shown = await tab.run("document.querySelector('.prompt .passage').textContent")

    assert shown == visible(f"a{ALL_HIDDEN}b")


async def test_a_person_finds_filters_sorts_and_opens_items(tmp_path: Path) -> None:
    """Search in texts, filters, sort, address, keys and the file of shown items agree with the run's items."""
    run = Run.load(write_run(tmp_path / "run"))
    wrong = sorted(
        (item for item in run.items if item.correct is False and item.domain == "Code" and item.margin),
        key=lambda item: -abs(item.margin or 0),
    )
    async with chromium() as tab:
        await tab.open(page_of(tmp_path, [run]))
        await until(tab, f"{STATUS}.startsWith('320 of 320')")
        await see(tab, "#items?result=wrong&domain=Code&sort=-margin")
        await until(tab, f"{STATUS}.startsWith('{len(wrong)} of')")
        assert await tab.run(CELLS) == [item.id for item in wrong]
        assert await tab.run("document.querySelector('[aria-sort=descending]').textContent") == "Margin"

        await tab.run(WATCH_FILES)
        await tab.run("document.getElementById('items-jsonl').click(); document.getElementById('items-csv').click()")
        lines, table = await tab.run("Promise.all(saved)")
        assert [orjson.loads(line)["id"] for line in lines.splitlines()] == [item.id for item in wrong]
        assert orjson.loads(lines.splitlines()[0])["margin"] == wrong[0].margin
        assert table.splitlines()[1].startswith(f"{wrong[0].id},Code,")

        await tab.run("document.querySelector('#items-rows tr[tabindex=\"0\"]').focus()")
        for key in ("ArrowDown", "ArrowDown", "ArrowUp", "Enter"):
            await tab.call("Input.dispatchKeyEvent", type="keyDown", key=key)
        await until(tab, f"document.querySelector('#items-opened h2')?.textContent === '{wrong[1].id}'")
        assert f"item={wrong[1].id}" in await tab.run("location.hash")
        assert await tab.run("document.querySelector('.sum .num').textContent") == f"{wrong[1].margin:+.2f}".replace(
            "-", "−"
        )
        assert await tab.run("[...document.querySelectorAll('.side-B mark')].map(node => node.textContent).join('')")
        await tab.call("Input.dispatchKeyEvent", type="keyDown", key="Escape")
        await until(tab, "document.getElementById('items-opened').hidden")
        assert await tab.run("document.activeElement.querySelector('small').textContent") == wrong[1].id

        await see(tab, "#items?q=needle31")  # of the items 31 and 310 to 319
        await until(tab, f"{STATUS} === '11 of 320 items'")
        await tab.run("document.querySelector('#items-rows a').click()")
        await until(tab, "CSS.highlights.get('items-found')?.size === 1")
        assert tab.errors == []


async def test_blind_labelling_hides_the_verdict_until_there_is_a_label(tmp_path: Path) -> None:
    """Result, choice, right answer and reasons appear only after an answer; keys 1, 2 and 0 are A, B and tie."""
    run = Run.load(write_run(tmp_path / "run"))
    item = next(item for item in run.items if item.predicted)
    async with chromium() as tab:
        await tab.open(page_of(tmp_path, [run]))
        await until(tab, "document.querySelector('#items-rows a')")
        await tab.run("document.getElementById('items-blind').click()")
        await until(tab, "!document.querySelector('#items-rows .result')")
        await see(tab, f"#items?blind=1&item={item.id}")
        hidden = ".decided, .gold-tag, .item-evidence, .text .tag"
        assert await tab.run(f"document.querySelectorAll('#items-opened :is({hidden})').length") == 0
        await tab.call("Input.dispatchKeyEvent", type="keyDown", key="2")
        await until(tab, "document.querySelector('#items-opened .decided')")
        assert await tab.run("document.querySelector('.label-box [value=B]').checked")
        assert tab.errors == []


async def test_two_runs_show_where_they_differ_the_losses_first(tmp_path: Path) -> None:
    """Only pairs with another verdict are listed; what the second lost stands first."""
    runs = [Run.load(write_run(tmp_path / name, items=made_items(seed=seed))) for name, seed in (("a", 1), ("b", 2))]
    couples = list(zip(runs[0].items, runs[1].items, strict=True))
    lost = {a.id for a, b in couples if a.correct and not b.correct}
    won = {a.id for a, b in couples if b.correct and not a.correct}
    async with chromium() as tab:
        await tab.open(page_of(tmp_path, runs))
        await until(tab, "document.querySelector('#items-rows a')")
        shown = int((await tab.run(STATUS)).split()[0])
        assert set((await tab.run(CELLS))[:10]) <= lost
        await see(tab, "#items?change=better&sort=id")
        await until(tab, f"{STATUS}.startsWith('{len(won)} of')")

    assert len(lost) + len(won) <= shown < 320


async def test_labels_given_in_the_page_are_read_by_svr_labels(tmp_path: Path) -> None:
    """Agreement and disagreement come back as labels with their reason; they enter no rate: they were not drawn."""
    run = Run.load(write_run(tmp_path / "run"))
    one, two = [item for item in run.items if item.predicted][:2]
    page = page_of(tmp_path, [run])
    async with chromium() as tab:
        await tab.open(page)
        for item, said, why in ((one, one.predicted, ""), (two, "tie", 'both, "really"')):
            await see(tab, f"#items?item={item.id}")
            await until(tab, f"document.querySelector('#items-opened h2')?.textContent === '{item.id}'")
            await tab.run(f"document.querySelector('.label-box [value={said}]').click()")
            await tab.run(f"document.querySelector('input.why').value = {why!r}")
            await tab.run("document.querySelector('input.why').dispatchEvent(new Event('input'))")
        await see(tab, "#items?label=disagree")
        assert await until(tab, CELLS) == [two.id]
        await tab.open(page)
        await until(tab, "document.getElementById('items-save-labels')?.textContent === 'Save 2 labels'")
        await tab.run(WATCH_FILES)
        await tab.run("document.getElementById('items-save-labels').click()")
        (tmp_path / "labels.jsonl").write_text(await tab.run("saved[0]"))

    labels = read_labels(tmp_path / "labels.jsonl")[0]
    assert {(one.id, one.label, one.note) for one in labels} == {
        (one.id, one.predicted, ""),
        (two.id, "tie", 'both, "really"'),
    }
    found = measure_agreement(run.items, labels)
    assert (found.items, found.picked) == (2, 2)


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_items_can_be_read_in_both_schemes_and_on_a_phone(tmp_path: Path, scheme: str) -> None:
    """Contrast is AA in the table and in an item; with unbroken words nothing is wider than the phone.

    Bars for A point to the left, as in the summary and in `svr explain`.
    """
    run = armed_run(tmp_path / "run", "word", tail=LONG)
    texts = {item.id: Texts(prompt=LONG, response_a=f"**{LONG}**", response_b=f"- {LONG}") for item in run.items}
    page = write_item_page(tmp_path / "page.html", [run], texts)
    async with chromium() as tab:
        for width in (1280, 390):
            await tab.open(page, width=width, scheme=scheme)
            await until(tab, "document.querySelector('#items-rows a')")
            assert await tab.run(TOO_FAINT) == []
            assert (await tab.run(OVERFLOWING))[:2] == [width, width]
            await tab.run("document.querySelector('#items-rows a').click()")
            await until(tab, "document.querySelector('#items-opened .contributions')")
            assert await tab.run(TOO_FAINT) == []
            assert (await tab.run(OVERFLOWING))[:2] == [width, width]
            assert all(left is (sign == "+") for sign, left in await tab.run(BARS) if sign in "+−")
            assert {sign for sign, _ in await tab.run(BARS)} & {"+", "−"}
