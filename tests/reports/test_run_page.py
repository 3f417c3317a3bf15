"""The page of a run or of several: what it says, that it is one safe file, and that bare runs have one too."""

from __future__ import annotations

import base64
import hashlib
import re
from collections import Counter
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import orjson
import pytest
from hostile_run import ATTACK, HARMLESS, armed_run
from made_run import made_items, write_run

from svr_async.evaluation.run_folder import Run
from svr_async.reports.page import render_runs


class Page(HTMLParser):
    """The tags, attributes and words of a page."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: Counter[str] = Counter()
        self.attributes: list[tuple[str, str | None]] = []
        self.words: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Count a tag and keep its attributes."""
        self.tags[tag] += 1
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        """Keep the text."""
        self.words.append(data)

    @property
    def text(self) -> str:
        """All text with blanks joined."""
        return " ".join(" ".join(self.words).replace("\u00a0", " ").split())


def page_of(*folders: Path) -> Page:
    """Render run folders and parse the page."""
    return Page(render_runs([Run.load(folder) for folder in folders]))


def test_the_result_comes_first_and_every_part_is_there(tmp_path: Path) -> None:
    """A sentence with interval and denominator, then the items, plots, tables, and how it was run, folded."""
    text = page_of(write_run(tmp_path / "run")).text
    order = [
        "Accuracy 78.8 % (95 % interval 73.9–82.9 %, 311 of 320 pairs judged). Better than guessing.", "320 items",
        "Plots", "Accuracy by domain", "Instruction following", "Official scores", "The rubrics that decide",
        "Keeps every number of the prompt", "Outcomes and order", "parse error", "Flip rate 9.4 %",
        "How it was run", "Prompt tokens", "$0.23", "svr-eval rubricbench", "blake2b:5f0e",
    ]  # fmt: skip
    places = [text.find(words, text.find("RubricBench Method")) for words in order]
    assert places == sorted(places)
    assert places[0] > 0


@pytest.mark.parametrize(
    ("metrics", "manifest", "mark"),
    [
        ({"complete": False, "n_total": 1147}, {}, "PARTIAL"),
        ({}, {"judge": {"marks": ["simulated"]}}, "SIMULATED"),
        ({}, {"judge": {"marks": ["offline_rules"]}}, "OFFLINE RULES"),
        ({}, {"sample": True}, "SAMPLE DATA"),
    ],
)
def test_marks_stand_before_the_first_number_and_in_the_title(
    tmp_path: Path, metrics: dict[str, int | str], manifest: dict[str, Any], mark: str
) -> None:
    """A caveat is read before the accuracy; a partial run shows no official score."""
    html = render_runs([Run.load(write_run(tmp_path, metrics=metrics, manifest=manifest))])
    assert 0 < html.index(f"<strong>{mark}</strong>") < html.index('class="headline"')
    assert f"[{mark}]" in html.partition("<title>")[2].partition("</title>")[0]
    assert ("Official scores" in html) is (mark != "PARTIAL")


def test_the_page_is_one_file_that_runs_only_our_script(tmp_path: Path) -> None:
    """No reference outside the page; the policy admits style and script by their digests; equal runs, equal bytes."""
    run = Run.load(write_run(tmp_path))
    html = render_runs([run])
    page = Page(html)
    assert html == render_runs([run])
    for tag in ("style", "script"):
        found = re.search(rf"<{tag}>(.*?)</{tag}>", html, re.DOTALL)
        assert found is not None
        digest = base64.b64encode(hashlib.sha256(found[1].encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in unescape(html)
    assert "default-src 'none'" in unescape(html)
    assert not {"link", "iframe", "object", "base"} & set(page.tags)
    assert not [value for name, value in page.attributes if name == "style" or name.startswith("on")]
    assert all((value or "").startswith("data:image/svg") for name, value in page.attributes if name == "src")
    assert all((value or "").startswith("#") for name, value in page.attributes if name == "href")
    ids = [value for name, value in page.attributes if name == "id"]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("several", [False, True])
def test_hostile_texts_add_no_element_and_no_attribute(tmp_path: Path, several: bool) -> None:
    """Attacks in every field give the same elements and attribute names as harmless words in their place."""
    pages = []
    for name, text in (("bad", ATTACK), ("good", HARMLESS)):
        runs = [armed_run(tmp_path / f"{name}{i}", text) for i in range(2 if several else 1)]
        pages.append(Page(render_runs(runs)))
    bad, good = pages
    assert bad.tags == good.tags
    assert Counter(name for name, _ in bad.attributes) == Counter(name for name, _ in good.attributes)
    assert "window.pwned=1" in bad.text
    assert not {"\u202e", "\u2066", "\x1b", "\x00", "\u200b"} & set(bad.text)


def test_a_run_that_knows_little_still_has_a_page(tmp_path: Path) -> None:
    """Only the required keys: absent parts are left out, nothing is NaN or None."""
    write_run(tmp_path)
    (tmp_path / "items.jsonl").write_bytes(b"")
    bare = {"benchmark": "pairs", "method": "direct", "judge": "j", "n_total": 0, "n_scored": 0}
    (tmp_path / "metrics.json").write_bytes(orjson.dumps(bare))
    (tmp_path / "manifest.json").write_bytes(b"{}")
    text = page_of(tmp_path).text.partition("Skip to the results")[2].partition("How it was run")[0]
    assert "No accuracy: 0 of 0 pairs judged" in text
    assert "Accuracy by domain" not in text
    assert not re.search(r"\b(None|nan|NaN|null|inf)\b", text)


def test_a_run_without_any_verdict_says_why(tmp_path: Path) -> None:
    """No accuracy, but the most common reason in the judge's own words."""
    items = [item for item in made_items(n=200) if item.outcome == "parse_error"]
    folder = write_run(tmp_path, items=items, metrics={"n_scored": 0})
    text = page_of(folder).text
    assert "Most common reason" in text
    assert "no verdict in the reply" in text
    assert "Accuracy 0.0 %" not in text


def test_runs_are_named_a_and_b_and_their_difference_comes_first(tmp_path: Path) -> None:
    """Each letter is explained once at the top; the sentence on the difference links the pairs where they differ."""
    folders = [
        write_run(tmp_path / "a", items=made_items(seed=1, skill=0.55), metrics={"method": "direct"}),
        write_run(tmp_path / "b", items=made_items(seed=2, skill=0.75), metrics={"complete": False}),
    ]
    page = page_of(*folders)
    assert "Run A direct · gpt-oss-120b" in page.text
    assert "Run B is better by" in page.text
    assert "is PARTIAL: it did not finish" in page.text
    assert ("href", "#items?change=differ") in page.attributes
    assert page.tags["table"] >= 3
