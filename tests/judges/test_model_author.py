"""The model as an author: its prompts, and the reading of its replies."""

from typing import Any

import orjson
import pytest
from rig import pairs, writer

from svr_async.core.rubric import MAX_RUBRIC_CHARS, Rubric
from svr_async.engine.request import ReplyRejectedError
from svr_async.judges.questions import read_induced, read_rephrased


def reply(*entries: str | dict[str, Any] | None) -> str:
    """Return a reply with these entries."""
    return orjson.dumps({"contrastive_rubrics": list(entries)}).decode()


def test_rubrics_are_read_and_odd_entries_left_out() -> None:
    """Unknown labels are emptied, spaces folded, doubles joined, long, empty and shapeless entries dropped."""
    found = read_induced(
        reply(
            {"rubric": "Is  short\nand plain", "facet": "nonsense", "importance": 3, "grounding": ["x"]},
            {"rubric": "is short and plain"},
            {"rubric": "x" * 513},
            {"rubric": " "},
            {"rubric": 7},
            "text",
            None,
            {"rubric": "Names a source", "facet": "format", "importance": "major", "grounding": " the  end "},
        )
    )
    assert found[0].text.casefold() == "is short and plain"
    assert (found[0].facet, found[0].importance, found[0].grounding) == ("", "", "")
    last = found[-1]
    assert (last.text, last.facet, last.importance, last.grounding) == ("Names a source", "format", "major", "the end")
    assert len({rubric.id for rubric in found}) == len(found) <= 3


def test_only_contrastive_induction_shows_the_rejected_response() -> None:
    """The descriptive form and the probe see prompt and chosen response only; the same pair gives the same request."""
    pair = pairs(1)[0]
    both, one, probe = (
        question.request.messages[1][1]
        for question in (
            writer().induction(pair, contrastive=True),
            writer().induction(pair, contrastive=False),
            writer().probe(pair),
        )
    )
    assert pair.rejected in both
    assert pair.rejected not in one
    assert pair.rejected not in probe
    assert all(pair.chosen in text for text in (both, one, probe))
    assert writer().induction(pair, contrastive=True).request == writer().induction(pair, contrastive=True).request


# --- rubrics in the words of a prompt ---------------------------------------------------------------------------------

RUBRICS = [Rubric(text=f"Point {n}") for n in range(1, 5)]


def wordings(*entries: object) -> str:
    """Return a reply with these (id, text) entries, or entries of any other shape."""
    rows = [{"rubric_id": e[0], "rubric": e[1]} if isinstance(e, tuple) else e for e in entries]
    return orjson.dumps({"rephrased_rubrics": rows}).decode()


def wordings_of(*entries: object) -> dict[str, str]:
    """Return the content of such a reply, by local id."""
    found = read_rephrased(wordings(*entries), RUBRICS)
    return {f"R{n}": found[rubric.id] for n, rubric in enumerate(RUBRICS, 1) if rubric.id in found}


@pytest.mark.parametrize(
    ("entries", "kept"),
    [
        ([("R1", "a"), ("R2", "b"), ("R3", "c"), ("R4", "d")], "R1 R2 R3 R4"),
        ([("r1 ", " a\n b ")], "R1"),  # case and spaces of an id do not matter
        ([("R1", "a"), ("R3", "c"), ("R4", "d")], "R1 R3 R4"),  # dropped
        ([("R2", "b"), ("R1", "a"), ("R3", "c"), ("R4", "d")], "R1 R2 R3 R4"),  # in any order
        ([("R1", "a"), ("R2", "b"), ("R1", "z")], "R2"),  # named twice
        ([("R1", "same"), ("R2", "Same"), ("R3", "c")], "R3"),  # two became one
        ([("R1", "a"), ("R9", "x"), ("R2", "b")], "R1 R2"),  # one that was not asked about
        ([("R1", ""), ("R2", " "), ("R3", 7), ("R4", "d")], "R4"),
        ([("R1", "x" * (MAX_RUBRIC_CHARS + 1)), ("R2", "x" * MAX_RUBRIC_CHARS)], "R2"),
        ([{"rubric_id": 1, "rubric": "a"}, "text", None, [], {"rubric": "b"}, ("R2", "c")], "R1 R2"),
        ([], ""),
        ([("R9", "x")], ""),
    ],
)
def test_only_wordings_beyond_doubt_are_read(
    entries: list[str | tuple[str, object] | dict[str, Any] | None], kept: str
) -> None:
    """Doubled, merged, empty and endless ones are left out; a reply without any is rejected."""
    if not kept:
        with pytest.raises(ReplyRejectedError):
            wordings_of(*entries)
        return
    found = wordings_of(*entries)
    assert list(found) == kept.split()
    assert all(text == " ".join(text.split()) for text in found.values())
