"""Rows become a data set: strict or lenient, unique ids, official counts, notes, and never nothing at all."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from svr_async.adapters import get_adapter
from svr_async.adapters.contract import Adapter, OfficialCounts
from svr_async.adapters.fields import as_integer, describe
from svr_async.adapters.records import Parsed
from svr_async.errors import DataError

PAIRS = get_adapter("pairs")
GOOD = {"id": "1", "prompt": "p", "response_a": "a", "response_b": "b", "label": "0"}


def counted(counts: OfficialCounts) -> Adapter:
    """Return an adapter that keeps official counts by domain."""

    def parse(fields: Any) -> Parsed:
        parsed = PAIRS.parse(fields)
        return Parsed(pairs=parsed.pairs, id=parsed.id, group=fields.optional_text("domain"))

    return Adapter(name="x", title="X", licence="", schema={}, parse=parse, score=PAIRS.score, counts=counts)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"label": "maybe"}, r"column 'label': expected a label \(0 is response_a, 1 is .*, found text 'maybe'"),
        ({"label": True}, "column 'label': expected .*, found flag true"),
        ({"label": 7}, "column 'label': expected .*, found number 7"),
        ({"label": None}, "column 'label': expected a value, found null"),
        ({"response_a": None}, "column 'response_a': expected text, .*, found null"),
        ({"response_a": float("nan")}, "column 'response_a': expected text, .*, found number nan"),
        ({"response_a": 3}, "column 'response_a': expected text, .*, found number 3"),
        ({"response_b": ["x"]}, "column 'response_b': expected text, .*, found list of 1"),
        ({"prompt": " \n"}, "column 'prompt': the prompt is empty"),
        ({"prompt": 7}, "column 'prompt': expected text or a list of messages, found number 7"),
        ({"prompt": [{"role": "narrator", "content": "x"}]}, "column 'prompt': unknown role 'narrator'"),
        ({"domain": 3}, "column 'domain': expected text, found number 3"),
        ({"id": 1.5}, "column 'id': expected an id .*, found number 1.5"),
        ({"rubrics": 3}, "column 'rubrics': expected rubrics .*, found number 3"),
        ({"rubrics": [3]}, "column 'rubrics': expected texts or objects .*, an element is number 3"),
        ({"strength": "strong"}, "column 'strength': expected a whole number from 0 .*, found text 'strong'"),
    ],
)
def test_an_invalid_row_is_named_with_column_expected_and_found(
    write: Callable[..., Path], change: dict[str, Any], message: str
) -> None:
    """A row that breaks the schema stops the load with its file, row, column, what was expected and what was found."""
    path = write("data.jsonl", [GOOD, {**GOOD, "id": "2", **change}])
    with pytest.raises(DataError, match=rf"data\.jsonl row 2: {message}") as caught:
        PAIRS.load(path)
    assert "\n" not in caught.value.one_line()
    assert caught.value.exit_code == 2


def test_a_missing_column_lists_what_there_is_and_the_nearest(write: Callable[..., Path]) -> None:
    """A misspelt column is answered with the columns found and a guess at the one that was meant."""
    row = {"promt": "p", "response_a": "a", "response_b": "b", "label": 0}
    with pytest.raises(DataError, match=r"expected a prompt|prompt column"):
        PAIRS.load(write("a.jsonl", [row]))
    with pytest.raises(
        DataError, match=r"columns found: prompt, chosen, rejcted; .*did you mean 'rejcted' for 'rejected'\?"
    ):
        PAIRS.load(write("b.jsonl", [{"prompt": "p", "chosen": "a", "rejcted": "b"}]))
    with pytest.raises(DataError, match=r"no column 'subset'; columns found: .*, sub_set; nearest: 'sub_set'"):
        get_adapter("rewardbench").load(
            write("c.jsonl", [{"prompt": "p", "chosen": "a", "rejected": "b", "sub_set": "x"}])
        )


def test_lenient_loading_skips_and_counts_invalid_rows(write: Callable[..., Path]) -> None:
    """With `lenient`, invalid rows are left out and counted by reason; their values are not in the reasons."""
    lines = [
        *({**GOOD, "id": f"1{letter}"} for letter in "abc"),
        {**GOOD, "id": "2", "label": "x"},
        {**GOOD, "id": "3", "label": "y"},
        {**GOOD, "id": "4", "prompt": ""},
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines) + "{broken\n"
    dataset = PAIRS.load(write("data.jsonl", text.encode()), lenient=True)
    assert [pair.id for pair in dataset.pairs] == ["1a", "1b", "1c"]
    assert dataset.n_rows == 7
    assert sorted(dataset.skipped.values()) == [1, 1, 2]
    assert "4 rows left out as invalid" in dataset.notes
    assert dataset.skipped["invalid: column 'label': expected a label (0 is response_a, 1 is response_b) or tie"] == 2


@settings(deadline=None, max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    value=st.none() | st.integers() | st.floats() | st.booleans() | st.lists(st.integers()),
    column=st.sampled_from(["prompt", "response_a", "response_b"]),
)
def test_whatever_is_no_text_is_invalid_and_counted(
    write: Callable[..., Path], value: float | bool | list[int] | None, column: str
) -> None:
    """Null, numbers, NaN, flags and lists in a text column are refused when strict and counted when lenient."""
    path = write("any.jsonl", [GOOD, {**GOOD, "id": "2", column: value}])
    with pytest.raises(DataError):
        PAIRS.load(path)
    dataset = PAIRS.load(path, lenient=True)
    assert len(dataset.pairs) == 1
    assert sum(dataset.skipped.values()) == 1


def test_empty_responses_are_legal(write: Callable[..., Path]) -> None:
    """An empty or blank response is an answer, and is judged."""
    dataset = PAIRS.load(write("a.jsonl", [{**GOOD, "response_a": "", "response_b": "  "}]))
    assert (dataset.pairs[0].chosen, dataset.pairs[0].rejected) == ("", "  ")


def test_identical_responses_are_kept_and_noted(write: Callable[..., Path]) -> None:
    """A pair whose responses are equal stays in the evaluation, where a model may call it either way, and is noted."""
    dataset = PAIRS.load(write("a.jsonl", [{**GOOD, "response_b": "a"}]))
    assert len(dataset.pairs) == 1
    assert "1 row with two identical responses: a verdict between them is chance" in dataset.notes


def test_the_same_row_twice_gives_two_pairs_with_ids_of_their_own(write: Callable[..., Path]) -> None:
    """A row that is repeated with its id and contents is kept, with a suffix, and noted."""
    dataset = PAIRS.load(write("a.jsonl", [GOOD, {**GOOD, "id": "2"}, GOOD, GOOD]))
    assert [pair.id for pair in dataset.pairs] == ["1", "2", "1#2", "1#3"]
    assert any("repeated rows" in note and "2 rows" in note for note in dataset.notes)


def test_one_id_with_two_contents_is_numbered_and_told(write: Callable[..., Path]) -> None:
    """An id that stands for different pairs gets a number, also where the data has an id of that form, and is told."""
    other = {**GOOD, "response_a": "other"}
    dataset = PAIRS.load(write("a.jsonl", [GOOD, {**GOOD, "id": "2"}, other, {**GOOD, "id": "1#2"}]))
    assert [(pair.id, pair.response_a) for pair in dataset.pairs] == [
        ("1", "a"),
        ("2", "a"),
        ("1#2", "other"),
        ("1#2#2", "a"),
    ]
    assert any("id of an earlier one but other contents" in note for note in dataset.notes)
    assert dataset.repeated == 2


def test_the_same_texts_with_another_label_are_kept_where_the_data_has_no_ids(write: Callable[..., Path]) -> None:
    """Without ids, two rows that contradict each other are both kept, with ids of their own, and noted."""
    row = {key: value for key, value in GOOD.items() if key != "id"}
    dataset = PAIRS.load(write("a.jsonl", [row, {**row, "label": "1"}]))
    first, second = dataset.pairs
    assert second.id == f"{first.id}#2"
    assert (first.chosen, second.chosen) == ("a", "b")
    assert dataset.notes == (
        "repeated rows with another label or category, kept with #2, #3 … after their ids: 1 row",
        "1 row with the label turned round from an earlier row with the same texts",
    )
    assert (dataset.repeated, dataset.contradicting) == (1, 1)


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("cd")), min_size=1, max_size=12))
def test_ids_are_unique_and_stable_whatever_repeats(
    write: Callable[..., Path], responses: list[tuple[str, str]]
) -> None:
    """Without ids of their own rows get hashes of their contents: unique, the same in every load, none lost."""
    path = write("any.jsonl", [{"prompt": "p", "response_a": a, "response_b": b, "label": 0} for a, b in responses])
    first, second = PAIRS.load(path), PAIRS.load(path)
    ids = [pair.id for pair in first.pairs]
    assert len(set(ids)) == len(ids) == len(responses)
    assert ids == [pair.id for pair in second.pairs]
    assert len({i.split("#")[0] for i in ids}) == len(set(responses))


@pytest.mark.parametrize("value", ["../../etc/passwd", "/etc/passwd", "a\x00b", "..", "C:\\x", "\x1b[2J"])
def test_ids_are_data_and_touch_no_file(write: Callable[..., Path], tmp_path: Path, value: str) -> None:
    """An id that looks like a path is taken as text, and loading writes nothing."""
    path = write("a.jsonl", [{**GOOD, "id": value}])
    before = sorted(tmp_path.rglob("*"))
    assert PAIRS.load(path).pairs[0].id == value.replace("\x00", "\ufffd")
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("data", "why"),
    [(b"", "it has no rows"), (b"\n\n", "it has no rows"), (b'{"x": 1}\n', "1 row read; invalid: no known form")],
)
def test_nothing_usable_is_an_error_that_says_why(write: Callable[..., Path], data: bytes, why: str) -> None:
    """A file without usable pairs ends in "0 usable pairs", with the reason, instead of a score over nothing."""
    with pytest.raises(DataError, match=rf"0 usable pairs in .*a\.jsonl \({why}"):
        PAIRS.load(write("a.jsonl", data), lenient=True)


def test_only_ties_is_nothing_usable(write: Callable[..., Path]) -> None:
    """A file of ties alone has no usable pair, and the ties are counted in the message."""
    with pytest.raises(DataError, match=r"0 usable pairs .*tie \(the data prefers neither\): 2"):
        PAIRS.load(write("a.jsonl", [{**GOOD, "label": "tie"}] * 2))


def test_one_row_is_enough(write: Callable[..., Path]) -> None:
    """A file of one row is a data set of one pair."""
    assert len(PAIRS.load(write("a.json", [GOOD])).pairs) == 1


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
def test_the_digest_depends_on_the_pairs_and_not_on_the_file_format(
    write: Callable[..., Path], rows: list[dict[str, str]]
) -> None:
    """The same pairs have the same digest in every file format, and other pairs another one."""
    names = ("a.json", "a.jsonl.gz", "a.csv", "a.parquet")
    digests = {PAIRS.load(write(name, rows)).digest for name in names}
    assert len(digests) == 1
    changed = [{**rows[0], "response_a": rows[0]["response_a"] + "!"}, *rows[1:]]
    assert PAIRS.load(write("b.jsonl", changed)).digest not in digests


def test_times_that_python_has_no_value_for_are_no_matter(tmp_path: Path) -> None:
    """Nanoseconds, years beyond 9999 and durations in columns that nobody asks for leave the pairs readable."""
    instant, far = pa.array([1_700_000_000_123_456_789], pa.timestamp("ns")), pa.array([2**40], pa.timestamp("s"))
    odd = {"at": instant, "far": far, "took": pa.array([123_456_789], pa.duration("ns"))}
    for name, column in odd.items():
        table = pa.table({key: [value] for key, value in GOOD.items()} | {name: column})
        pq.write_table(table, tmp_path / f"{name}.parquet")
        assert len(PAIRS.load(tmp_path / f"{name}.parquet").pairs) == 1


def test_replaced_characters_are_noted(write: Callable[..., Path]) -> None:
    """Characters that had to be replaced are counted in a note."""
    dataset = PAIRS.load(write("a.json", [{**GOOD, "response_a": "x\x00\ud800"}]))
    assert dataset.pairs[0].chosen == "x\ufffd\ufffd"
    assert any(note.startswith("2 characters replaced by U+FFFD") for note in dataset.notes)


def test_official_counts_make_a_data_set_official(write: Callable[..., Path]) -> None:
    """Rows and groups that match the official counts make a data set official, without a note."""
    rows = [{**GOOD, "id": str(n), "domain": d} for n, d in enumerate("xxy")]
    dataset = counted(OfficialCounts(rows=(3,), groups={"x": 2, "y": 1})).load(write("a.jsonl", rows), official=True)
    assert dataset.official
    assert dataset.notes == ()


def test_other_counts_are_noted_for_a_users_file_and_refused_for_an_official_one(write: Callable[..., Path]) -> None:
    """A file of the user's may have other counts, which is noted; the official file may not."""
    rows = [{**GOOD, "id": str(n), "domain": d} for n, d in enumerate("xyy")]
    path = write("a.jsonl", rows)
    few = counted(OfficialCounts(rows=(2985,)))
    dataset = few.load(path)
    assert not dataset.official
    assert dataset.notes == ("3 rows, not the official 2985: scores are not benchmark scores",)
    with pytest.raises(DataError, match="3 rows, not the official 2985"):
        few.load(path, official=True)
    groups = counted(OfficialCounts(rows=(3,), groups={"x": 2, "y": 1}))
    assert groups.load(path).notes[0].startswith("rows by group differ from the official ones: x 1, not 2; y 2, not 1")


def test_labels_that_fall_otherwise_than_officially_are_noted(write: Callable[..., Path]) -> None:
    """With official row counts, a different number of labels for the first response is pointed out."""
    rows = [{**GOOD, "id": str(n), "label": "B"} for n in range(2)]
    dataset = counted(OfficialCounts(rows=(2,), first_chosen=2)).load(write("a.jsonl", rows))
    assert dataset.notes == ("0 labels prefer the first response, in the official data 2: the labels may be flipped",)


def test_skipped_rows_are_not_official(write: Callable[..., Path]) -> None:
    """A data set from which invalid rows were left out is not official, whatever its counts."""
    adapter = counted(OfficialCounts(rows=(2,)))
    assert not adapter.load(write("a.jsonl", [GOOD, {**GOOD, "id": "2", "prompt": 9}]), lenient=True).official


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (3, 3),
        (2.0, 2),
        ("7", 7),
        (" -3 ", -3),
        (True, None),
        (2.5, None),
        ("x", None),
        ("+-3", None),
        (float("inf"), None),
    ],
)
def test_whole_numbers_are_read_from_numbers_and_digits_only(value: float | str | bool, expected: int | None) -> None:
    """Integral floats and digits in a text are whole numbers; flags, fractions and words are not."""
    assert as_integer(value) == expected


def test_values_are_described_in_few_words() -> None:
    """Messages say what was found without pouring a whole text into one line."""
    values: tuple[object, ...] = (None, 1, False, [1, 2], {}, "x" * 99)
    described = [describe(value) for value in values]
    assert described == ["null", "number 1", "flag false", "list of 2", "object", f"text {'x' * 40!r}…"]
