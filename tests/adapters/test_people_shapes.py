"""Small files of the shapes that people have: each is read rightly, or refused with the line that mends it."""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from svr_async.adapters import get_adapter
from svr_async.errors import DataError, UsageError

Rows = list[dict[str, Any]]
ADAPTER = get_adapter("pairs")


@dataclass(frozen=True, kw_only=True)
class Case:
    """A file whose better responses all begin with "good", and the others with "bad".

    `pairs` of it are read. With `refused`, part of the line that refuses it, `mend` are the flags that the line names
    and with which it is read.
    """

    name: str
    file: str
    data: Rows | bytes
    pairs: int = 2
    refused: str = ""
    mend: dict[str, str] = field(default_factory=dict)
    flags: dict[str, Any] = field(default_factory=dict)
    left_out: dict[str, int] = field(default_factory=dict)


def two(first: object, second: object, a: str = "response_a", b: str = "response_b", label: str = "label") -> Rows:
    """Return a row whose first response is the better one, with its label, and one whose second is."""
    rows: Rows = [
        {"prompt": "one?", a: "good 1", b: "bad 1", label: first},
        {"prompt": "two?", a: "bad 2", b: "good 2", label: second},
    ]
    return rows


def both(rows: Rows, *more: dict[str, Any]) -> Rows:
    """Return rows with further columns, one set a row, or the same for all."""
    return [{**row, **(more[n] if len(more) > 1 else more[0])} for n, row in enumerate(rows)]


def chat(*texts: str) -> list[dict[str, str]]:
    """Return turns, the user's first."""
    return [{"role": ("user", "assistant")[n % 2], "content": text} for n, text in enumerate(texts)]


def parts(text: str) -> list[dict[str, Any]]:
    """Return an answer in OpenAI's content parts."""
    return [{"role": "assistant", "content": [{"type": "text", "text": text}]}]


def table(rows: Rows, mark: str) -> str:
    """Return rows as a table whose cells hold neither quotes nor the mark."""
    return "\r\n".join(mark.join(map(str, line)) for line in [list(rows[0]), *(row.values() for row in rows)])


def chosen(*better: dict[str, Any]) -> Rows:
    """Return pairs of good and bad, with further columns."""
    return [{"prompt": f"{n}?", "chosen": f"good {n}", "rejected": f"bad {n}", **more} for n, more in enumerate(better)]


SHP = [{**row, "history": row.pop("prompt")} for row in two(1, 0, "human_ref_A", "human_ref_B", "labels")]
ARENA = [
    {"model_a": "x", "model_b": "y", "winner": who, "conversation_a": chat("hi?", a), "conversation_b": chat("hi?", b)}
    for who, a, b in (
        ("model_a", "good", "bad"), ("model_b", "bad", "good"), ("tie", "so", "so so"), ("tie (bothbad)", "no", "nay"),
    )
]  # fmt: skip
UNEQUAL = [{"model_a": "x", "model_b": "y"}, {"model_a": "y", "model_b": "x"}]
HOT = [
    {"winner_model_a": 1, "winner_model_b": 0, "winner_tie": 0},
    {"winner_model_a": 0, "winner_model_b": 1, "winner_tie": 0},
]

READ = [
    Case(name="zero-based", file="a.jsonl", data=two(0, 1)),
    Case(name="one-based", file="a.jsonl", data=two(1, 2)),
    Case(name="one-based texts", file="a.csv", data=two("1", "2", "output_1", "output_2")),
    Case(name="floats", file="a.jsonl", data=two(0.0, 1.0)),
    Case(name="floats of pandas", file="a.csv", data=two("1.0", "2.0")),
    Case(name="letters", file="a.jsonl", data=two("A", "B")),
    Case(name="small letters", file="a.jsonl", data=two("a", "b", "answer_a", "answer_b", "preferred")),
    Case(
        name="names of columns",
        file="a.csv",
        data=two("response_1", "response_2", "response_1", "response_2", "winner"),
    ),
    Case(
        name="columns counted from 0", file="a.jsonl", data=two(0, 1, "response_0", "response_1", "better_response_id")
    ),
    Case(name="judges' brackets", file="a.jsonl", data=two("[[A]]", "[[B]]", label="verdict")),
    Case(name="greater than", file="a.jsonl", data=two("A>B", "B>>A", "response_A", "response_B")),
    Case(
        name="spaces in names", file="a.csv", data=two("Response A", "Response B", "Response A", "Response B", "Winner")
    ),
    Case(name="model names", file="a.jsonl", data=both(two("x", "x", label="winner"), *UNEQUAL)),
    Case(name="the response's text", file="a.jsonl", data=two("good 1", "good 2", "answer1", "answer2", "best")),
    Case(name="flag for a", file="a.jsonl", data=two(True, False, label="a_is_better")),
    Case(
        name="flag for the second", file="a.csv", data=two("False", "True", "output_1", "output_2", "second_is_better")
    ),
    Case(
        name="one-hot",
        file="a.csv",
        data=both([{k: v for k, v in row.items() if k != "label"} for row in two(0, 1)], *HOT),
    ),
    Case(
        name="ranks, less is better",
        file="a.jsonl",
        data=both(two(1, 2, "response_1", "response_2", "rank_1"), {"rank_2": 2}, {"rank_2": 1}),
    ),
    Case(
        name="scores, more is better",
        file="a.jsonl",
        data=both(two(9, 2, label="score_a"), {"score_b": 4.5}, {"score_b": 3}),
    ),
    Case(name="Arena", file="a.parquet", data=ARENA, left_out={"ties": 2}),
    Case(name="SHP, where 1 is the first", file="a.jsonl", data=SHP),
    Case(name="AlpacaEval", file="a.json", data=two(1.0002, 1.93, "output_1", "output_2", "preference")),
    Case(
        name="HelpSteer2, where below 0 is the first",
        file="a.jsonl",
        data=two(-2, 1, "response_1", "response_2", "preference_strength"),
    ),
    Case(
        name="UltraFeedback, binarized",
        file="a.parquet",
        data=[
            {
                "prompt": "hi?",
                "chosen": chat("hi?", f"good {n}"),
                "rejected": chat("hi?", "bad"),
                "score_chosen": 8.0,
                "score_rejected": 5.5,
                "messages": chat("hi?", "good"),
            }
            for n in range(2)
        ],
    ),
    Case(
        name="UltraFeedback, scored completions",
        file="a.jsonl",
        left_out={"ties": 1},
        data=[
            {
                "instruction": f"{rated}?",
                "completions": [
                    {"model": str(m), "response": text, "fine-grained_score": score}
                    for m, (text, score) in enumerate(rated)
                ],
            }
            for rated in (
                [("fair", 3.5), ("good", 4.25), ("bad", 1.0)],
                [("bad", 1), ("good", 2)],
                [("x", 1), ("y", 1)],
            )
        ],
    ),
    Case(
        name="ranked texts",
        file="a.jsonl",
        data=[{"prompt": "hi?", "responses": ["fair", "bad", f"good {n}"], "ranks": [2, 3, 1]} for n in range(2)],
    ),
    Case(
        name="two in a list",
        file="a.jsonl",
        data=[
            {"question": f"{n}?", "responses": pair, "label": n}
            for n, pair in enumerate((["good", "bad"], ["bad", "good"]))
        ],
    ),
    Case(
        name="HH-RLHF",
        file="a.jsonl.gz",
        data=[
            {
                side: f"\n\nHuman: hi {n}?\n\nAssistant: {word}"
                for side, word in (("chosen", "good"), ("rejected", "bad"))
            }
            for n in range(2)
        ],
    ),
    Case(
        name="OpenAI's preference file",
        file="a.jsonl",
        data=[
            {
                "input": {"messages": chat(f"{n}?")},
                "preferred_output": parts("good"),
                "non_preferred_output": parts("bad"),
            }
            for n in range(2)
        ],
    ),
    Case(
        name="messages as Python prints them",
        file="a.csv",
        data=[
            {"prompt": "hi?", "chosen": str(chat("hi?", f"good {n}")), "rejected": str(chat("hi?", "bad"))}
            for n in range(2)
        ],
    ),
    Case(
        name="chosen and rejected by letter",
        file="a.jsonl",
        data=both(two("A", "B", label="chosen"), {"rejected": "B"}, {"rejected": "A"}),
    ),
    Case(
        name="chosen beside both responses",
        file="a.jsonl",
        data=both(two("good 1", "good 2", label="chosen"), {"rejected": "bad"}),
    ),
    Case(name="tabs", file="a.tsv", data=table(two(1, 2), "\t").encode()),
    Case(
        name="semicolons, with Excel's mark",
        file="a.csv",
        data=("\ufeff" + table(two("B", "A", "answer_b", "answer_a"), ";")).encode(),
    ),
    Case(name="Excel's Unicode text", file="a.csv", data=table(two("A", "B"), "\t").encode("utf-16")),
    Case(
        name="newlines in quotes",
        file="a.csv",
        data=b'prompt,chosen,rejected\n"one,\ntwo","good\n""quoted"", and on",bad\nhi,good,"bad\n"\n',
    ),
    Case(
        name="mixed encodings",
        file="a.csv",
        data="prompt,chosen,rejected\nnaïve?,good ü,bad\n".encode() + "é?,good,bad ö".encode("latin-1"),
    ),
    Case(
        name="wrapped",
        file="a.json",
        data=json.dumps({"version": 1, "data": two("b", "a", "answer_b", "answer_a")}).encode(),
    ),
    Case(name="one id for two pairs", file="a.jsonl", data=both(two(0, 1), {"id": 7}), left_out={"repeated": 1}),
    Case(
        name="columns that are named",
        file="a.csv",
        data=two("left", "right", "l", "r", "who"),
        flags={"columns": "response_a=l,response_b=r,label=who"},
    ),
    Case(
        name="columns that are turned",
        file="a.csv",
        data=[{"q": "hi?", "chosen": "bad", "rejected": f"good {n}"} for n in range(2)],
        flags={"columns": "chosen=rejected,rejected=chosen,prompt=q"},
    ),
    Case(name="an empty response", file="a.jsonl", data=chosen({"rejected": ""}, {})),
    Case(
        name="system and history", file="a.jsonl", data=chosen({"system": "Be kind."}, {"history": [["hi", "hello"]]})
    ),
]
REFUSED = [
    Case(
        name="only 1",
        file="a.jsonl",
        data=[two(1, 2)[0]] * 3,
        pairs=3,
        left_out={"repeated": 2},
        refused="column 'label' (1 ×3) can be read in two ways: 0 is response_a, 1 is response_b, then a.jsonl row 1 "
        "prefers 'bad 1'; or 1 is response_a, 2 is response_b, then it prefers 'good 1'",
        mend={"label_map": "1=a,2=b"},
    ),
    Case(
        name="0, 1 and 2, with 0 a tie",
        file="a.jsonl",
        data=[*two(1, 2), *two(0, 0)[:1]],
        left_out={"ties": 1},
        refused="can be read in two ways: 0 is response_a, 1 is response_b, 2 is a tie",
        mend={"label_map": "0=tie,1=a,2=b"},
    ),
    Case(
        name="signed",
        file="a.jsonl",
        data=two(3, -1, label="preference"),
        refused="below 0 is response_a, above is response_b, then a.jsonl row 1 prefers 'bad 1'",
        mend={"label_map": ">0=a,<0=b"},
    ),
    Case(
        name="probabilities",
        file="a.csv",
        data=two("0.91", "0.2", label="preference"),
        refused="(0.91 ×1, 0.2 ×1) can be read in two ways",
        mend={"label_map": ">0.5=a,<0.5=b"},
    ),
    Case(
        name="true and false",
        file="a.jsonl",
        data=two(False, True),
        refused="true is response_a, false is response_b",
        mend={"label_map": "false=a,true=b"},
    ),
    Case(
        name="a scale of five",
        file="a.jsonl",
        data=[*two(1, 5), *two(2, 4), *two(3, 3)],
        pairs=4,
        left_out={"ties": 2, "repeated": 2},
        refused="which nothing here explains",
        mend={"label_map": "<3=a,>3=b"},
    ),
    Case(
        name="names of models that no column has",
        file="a.jsonl",
        data=two("gpt", "claude", label="winner"),
        refused="holds gpt ×1, claude ×1, which nothing here explains",
        mend={"label_map": "gpt=a,claude=b"},
    ),
    Case(
        name="letters that are names as well",
        file="a.jsonl",
        data=both(two("B", "B", label="winner"), {"model_a": "B", "model_b": "A"}, {"model_a": "A", "model_b": "B"}),
        refused="or it names who wrote the better response, then it prefers 'good 1'",
        mend={"label_map": "names"},
    ),
    Case(
        name="two labels",
        file="a.jsonl",
        data=both(two(1, 2), {"winner": "b"}),
        refused="several columns may be the label: label, winner",
        mend={"columns": "label=label"},
    ),
    Case(
        name="three responses",
        file="a.jsonl",
        data=both(two(1, 2, "response_1", "response_2"), {"response_3": "fair"}),
        refused="more than two responses: response_1, response_2, response_3",
        mend={"columns": "response_a=response_1,response_b=response_2"},
    ),
    Case(
        name="swapped columns",
        file="a.jsonl",
        refused="chosen has the worse of score_chosen and score_rejected in 2 of 2 rows",
        data=[
            {"prompt": "hi?", "chosen": "bad", "rejected": f"good {n}", "score_chosen": 2, "score_rejected": 9}
            for n in range(2)
        ],
        mend={"columns": "chosen=rejected,rejected=chosen"},
    ),
    Case(
        name="losses, not scores",
        file="a.jsonl",
        refused="or lower scores are better",
        mend={"label_map": "lower"},
        data=chosen(*[{"chosen_score": 0.1, "rejected_score": 2.5}] * 2),
    ),
    Case(
        name="a label against its scores",
        file="a.jsonl",
        data=both(two(1, 0), {"score_a": 9, "score_b": 2}, {"score_a": 1, "score_b": 5}),
        refused="contradicts score_a and score_b in 2 of 2 rows",
        mend={"label_map": "1=a,0=b"},
    ),
    Case(
        name="no prompt named so",
        file="a.csv",
        data=[{"asked": "hi?", "good one": f"good {n}", "bad one": "bad"} for n in range(2)],
        refused="columns found: asked, good_one, bad_one",
        mend={"columns": "prompt=asked,chosen=good_one,rejected=bad_one"},
    ),
    Case(
        name="a winner that both have",
        file="a.jsonl",
        data=both(
            [*two("x", "x", label="winner"), *two("z", "z", label="winner")[:1]],
            {"model_a": "x", "model_b": "y"},
            {"model_a": "y", "model_b": "x"},
            {"model_a": "z", "model_b": "z"},
        ),
        refused="a.jsonl row 3: column 'winner': expected a label (it names who wrote the better response)",
        mend={"lenient": "yes"},
        left_out={"skipped": 1},
    ),
    Case(
        name="rows without a winner",
        file="a.csv",
        data=[*two("A", "B"), *two("", "")[:1]],
        left_out={"skipped": 1},
        refused="a.csv row 3: column 'label': expected a value, found text ''",
        mend={"lenient": "yes"},
    ),
    Case(
        name="NaN for a winner",
        file="a.jsonl",
        data=[*two(0.0, 1.0), *two(float("nan"), 1)[:1]],
        left_out={"skipped": 1},
        refused="a.jsonl row 3: column 'label': expected a value, found number nan",
        mend={"lenient": "yes"},
    ),
    Case(
        name="NaN for a response",
        file="a.jsonl",
        data=[*chosen({}, {}), *chosen({"rejected": float("nan")})],
        left_out={"skipped": 1},
        refused="row 3: column 'rejected': expected text",
        mend={"lenient": "yes"},
    ),
]


def load(case: Case, write: Callable[..., Path], **flags: Any) -> None:
    """Load a file and compare what was read of it: how many pairs, which response is better, what was left out."""
    dataset = ADAPTER.load(write(case.file, case.data), **flags)
    assert len(dataset.pairs) == case.pairs
    assert [pair.chosen.startswith("good") for pair in dataset.pairs] == [True] * case.pairs
    assert not any(pair.rejected.startswith("good") for pair in dataset.pairs)
    assert dataset.left_out() == case.left_out


def named(cases: Iterable[Case]) -> list[Any]:
    """Return cases as parameters with their names."""
    return [pytest.param(case, id=case.name) for case in cases]


@pytest.mark.parametrize("case", named(READ))
def test_a_shape_that_can_only_mean_one_thing_is_read_so(case: Case, write: Callable[..., Path]) -> None:
    """What people have is read with its better responses as the chosen ones, without being told anything more."""
    load(case, write, **case.flags)


@pytest.mark.parametrize("case", named(REFUSED))
def test_a_shape_that_may_mean_two_things_is_refused_with_what_mends_it(case: Case, write: Callable[..., Path]) -> None:
    """What can be read in two ways is refused in a line with the flag that decides, and with it read rightly."""
    with pytest.raises(DataError) as caught:
        ADAPTER.load(write(case.file, case.data))
    line = caught.value.one_line()
    assert case.refused in line
    for flag, value in case.mend.items():
        assert f"--{flag.replace(chr(95), chr(45))}" in line
        assert flag == "lenient" or value in line or "good_one" in value
    load(case, write, **case.mend)


def test_there_are_forty_shapes_or_more() -> None:
    """The shapes are as many as were promised, each with a name of its own."""
    assert len({case.name for case in [*READ, *REFUSED]}) == len(READ) + len(REFUSED) >= 40


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([*two("A", "B"), *two("left!", "B")[:1], *two("left!", "B")[:1]], "with column 'label': text 'left!'"),
        ([*two(0, 1), {**two(0, 1)[0], "response_b": 3}, {**two(0, 1)[1], "response_b": 3}], "leave out all 2 rows"),
        (
            [{**row, "response_a": None} if row["label"] == 2 else row for row in two(1, 2) * 3],
            "with column 'label': 2",
        ),
    ],
    ids=["a label", "a number", "all of one label"],
)
def test_lenient_never_hides_a_systematic_mismatch(write: Callable[..., Path], rows: Rows, says: str) -> None:
    """Where every row with one value would be left out, --lenient refuses: that is no mishap of single rows."""
    with pytest.raises(DataError, match="--lenient would leave out all") as caught:
        ADAPTER.load(write("a.jsonl", rows), lenient=True)
    assert says in caught.value.one_line()


def test_rows_that_contradict_one_another_are_kept_and_counted(write: Callable[..., Path]) -> None:
    """The same responses with opposite labels are both kept, and counted as that."""
    rows = [{**row, "id": n} for n, row in enumerate([*two(0, 1), *two(1, 1)[:1]])]
    dataset = ADAPTER.load(write("a.jsonl", rows))
    assert len(dataset.pairs) == 3
    assert dataset.left_out() == {"contradicting": 1}
    assert "1 row with the label turned round from an earlier row with the same texts" in dataset.notes


def test_identical_responses_and_what_a_label_was_read_as_are_told(write: Callable[..., Path]) -> None:
    """A pair of one text twice is noted, and a data set says how its labels were read."""
    dataset = ADAPTER.load(write("a.jsonl", [*two(1, 2), {**two(1, 2)[0], "response_b": "good 1"}]))
    assert dataset.readings == ("label: 1 is response_a, 2 is response_b (1 ×2, 2 ×1)",)
    assert any("two identical responses" in note for note in dataset.notes)


def test_what_comes_before_the_responses_reaches_the_prompt(write: Callable[..., Path]) -> None:
    """A system column, earlier turns and content parts are all turns of the prompt."""
    row = {"messages": chat("one?", "1.", "two?"), "chosen": "good", "rejected": "bad", "system": "Be kind."}
    (pair,) = ADAPTER.load(write("a.jsonl", [row])).pairs
    assert [(turn.role, turn.content) for turn in pair.prompt] == [
        ("system", "Be kind."),
        ("user", "one?"),
        ("assistant", "1."),
        ("user", "two?"),
    ]
    (old,) = ADAPTER.load(write("b.jsonl", chosen({"history": [["hi", "hello"]]}))).pairs
    assert [turn.content for turn in old.prompt] == ["hi", "hello", "0?"]
    (part,) = ADAPTER.load(
        write("c.jsonl", [{"chosen": [*chat("hi?"), *parts("good")], "rejected": chat("hi?", "bad")}])
    ).pairs
    assert part.chosen == "good"


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        ({"columns": "promt=q"}, "--columns: 'promt=q' names no column"),
        ({"columns": "prompt=nowhere"}, "--columns names 'nowhere'; columns found: prompt, response_a"),
        ({"label_map": "1"}, "--label-map: '1' says nothing"),
        ({"label_map": "1=first"}, "--label-map: '1=first' says nothing"),
        ({"label_map": "7=a,8=b"}, "row 1: column 'label': expected a label (as --label-map says)"),
    ],
)
def test_wrong_flags_are_named(write: Callable[..., Path], flags: dict[str, Any], says: str) -> None:
    """A name, a column or a value that is not there is one line."""
    with pytest.raises(UsageError) as caught:
        ADAPTER.load(write("a.jsonl", two(1, 2)), **flags)
    assert says in caught.value.one_line()


def test_labels_are_for_pairs_only(write: Callable[..., Path]) -> None:
    """A benchmark has labels of its own: --label-map with one is refused, --columns is not."""
    rubricbench = get_adapter("rubricbench")
    row = {"q": "hi?", "response_a": "good", "response_b": "bad", "label": 0, "domain": "code", "rubrics": "Is it?"}
    path = write("a.jsonl", [row])
    with pytest.raises(UsageError, match="--label-map is for pairs; rubricbench has labels of its own"):
        rubricbench.load(path, label_map="1=a")
    assert rubricbench.load(path, columns="instruction=q").pairs[0].chosen == "good"
