"""Rows become a data set: strict or lenient, unique ids, official counts, notes, problems, and at least one pair."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from svr_async.adapters import get_adapter
from svr_async.adapters.contract import IDENTICAL, Adapter
from svr_async.adapters.records import CONTRADICTING, REPEATED, Parsed
from svr_async.errors import DataError

Write = Callable[..., Path]
PAIRS = get_adapter("pairs")
GOOD = {"id": "1", "prompt": "p", "response_a": "a", "response_b": "b", "label": "0"}


def counted(rows: int, **groups: int) -> Adapter:
    """Return an adapter that keeps official counts by domain."""

    def parse(fields: Any) -> Parsed:
        parsed = PAIRS.parse(fields)
        return Parsed(pairs=parsed.pairs, id=parsed.id, group=fields.optional_text("domain"))

    return Adapter(
        name="x", title="X", licence="", columns=(), parse=parse, score=PAIRS.score, rows=(rows,), groups=groups
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"label": "maybe"}, r"column 'label': expected a label \(0 = response_a is better, .*, found 'maybe'"),
        ({"label": True}, "column 'label': expected .*, found True"),
        ({"label": 7}, "column 'label': expected .*, found 7"),
        ({"label": None}, "column 'label': expected a label, found null"),
        ({"response_a": None}, "column 'response_a': expected text, .*, found null"),
        ({"response_a": float("nan")}, "column 'response_a': expected text, .*, found nan"),
        ({"response_b": ["x"]}, r"column 'response_b': expected text, .*, found \['x'\]"),
        ({"prompt": " \n"}, "column 'prompt': the prompt is empty"),
        ({"prompt": 7}, "column 'prompt': expected text or a list of messages, found 7"),
        ({"prompt": [{"role": "narrator", "content": "x"}]}, "column 'prompt': unknown role 'narrator'"),
        ({"domain": 3}, "column 'domain': expected text, found 3"),
        ({"id": 1.5}, "column 'id': expected an id .*, found 1.5"),
        ({"rubrics": 3}, "column 'rubrics': expected a list of texts or objects, found 3"),
        ({"rubrics": [3]}, r"column 'rubrics': expected a list of texts or objects, found \[3\]"),
        ({"rubrics": [{"note": "x"}]}, "column 'rubrics': expected objects with rubric, text, criterion"),
        ({"strength": "strong"}, "column 'strength': expected a whole number.*, found 'strong'"),
    ],
)
def test_an_invalid_row_is_named_with_column_expected_and_found(
    write: Write, change: dict[str, Any], message: str
) -> None:
    """A strict load stops at it; a lenient one leaves it out and counts it without the row's values."""
    path = write("data.jsonl", [GOOD, {**GOOD, "id": "2", **change}])
    with pytest.raises(DataError, match=rf"data\.jsonl row 2: {message}") as caught:
        PAIRS.load(path)
    assert "\n" not in caught.value.one_line()
    assert caught.value.exit_code == 2
    dataset = PAIRS.load(path, lenient=True)
    assert (len(dataset.pairs), sum(dataset.skipped.values())) == (1, 1)
    assert "1 row left out as invalid" in dataset.notes
    assert dataset.problems[0].first == ["data.jsonl row 2"]


def test_odd_rows_are_kept_and_counted(write: Write) -> None:
    """Identical, empty, repeated and contradicting rows are pairs, with unique ids, and are listed."""
    same, turned = {**GOOD, "id": "3", "response_b": "a"}, {**GOOD, "id": "4", "label": "1"}
    dataset = PAIRS.load(
        write("a.jsonl", [GOOD, {**GOOD, "id": "1#2"}, GOOD, same, turned, {**GOOD, "response_a": ""}])
    )
    assert [pair.id for pair in dataset.pairs] == ["1", "1#2", "1#3", "3", "4", "1#4"]
    counts = {one.what: (one.count, one.kept) for one in dataset.problems}
    assert (counts[REPEATED], counts[IDENTICAL], counts[CONTRADICTING]) == ((2, True), (1, True), (1, True))
    assert counts["an empty response"] == (1, True)
    assert dataset.left_out() == {"repeated": 2, "contradicting": 1}
    assert dataset.skipped == {}


@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "prompt": st.text(st.characters(codec="utf-8"), min_size=1).filter(str.strip),
                "response_a": st.text(st.characters(codec="utf-8")),
                "response_b": st.text(st.characters(codec="utf-8")),
                "label": st.sampled_from(["[[A]]", "[[B]]"]),
            }
        ),
        min_size=1,
        max_size=5,
    )
)
def test_the_digest_depends_on_the_pairs_and_not_on_the_file_format(write: Write, rows: list[dict[str, str]]) -> None:
    """The same pairs have the same digest in every file format, and other pairs another one."""
    digests = {PAIRS.load(write(name, rows)).digest for name in ("a.json", "a.jsonl.gz", "a.csv", "a.parquet")}
    assert len(digests) == 1
    changed = [{**rows[0], "response_a": rows[0]["response_a"] + "!"}, *rows[1:]]
    assert PAIRS.load(write("b.jsonl", changed)).digest not in digests


def test_official_counts(write: Write) -> None:
    """Matching rows and groups make a data set official; others are noted, and refused for an official file."""
    path = write("a.jsonl", [{**GOOD, "id": str(n), "domain": d} for n, d in enumerate("xxy")])
    dataset = counted(3, x=2, y=1).load(path, official=True)
    assert (dataset.official, dataset.notes) == (True, ())
    few = counted(2985)
    assert not few.load(path).official
    assert few.load(path).notes == ("3 rows, not the official 2985: scores are not benchmark scores",)
    with pytest.raises(DataError, match="3 rows, not the official 2985"):
        few.load(path, official=True)
    groups = counted(3, x=1, y=2)
    assert groups.load(path).notes[0].startswith("rows by group differ from the official ones: x 2, not 1; y 1, not 2")
    invalid = write("b.jsonl", [GOOD, {**GOOD, "id": "2", "prompt": 9}])
    assert not counted(2).load(invalid, lenient=True).official
