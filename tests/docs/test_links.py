"""Links between pages lead somewhere."""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from pathlib import Path

import pytest
from make_reference import DOCS, written
from pages import ROOT, pages

LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
LINKING = [
    *pages(),
    ROOT / "CHANGELOG.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "SECURITY.md",
    ROOT / "benchmarks" / "RESULTS.md",
]


def label(path: Path) -> str:
    """Return a page's place in the repository."""
    return path.relative_to(ROOT).as_posix()


def prose(path: Path) -> str:
    """Return a page without its code, whose brackets are not links and whose `#` are not headings."""
    text = re.sub(r"^( *)```.*?^\1```", "", path.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"`([^`\n]+)`", lambda code: re.sub(r"[\[\](]", "", code[1]), text)


def on_github(title: str) -> str:
    """Return the anchor that GitHub gives a heading."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def on_the_site(title: str) -> str:
    """Return the anchor that Python-Markdown gives a heading."""
    plain = unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode()
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", plain).strip().lower())


@cache
def anchors(path: Path) -> set[str]:
    """Return the anchors of a page that are the same on GitHub and on the site."""
    titles = HEADING.findall(prose(path))
    return {on_github(title) for title in titles} & {on_the_site(title) for title in titles}


@pytest.mark.parametrize("page", LINKING, ids=label)
def test_every_link_to_a_page_or_heading_leads_there(page: Path) -> None:
    """What a relative link names is in the repository; a heading's anchor is the same on GitHub and on the site."""
    for link in LINK.findall(prose(page)):
        if link.startswith(("http://", "https://", "mailto:")):
            continue
        place, _, anchor = link.partition("#")
        target = (page.parent / place).resolve() if place else page
        assert target.exists(), f"{label(page)} links to {link}"
        assert not anchor or anchor in anchors(target), f"{label(page)} links to {link}; there are {anchors(target)}"


def test_every_page_stands_in_the_navigation() -> None:
    """Every page can be reached."""
    listed = set(re.findall(r": (\S+\.md)$", (ROOT / "mkdocs.yml").read_text("utf-8"), re.MULTILINE))
    assert listed == {page.relative_to(ROOT / "docs").as_posix() for page in pages() if page.name != "README.md"}


def test_written_pages_are_up_to_date() -> None:
    """Commands, public names and llms.txt are those of the code and the navigation: else `make reference`."""
    stale = [place for place, text in written().items() if (DOCS / place).read_text("utf-8") != text]
    assert not stale, f"stale below docs/: {stale}: run `make reference`"
