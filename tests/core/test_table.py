"""Sheets as HTML: whatever stands in them is text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser

from hypothesis import given, settings
from hypothesis import strategies as st

from svr_async.core.table import Line, Part, Table, to_html

TAGS = {"div", "span", "b", "table", "thead", "tbody", "tr", "td", "th"}


class Reader(HTMLParser):
    """Notes each tag, each name of an attribute, and the text."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.text += data


def everywhere(text: str) -> Iterator[Part]:
    """Yield a text in each place that a sheet has."""
    yield Line(text, label=text, loud=True)
    yield Line(text)
    yield Table(caption=text)
    yield Table((text, text, text), [(text, text, text)], texts=1)


@settings(deadline=None, max_examples=50)
@given(
    st.one_of(
        st.text(min_size=1, max_size=30), st.sampled_from(["<script>1</script>", '" onload="x', "</td><img src=x>"])
    )
)
def test_no_text_becomes_markup(text: str) -> None:
    """Tags and attributes are ours whatever the texts are; without scripts, links and colours."""
    page = to_html(everywhere(text))
    reader = Reader()
    reader.feed(page)
    reader.close()
    assert reader.tags == TAGS
    assert reader.attributes <= {"class", "style"}
    for style in re.findall(r'style="([^"]*)"', page):
        assert not re.search(r"(?<![-\w])color:|url|#", style)
