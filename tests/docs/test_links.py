"""Links between pages lead somewhere, and every flag that a page names is one that its command has."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import click
import pytest
from pages import ROOT, pages

from svr_async.commands.main import svr

LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
CODE = re.compile(r"`([^`\n]+)`|^(?: {4,}|\$ |)(svr[ -].*(?:\\\n.*)*)$", re.MULTILINE)
LINKING = [*pages(), ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md"]


def label(path: Path) -> str:
    """Return a page's place in the repository."""
    return path.relative_to(ROOT).as_posix()


def prose(path: Path) -> str:
    """Return a page without its code, in which brackets are no links and `#` no headings."""
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
    """A page that nobody is led to is not read."""
    listed = set(re.findall(r": (\S+\.md)$", (ROOT / "mkdocs.yml").read_text("utf-8"), re.MULTILINE))
    assert listed == {page.relative_to(ROOT / "docs").as_posix() for page in pages() if page.name != "README.md"}


def commands(page: Path) -> Iterator[list[str]]:
    """Yield the words of all commands of ours that a page names, in a line or in a block."""
    for inline, block in CODE.findall(page.read_text("utf-8")):
        for text in (inline or block).replace("\\\n", " ").split(" #")[0].split(" && "):
            if text.startswith(("svr ", "svr-eval ", "svr-fit ")):
                yield text.replace("svr-eval", "svr eval").replace("svr-fit", "svr fit").split()[1:]


def of_command(words: list[str]) -> tuple[click.Command, list[str]]:
    """Return the command that words name, and the words after its name."""
    command: click.Command = svr
    while isinstance(command, click.Group) and words:
        found = command.get_command(click.Context(command), words[0].split("/")[0])
        if found is None:
            break
        command, words = found, words[1:]
    return command, words


def flags(command: click.Command) -> set[str]:
    """Return the flags of a command; `svr sim` by itself is `svr sim serve`."""
    found = {flag for param in command.params for flag in (*param.opts, *param.secondary_opts)} | {
        "--help",
        "--version",
    }
    inner = command.commands.get("serve") if isinstance(command, click.Group) else None
    return found | flags(inner) if inner else found


@pytest.mark.parametrize("page", pages(), ids=label)
def test_every_command_and_flag_that_a_page_names_exists(page: Path) -> None:
    """`svr … --flag` has that flag, also where the example cannot be run."""
    for words in commands(page):
        command, rest = of_command(words)
        given = {word.split("=")[0] for word in rest if re.fullmatch(r"--[a-z][a-z-]+(=.*)?", word)}
        if command.name != "export":  # `svr batch export` goes on with another command's flags
            assert given <= flags(command), f"{label(page)}: svr {' '.join(words)}"
