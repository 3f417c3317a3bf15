"""Any preference pairs: each form of row that the table of shapes knows, and the labels that occur."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from svr_async.adapters.conversations import join_prompt, transcript_turns

from svr_async.adapters import PairResult, get_adapter
from svr_async.adapters.pairs import NO_MAJORITY, TIE
from svr_async.core.pair import Message, PreferencePair, Side, user_prompt
from svr_async.errors import DataError

ADAPTER = get_adapter("pairs")
USER, REPLY, OTHER = Message("user", "hi"), Message("assistant", "hello"), Message("assistant", "go away")


def one(write: Callable[..., Path], row: dict[str, Any]) -> PreferencePair:
    """Load one row and return its pair."""
    (pair,) = ADAPTER.load(write("a.json", [row])).pairs
    return pair


def chat(*turns: Message) -> list[dict[str, str]]:
    """Return turns as stored messages."""
    return [{"role": turn.role, "content": turn.content} for turn in turns]


def labelled(label: str | float, **change: Any) -> dict[str, Any]:
    """Return a row with two responses and a label."""
    return {"prompt": "hi", "response_a": "a", "response_b": "b", "label": label, **change}


@pytest.mark.parametrize("label", [0, "0", "A", "a", "response_a", "model_a", "[[A]]", 0.0])
def test_labels_for_the_first_response(write: Callable[..., Path], label: str | float) -> None:
    """0, A and response_a in any case say that A is better."""
    assert one(write, labelled(label)).gold is Side.A


@pytest.mark.parametrize("label", ["B", "b", "Response_B", "model_b", "[[B]]", "B>A", "second"])
def test_labels_for_the_second_response(write: Callable[..., Path], label: str) -> None:
    """B and response_b in any case say that B is better."""
    pair = one(write, labelled(label))
    assert (pair.gold, pair.chosen, pair.response_a) == (Side.B, "b", "a")


@pytest.mark.parametrize("label", ["tie", "Tie (bothbad)", "both", "equal", "C"])
def test_ties_are_left_out_and_counted(write: Callable[..., Path], label: str) -> None:
    """The ties that data sets write are left out and counted."""
    dataset = ADAPTER.load(write("a.json", [labelled(label), labelled(0)]))
    assert len(dataset.pairs) == 1
    assert dataset.skipped == {TIE: 1}


@pytest.mark.parametrize("column", ["winner", "chosen_candidate", "preference"])
def test_the_label_may_have_other_names(write: Callable[..., Path], column: str) -> None:
    """`winner`, `chosen_candidate` and `preference` are read as labels."""
    row = labelled("b")
    row[column] = row.pop("label")
    assert one(write, row).gold is Side.B


@pytest.mark.parametrize(
    "column", ["prompt", "messages", "conversations", "conversation", "context", "instruction", "question", "query"]
)
@pytest.mark.parametrize(
    "value", ["hi", chat(USER), [{"from": "human", "value": "hi"}]], ids=["text", "chat", "sharegpt"]
)
def test_the_prompt_may_be_in_several_columns_and_forms(
    write: Callable[..., Path], column: str, value: str | list[dict[str, str]]
) -> None:
    """A text, a list of messages or a ShareGPT list, under any of the usual names, is the prompt."""
    assert one(write, {column: value, "chosen": "a", "rejected": "b"}).prompt == (USER,)


def test_an_input_goes_below_the_instruction(write: Callable[..., Path]) -> None:
    """Alpaca-style rows have an instruction and an input; an empty input adds nothing, an empty instruction neither."""
    row = {"instruction": "Sum up.", "input": "A story.", "chosen": "a", "rejected": "b"}
    assert one(write, row).prompt == user_prompt("Sum up.\n\nA story.")
    assert one(write, {**row, "input": ""}).prompt == user_prompt("Sum up.")
    assert one(write, {**row, "instruction": " "}).prompt == user_prompt("A story.")


def test_optional_columns_are_taken_over(write: Callable[..., Path]) -> None:
    """Id, domain, subset, rubrics, strength and source are used where they are there."""
    pair = one(write, labelled(0, id=5, domain="d", subset="s", rubrics=["Is it?"], strength="3", source="web"))
    assert pair.source == "web"
    assert [one(write, labelled(0, source=value)).source for value in (None, ["a"], 3, "")] == [""] * 4
    assert (pair.id, pair.domain, pair.subset, pair.rubrics, pair.strength) == ("5", "d", "s", ("Is it?",), 3)
    plain = one(write, labelled(0, id=None, domain=None, rubrics=None, strength=None))
    assert (plain.domain, plain.subset, plain.rubrics, plain.strength) == ("all", "", (), None)
    assert len(plain.id) == 17


@pytest.mark.parametrize(
    "row",
    [
        {"prompt": "hi", "chosen": "hello", "rejected": "go away"},
        {"prompt": chat(USER), "chosen": chat(REPLY), "rejected": chat(OTHER)},
        {"prompt": "hi", "chosen": chat(USER, REPLY), "rejected": chat(USER, OTHER)},
        {"chosen": chat(USER, REPLY), "rejected": chat(USER, OTHER)},
        {
            "conversations": [{"from": "human", "value": "hi"}],
            "chosen": {"from": "gpt", "value": "hello"},
            "rejected": {"from": "gpt", "value": "go away"},
        },
        {"chosen": "\n\nHuman: hi\n\nAssistant: hello", "rejected": "\n\nHuman: hi\n\nAssistant: go away"},
        {"messages": chat(USER), "response_a": chat(REPLY), "response_b": "go away", "label": 0},
    ],
    ids=["texts", "trl", "ultrafeedback", "implicit", "sharegpt", "transcript", "labelled"],
)
def test_chosen_and_rejected_in_every_form_give_the_same_pair(write: Callable[..., Path], row: dict[str, Any]) -> None:
    """Texts, messages, lists of messages and transcripts all come to one prompt and two responses."""
    pair = one(write, row)
    assert (pair.prompt, pair.chosen, pair.rejected) == ((USER,), "hello", "go away")


def test_conversations_of_several_turns_keep_what_came_before(write: Callable[..., Path]) -> None:
    """Only the last assistant turn is the response; everything before it is the prompt."""
    before = (Message("system", "Be kind."), USER, REPLY, Message("user", "and now?"))
    row = {"chosen": chat(*before, REPLY), "rejected": chat(*before, OTHER)}
    assert one(write, row).prompt == before
    assert one(write, {**row, "prompt": "and now?"}).prompt == before
    transcript = "\n\nHuman: hi\n\nAssistant: hello\n\nHuman: and now?\n\nAssistant:"
    pair = one(write, {"chosen": f"{transcript} yes", "rejected": f"{transcript}"})
    assert pair.prompt == (USER, REPLY, Message("user", "and now?"))
    assert (pair.chosen, pair.rejected) == ("yes", "")


def test_responses_that_go_on_from_the_prompt_column_are_joined_to_it() -> None:
    """Turns stored with a response are put behind the prompt, unless they repeat it."""
    follow = (REPLY, Message("user", "and now?"))
    assert join_prompt((USER,), follow) == (USER, *follow)
    assert join_prompt((USER,), (Message("system", "s"), Message("user", "hi "))) == (
        Message("system", "s"),
        Message("user", "hi "),
    )
    assert join_prompt((), (USER,)) == join_prompt((USER,), ()) == (USER,)


def test_different_conversations_are_left_out_and_counted(write: Callable[..., Path]) -> None:
    """Where chosen and rejected answer different conversations there is no pair, and it is counted."""
    rows = [
        {"chosen": "\n\nHuman: hi\n\nAssistant: x", "rejected": "\n\nHuman: ho\n\nAssistant: y"},
        {"chosen": "\n\nHuman: hi\n\nAssistant: x", "rejected": "\n\nHuman: hi\n\nAssistant: y"},
    ]
    dataset = ADAPTER.load(write("a.jsonl", rows))
    assert len(dataset.pairs) == 1
    assert dataset.skipped == {"chosen and rejected answer different conversations": 1}


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"chosen": "x", "rejected": "y"}, "column 'chosen': expected a prompt column beside it, or a transcript"),
        (
            {"chosen": chat(REPLY, USER), "rejected": chat(OTHER)},
            "column 'chosen': expected the last message is by user",
        ),
        ({"chosen": chat(REPLY), "rejected": chat(OTHER)}, "column 'chosen': the prompt is empty"),
        (
            {"prompt": "hi", "chosen": ["x", "y"], "rejected": ["z"]},
            "column 'chosen': expected text, a message or a list",
        ),
        ({"prompt": "hi", "chosen": [], "rejected": []}, "column 'chosen': expected text, a message or a list"),
        ({"prompt": "hi", "chosen": {"text": "x"}, "rejected": "y"}, "column 'chosen': expected unknown role"),
        ({"text": "x"}, "no known form of preference pair; columns found: text"),
    ],
)
def test_rows_of_no_known_form_say_what_is_missing(
    write: Callable[..., Path], row: dict[str, Any], message: str
) -> None:
    """A row that cannot be read as a pair is named with what was found."""
    with pytest.raises(DataError, match=f"a.json row 1: {message}"):
        ADAPTER.load(write("a.json", [row]))


def test_llmbar_rows(write: Callable[..., Path]) -> None:
    """LLMBar's labels are 1 and 2 over output_1 and output_2; files of judges' results are left out."""
    row = {"input": "hi", "output_1": "x", "output_2": "y", "label": 2}
    path = write("a.json", [row, {**row, "label": 1}, {**row, "results": []}])
    dataset = ADAPTER.load(path)
    assert [(p.chosen, p.response_a, p.gold) for p in dataset.pairs] == [("y", "x", Side.B), ("x", "x", Side.A)]
    assert dataset.skipped == {"a judge's recorded results, not data": 1}
    with pytest.raises(DataError, match=r"column 'label' \(2 ×2, 0 ×1\) can be read in two ways"):
        ADAPTER.load(write("b.json", [row, row, {**row, "label": 0}]))


def test_pandalm_rows(write: Callable[..., Path]) -> None:
    """PandaLM's three annotators decide by majority; ties and full disagreement are left out and counted."""

    def row(n: int, *votes: int) -> dict[str, Any]:
        names = ("annotator1", "annotator2", "annotator3")
        base = {"idx": n, "instruction": "Sum up.", "input": "x", "response1": "a", "response2": "b"}
        return {**base, **dict(zip(names, votes, strict=True))}

    rows = [row(0, 2, 1, 2), row(1, 1, 1, 1), row(2, 0, 0, 1), row(3, 0, 1, 2)]
    dataset = ADAPTER.load(write("a.json", rows))
    assert [(p.id, p.chosen) for p in dataset.pairs] == [("0", "b"), ("1", "a")]
    assert dataset.skipped == {TIE: 1, NO_MAJORITY: 1}
    assert dataset.pairs[0].prompt == user_prompt("Sum up.\n\nx")


def test_helpsteer3_and_mixed_rows(write: Callable[..., Path]) -> None:
    """Rows of different forms may stand in one file; each is read by its own."""
    rows = [
        {"context": chat(USER), "response1": "a", "response2": "b", "overall_preference": 3},
        labelled("A"),
        {"prompt": "hi", "chosen": "x", "rejected": "y"},
    ]
    assert [p.chosen for p in ADAPTER.load(write("a.jsonl", rows)).pairs] == ["b", "a", "x"]


def test_rewardbench_and_rubricbench_files_are_pairs_too(write: Callable[..., Path]) -> None:
    """The official schemas with texts can be read as plain pairs."""
    reward = {"prompt": "p", "chosen": "a", "rejected": "b", "subset": "s", "id": 3, "chosen_model": "m"}
    assert one(write, reward).subset == "s"
    rubric = {
        "case_id": "c1",
        "instruction": "p",
        "response_a": "a",
        "response_b": "b",
        "label": "B",
        "rubrics": "Is it?",
        "domain": "code",
    }
    pair = one(write, rubric)
    assert (pair.id, pair.domain, pair.rubrics, pair.gold) == ("c1", "code", ("Is it?",), Side.B)


def test_csv_files_of_pairs_are_read(write: Callable[..., Path]) -> None:
    """Pairs in a csv file have texts in every column, which is enough."""
    rows = [{"id": "7", "prompt": "p, q", "response_a": "a\nb", "response_b": "", "label": "B", "domain": ""}]
    (pair,) = ADAPTER.load(write("a.csv", rows)).pairs
    assert (pair.id, pair.prompt, pair.chosen, pair.rejected) == ("7", user_prompt("p, q"), "", "a\nb")


def test_transcripts_are_split_at_speakers_only() -> None:
    """Only a speaker at the start of a paragraph begins a turn."""
    turns = transcript_turns("\n\nHuman: say 'Assistant: no'\n\nline two\n\nAssistant: ok\nHuman: quoted")
    assert turns == (Message("user", "say 'Assistant: no'\n\nline two"), Message("assistant", "ok\nHuman: quoted"))


def test_scores_are_micro_accuracies(write: Callable[..., Path]) -> None:
    """Accuracy overall, by domain, and by subset where there are subsets."""
    rows = [labelled(0, id=n, domain="de"[n % 2], subset="x" if n else "") for n in range(4)]
    pairs = ADAPTER.load(write("a.jsonl", rows)).pairs
    found = ADAPTER.official_scores(
        pairs, [PairResult(p, m) for p, m in zip(pairs, (1.0, 1.0, 0.0, None), strict=True)]
    )
    assert found["overall"] == 0.5
    assert found["by_domain"] == {"d": 0.5, "e": 0.5}
    assert found["by_subset"] == {"x": pytest.approx(1 / 3)}
    assert json.dumps(found)
