"""The model as an author: what is read from its replies, and what it is shown."""

import orjson
import pytest
from rig import pairs, writer

from svr_async.engine.request import ReplyRejectedError
from svr_async.judges.authoring import MAX_INDUCED, induction, probing, read_induced, read_text

NONCE = "0123456789abcdef"


def reply(*entries):
    """Return a reply with these entries."""
    return orjson.dumps({"nonce": NONCE, "contrastive_rubrics": list(entries)}).decode()


def test_rubrics_are_read_and_odd_entries_left_out():
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
        ),
        NONCE,
    )
    assert found[0].text.casefold() == "is short and plain"
    assert (found[0].facet, found[0].importance, found[0].grounding) == ("", "", "")
    last = found[-1]
    assert (last.text, last.facet, last.importance, last.grounding) == ("Names a source", "format", "major", "the end")
    assert len({rubric.id for rubric in found}) == len(found) <= 3


def test_at_most_six_rubrics_are_taken():
    """The first six."""
    found = read_induced(reply(*({"rubric": f"Point {n}"} for n in range(20))), NONCE)
    assert [rubric.text for rubric in found] == [f"Point {n}" for n in range(MAX_INDUCED)]


@pytest.mark.parametrize("text", ["", "no", reply(), reply({"rubric": ""}), '{"contrastive_rubrics": 3}', "[]"])
def test_a_reply_without_a_rubric_is_rejected(text):
    """So that it is asked again."""
    with pytest.raises(ReplyRejectedError):
        read_induced(text, NONCE)


def test_a_probe_is_text():
    """Outer space is cut; an empty reply is rejected."""
    assert read_text("  a worse answer \n") == "a worse answer"
    with pytest.raises(ReplyRejectedError):
        read_text(" \n")


def test_only_contrastive_induction_shows_the_rejected_response():
    """The descriptive form and the probe see prompt and chosen response only; the same pair gives the same request."""
    pair = pairs(1)[0]
    both, one, probe = (
        question.request.messages[1][1]
        for question in (
            induction(writer(), pair, contrastive=True),
            induction(writer(), pair, contrastive=False),
            probing(writer(), pair),
        )
    )
    assert pair.rejected in both
    assert pair.rejected not in one
    assert pair.rejected not in probe
    assert all(pair.chosen in text for text in (both, one, probe))
    assert induction(writer(), pair, contrastive=True).request == induction(writer(), pair, contrastive=True).request
