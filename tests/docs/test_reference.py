"""The pages that are written by a program are what it would write now."""

from __future__ import annotations

from make_reference import DOCS, written


def test_written_pages_are_up_to_date() -> None:
    """Commands, public names and llms.txt are those of the code and the navigation: else `make reference`."""
    stale = [place for place, text in written().items() if (DOCS / place).read_text("utf-8") != text]
    assert not stale, f"stale below docs/: {stale}: run `make reference`"
