"""How large a page with all items is, how soon it shows them, and how long a filter and a search take in Chromium.

    python benchmarks/pages/run_page.py --items 12000
    python benchmarks/pages/run_page.py --items 100000 --chars 300

Texts are made of words and phrases that occur as often as their rank says. How well they compress is printed:
responses of models to distinct prompts, as in RMB's helpfulness part, compress 3.1 to 3.4 times in blocks of 200
pairs, those of RM-Bench and RewardBench 4 to 5 times. Every pair has its own texts; with `--shared 9` nine pairs have
the same ones. The page is opened from disk in headless Chromium; times are medians of `--repeats`, in milliseconds.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import random
import statistics
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parents[2] / "tests"
sys.path.insert(0, str(TESTS))

from chromium import Page, chromium  # noqa: E402
from made_run import RUBRICS, made_item, write_run  # noqa: E402

from svr_async.evaluation.items import Item, Reason  # noqa: E402
from svr_async.evaluation.run_folder import Run, Texts  # noqa: E402
from svr_async.reports.page import render_runs  # noqa: E402

DOMAINS = ("Chat", "Code", "STEM", "Instruction following", "Safety")
SHOWN = """(async () => { for (;;) {
  const [mark] = performance.getEntriesByName("items-shown");
  if (mark) return mark.startTime;
  await new Promise(next => setTimeout(next, 5));
} })()"""
FILTER = """(async () => {
  const box = document.getElementById("items-result"), began = performance.now();
  box.value = %r;
  box.dispatchEvent(new Event("change"));
  await new Promise(done => requestAnimationFrame(() => setTimeout(done)));
  return performance.now() - began;
})()"""
SEARCH = """(async () => {
  const box = document.getElementById("items-q"), status = document.getElementById("items-status");
  const began = performance.now();
  let longest = 0, before = began;
  box.value = %r;
  box.dispatchEvent(new Event("input"));
  await new Promise(done => setTimeout(done, 160));
  do {
    await new Promise(done => setTimeout(done));
    longest = Math.max(longest, performance.now() - before);
    before = performance.now();
  } while (status.textContent.includes("searching"));
  return [performance.now() - began, status.textContent, longest];
})()"""
OPEN = """(async () => {
  const began = performance.now();
  location.hash = "#items?item=" + %r;
  while (document.querySelector("#items-opened h2")?.textContent !== %r) await new Promise(done => setTimeout(done));
  return performance.now() - began;
})()"""


def words_of(rng: random.Random) -> list[str]:
    """Return words of two to eleven letters; the rarer ones are the longer."""
    letters = "etaoinshrdlucmfwypvbgkjqxz"
    weights = [
        12.7,
        9.1,
        8.2,
        7.5,
        7,
        6.7,
        6.3,
        6.1,
        6,
        4.3,
        4,
        2.8,
        2.8,
        2.4,
        2.2,
        2.4,
        2,
        1.9,
        1,
        1.5,
        2,
        0.8,
        0.2,
        0.1,
        0.2,
        0.1,
    ]
    return [
        "".join(rng.choices(letters, weights, k=2 + min(9, int(rank**0.3) + rng.randrange(3))))
        for rank in range(20_000)
    ]


def phrases_of(rng: random.Random, words: list[str]) -> list[str]:
    """Return words and phrases of two to five words, the most frequent first."""
    drawn = [" ".join(common(rng, words) for _ in range(rng.randrange(2, 6))) for _ in range(len(words))]
    return [one for couple in zip(words, drawn, strict=True) for one in couple]


def common(rng: random.Random, some: list[str]) -> str:
    """Return the n-th of some with a weight of 1/n."""
    return some[min(len(some) - 1, int(len(some) ** rng.random()) - 1)]


def prose(rng: random.Random, phrases: list[str], chars: int) -> str:
    """Return a number of characters of sentences and paragraphs."""
    parts: list[str] = []
    size = 0
    while size < chars:
        end = rng.choice(("", "", "", "", ",", ".", ".\n\n"))
        parts.append(common(rng, phrases) + end)
        size += len(parts[-1]) + 1
    return " ".join(parts)[:chars]


def made(n: int, chars: int, shared: int) -> tuple[list[Item], dict[str, Texts]]:
    """Return items with reasons, and their texts."""
    rng = random.Random(3)
    words = phrases_of(rng, words_of(rng))
    items: list[Item] = []
    texts: dict[str, Texts] = {}
    for at in range(n):
        item = made_item(f"pair-{at:06d}", DOMAINS[at % 5], 7, 0.72)
        reasons = tuple(
            Reason(rubric=row.id, shown=row.shown, judge="", text=prose(rng, words, 110)) for row in item.rubrics
        )
        items.append(replace(item, reasons=reasons))
        held = texts.get(items[at - at % shared].id)
        texts[item.id] = held or Texts(
            prompt=prose(rng, words, chars // 4),
            response_a=prose(rng, words, chars),
            response_b=prose(rng, words, chars),
        )
    return items, texts


def ratio_of(some: list[Texts]) -> float:
    """Return by how much gzip shortens texts."""
    data = "\n".join(text for one in some for text in (one.prompt, one.response_a, one.response_b)).encode()
    return len(data) / len(gzip.compress(data, 6))


async def measured(tab: Page, page: Path, some: str, word: str, repeats: int) -> dict[str, Any]:
    """Open the page and return what was seen of it."""
    first, filters, opens = [], [], []
    for _ in range(repeats):
        await tab.open(page)
        first.append(await tab.run(SHOWN))
        filters += [await tab.run(FILTER % result) for result in ("wrong", "right", "")]
        opens.append(await tab.run(OPEN % (some, some)))
    await tab.open(page)
    await tab.run(SHOWN)
    search, found, longest = await tab.run(SEARCH % word)
    return {
        "first view, ms": statistics.median(first), "filter, ms": statistics.median(filters),
        "slowest filter, ms": max(filters), "item opened, ms": statistics.median(opens),
        "search of all texts, ms": search, "longest pause in it, ms": longest, "found": found,
    }  # fmt: skip


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=12_000)
    parser.add_argument("--chars", type=int, default=1_500)
    parser.add_argument("--shared", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--keep", type=Path, help="write the page here")
    args = parser.parse_args()
    items, texts = made(args.items, args.chars, args.shared)
    with tempfile.TemporaryDirectory() as folder:
        place = write_run(Path(folder) / "run", items=items)
        began = time.process_time()
        run = Run.load(place)
        html = render_runs([run], texts=texts).encode()
        page = args.keep or Path(folder) / "page.html"
        page.write_bytes(html)
        raw = sum(len(text) for one in texts.values() for text in (one.prompt, one.response_a, one.response_b))
        print(f"{args.items:,} items, {raw / 1e6:.1f} M characters in texts, {len(RUBRICS)} rubrics with reasons each")
        print(f"gzip makes the texts of 200 pairs {ratio_of(list(texts.values())[:200]):.2f} times smaller")
        print(f"page {len(html) / 1e6:.1f} MB, written in {time.process_time() - began:.1f} CPU seconds")
        async with chromium() as tab:
            word = texts[items[-1].id].response_b.split()[-1]
            found = await measured(tab, page.resolve(), items[args.items // 2].id, word, args.repeats)
    for name, value in found.items():
        print(f"{name}: {value:.0f}" if isinstance(value, float) else f"{name}: {value}")


if __name__ == "__main__":
    asyncio.run(main())
