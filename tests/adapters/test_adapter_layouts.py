"""A table of layouts: each small file is read with its better responses as chosen, or refused with the flag to add."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from svr_async.adapters import get_adapter
from svr_async.adapters.fields import join_prompt, read_answer
from svr_async.core.pair import Message, PreferencePair, user_prompt
from svr_async.errors import DataError

Rows = list[dict[str, Any]]
Write = Callable[..., Path]
ADAPTER = get_adapter("pairs")
USER, REPLY, OTHER = Message("user", "hi"), Message("assistant", "hello"), Message("assistant", "go away")


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


def chat(*turns: str | Message) -> list[dict[str, str]]:
    """Return turns as messages; texts alternate, the user's first."""
    made = [turn if isinstance(turn, Message) else Message(("user", "assistant")[n % 2], turn)
            for n, turn in enumerate(turns)]  # fmt: skip
    return [{"role": turn.role, "content": turn.content} for turn in made]


def parts(text: str) -> Rows:
    """Return an answer in OpenAI's content parts."""
    return [{"role": "assistant", "content": [{"type": "text", "text": text}]}]


def table(rows: Rows, mark: str) -> bytes:
    """Return rows as a table without quotes."""
    return "\r\n".join(mark.join(map(str, line)) for line in [list(rows[0]), *(row.values() for row in rows)]).encode()


def chosen(*more: dict[str, Any]) -> Rows:
    """Return pairs of good and bad, with further columns."""
    return [{"prompt": f"{n}?", "chosen": f"good {n}", "rejected": f"bad {n}", **one} for n, one in enumerate(more)]


UNEQUAL = [{"model_a": "x", "model_b": "y"}, {"model_a": "y", "model_b": "x"}]
ARENA = [
    {"model_a": "x", "model_b": "y", "winner": who, "conversation_a": chat("hi?", a), "conversation_b": chat("hi?", b)}
    for who, a, b in (("model_a", "good", "bad"), ("model_b", "bad", "good"), ("tie", "so", "so so"),
                      ("tie (bothbad)", "no", "nay"))
]  # fmt: skip
ULTRA = [
    {"instruction": f"{rated}?", "completions": [{"response": text, "fine-grained_score": n} for text, n in rated]}
    for rated in ([("fair", 3.5), ("good", 4.25), ("bad", 1.0)], [("bad", 1), ("good", 2)], [("x", 1), ("y", 1)])
]
SHP = [{**row, "history": row.pop("prompt")} for row in two(1, 0, "human_ref_A", "human_ref_B", "labels")]
TURNS = [{side: f"\n\nHuman: hi {n}?\n\nAssistant: {word}" for side, word in (("chosen", "good"), ("rejected", "bad"))}
         for n in range(2)]  # fmt: skip
OPENAI = [{"input": {"messages": chat(f"{n}?")}, "preferred_output": parts("good"),
           "non_preferred_output": parts("bad")} for n in range(2)]  # fmt: skip
RANKED = [{"prompt": "hi?", "responses": ["fair", "bad", f"good {n}"], "ranks": [2, 3, 1]} for n in range(2)]
PAIRED = [{"question": f"{n}?", "responses": pair, "label": n} for n, pair in
          enumerate((["good", "bad"], ["bad", "good"]))]  # fmt: skip
QUOTED = b'prompt,chosen,rejected\n"one,\ntwo","good\n""quoted"", and on",bad\nhi,good,"bad\n"\n'
MIXED = "prompt,chosen,rejected\nnaïve?,good ü,bad\n".encode() + "é?,good,bad ö".encode("latin-1")
TURNED = [{"q": "hi?", "chosen": "bad", "rejected": f"good {n}"} for n in range(2)]
HELPSTEER3 = [{"context": chat("hi?"), "response1": a, "response2": b, "overall_preference": n}
              for a, b, n in (("good", "bad", -3), ("bad", "good", 1))]  # fmt: skip

# name: file, data, how labels are read, (flags), (left out)
READ: dict[str, tuple[Any, ...]] = {
    "chosen and rejected": ("a.jsonl", chosen({}, {}), "chosen is better than rejected"),
    "0 and 1": ("a.jsonl", two(0, 1), "label: 0 = response_a is better, 1 = response_b is better (0 ×1, 1 ×1)"),
    "1 and 2": ("a.jsonl", two(1, 2), "label: 1 = response_a is better, 2 = response_b is better"),
    "1 and 2 in CSV": ("a.csv", two("1", "2", "output_1", "output_2"), "1 = output_1 is better"),
    "floats of pandas": ("a.csv", two("1.0", "2.0"), "(1.0 ×1, 2.0 ×1)"),
    "letters": ("a.jsonl", two("A", "b", "answer_a", "answer_b", "preferred"), "preferred: A or the first = answer_a"),
    "names of columns": ("a.csv", two("response_1", "response_2", "response_1", "response_2", "winner"), "winner:"),
    "counted from 0": ("a.jsonl", two(0, 1, "response_0", "response_1", "better_response_id"), "0 = response_0"),
    "brackets": ("a.jsonl", two("[[A]]", "[[B]]", label="verdict"), "verdict: A"),
    "greater than": ("a.jsonl", two("A>B", "B>>A", "response_A", "response_B"), "label: A"),
    "spaces in names": ("a.tsv", two("Response A", "Response B", "Response A", "Response B", "Winner"), "winner: A"),
    "model names": ("a.jsonl", both(two("x", "x", label="winner"), *UNEQUAL), "the name of the model"),
    "the better text": ("a.jsonl", two("good 1", "good 2", "answer1", "answer2", "best"), "best: the text of the"),
    "score pairs": ("a.csv", both(two(9, 2, label="score_a"), {"score_b": 4}, {"score_b": 3}), "the higher"),
    "rank pairs": ("a.csv", both(two(1, 2, label="rank_a"), {"rank_b": 2}, {"rank_b": 1}), "the lower is better"),
    "losses": ("a.csv", both(two(1, 3, label="score_a"), {"score_b": 2}), "the lower", {"label_map": "lower"}),
    "Arena": ("a.parquet", ARENA, "winner: A", {}, {"ties": 2}),
    "SHP": ("a.jsonl", SHP, "labels: 1 = human_ref_a is better, 0 = human_ref_b is better"),
    "AlpacaEval": ("a.json", two(1.0002, 1.93, "output_1", "output_2", "preference"), "below 1.5 = output_1"),
    "HelpSteer2": ("a.jsonl", two(-2, 1, "response_1", "response_2", "preference_strength"), "below 0 = response_1"),
    "HelpSteer3": ("a.jsonl", HELPSTEER3, "overall_preference: below 0 = response1 is better"),
    "UltraFeedback": ("a.jsonl", ULTRA, "completions: the best is better than the worst", {}, {"ties": 1}),
    "ranked list": ("a.jsonl", RANKED, "responses: the best"),
    "two in a list": ("a.jsonl", PAIRED, "label: 0 = response_a"),
    "HH-RLHF": ("a.jsonl.gz", TURNS, "chosen is better"),
    "OpenAI": ("a.jsonl", OPENAI, "preferred_output is better than non_preferred_output"),
    "messages as Python prints them": ("a.csv", [
        {"prompt": "hi?", "chosen": str(chat("hi?", f"good {n}")), "rejected": str(chat("hi?", "bad"))}
        for n in range(2)], "chosen is better"),
    "by letter": ("a.jsonl", both(two("A", "B", label="chosen"), {"rejected": "B"}, {"rejected": "A"}), "chosen:"),
    "semicolons": ("a.csv", b"\xef\xbb\xbf" + table(two("B", "A", "answer_b", "answer_a"), ";"), "label: A"),
    "UTF-16": ("a.csv", table(two("A", "B"), "\t").decode().encode("utf-16"), "label: A"),
    "newlines in quotes": ("a.csv", QUOTED, "chosen is better"),
    "mixed encodings": ("a.csv", MIXED, "chosen is better"),
    "wrapped": ("a.json", json.dumps({"n": 1, "data": two("b", "a", "answer_b", "answer_a")}).encode(), "label: A"),
    "one id for two": ("a.jsonl", both(two(0, 1), {"id": 7}), "label: 0", {}, {"repeated": 1}),
    "named columns": ("a.csv", two("left", "right", "l", "r", "who"), "label: A",
                      {"columns": "response_a=l,response_b=r,label=who"}),
    "turned columns": ("a.csv", TURNED, "chosen is better", {"columns": "chosen=rejected,rejected=chosen,prompt=q"}),
    "an empty response": ("a.jsonl", chosen({"rejected": ""}, {}), "chosen is better"),
}  # fmt: skip


@pytest.mark.parametrize("name", READ)
def test_a_layout_is_read_and_says_how(name: str, write: Write) -> None:
    """Each file gives two pairs whose chosen responses are good, and a line that says how labels were read."""
    file, data, says, flags, left_out = (*READ[name], {}, {})[:5]
    dataset = ADAPTER.load(write(file, data), **flags)
    assert [pair.chosen.startswith("good") for pair in dataset.pairs] == [True, True]
    assert not any(pair.rejected.startswith("good") for pair in dataset.pairs)
    assert says in dataset.readings[0]
    assert dataset.left_out() == left_out


WORSE = [{"winner": "z", "model_a": "z", "model_b": "z", "prompt": "?", "response_a": "good", "response_b": "bad"}]
# name: file, data, the error, the flags that its hint names, how many pairs these give
REFUSED: dict[str, tuple[str, Any, str, dict[str, Any], int]] = {
    "only 1": ("a.jsonl", [two(1, 2)[0]] * 3, "(1 ×3) does not say which", {"label_map": "1=a,2=b"}, 3),
    "0, 1 and 2": ("a.jsonl", [*two(1, 2), *two(0, 0)[:1]], "does not say", {"label_map": "0=tie,1=a,2=b"}, 2),
    "signed": ("a.jsonl", two(3, -1, label="preference"), "(3 ×1, -1 ×1)", {"label_map": ">0=a,<0=b"}, 2),
    "probabilities": ("a.csv", two("0.91", "0.2", label="preference"), "0.91 ×1", {"label_map": ">0.5=a,<0.5=b"}, 2),
    "booleans": ("a.jsonl", two(False, True), "(False ×1, True ×1)", {"label_map": "false=a,true=b"}, 2),
    "a scale of five": ("a.jsonl", [*two(1, 5), *two(2, 4), *two(3, 3)], "3 ×2", {"label_map": "<3=a,>3=b"}, 4),
    "unknown names": ("a.jsonl", two("gpt", "claude", label="winner"), "gpt ×1", {"label_map": "claude=b,gpt=a"}, 2),
    "two labels": ("a.jsonl", both(two(1, 2), {"winner": "b"}), "label, winner", {"columns": "label=label"}, 2),
    "three responses": ("a.jsonl", both(two(1, 2, "response_1", "response_2"), {"response_3": "fair"}),
                        "response_1, response_2, response_3",
                        {"columns": "response_a=response_1,response_b=response_2"}, 2),
    "other columns": ("a.csv", [{"asked": "hi?", "nice": f"good {n}", "nasty": "bad"} for n in range(2)],
                      "columns found: asked, nice, nasty", {"columns": "prompt=asked,chosen=nice,rejected=nasty"}, 2),
    "a model's name twice": ("a.jsonl", both(two("x", "x", label="winner"), *UNEQUAL) + WORSE,
                             "row 3: column 'winner': expected a label (the name of", {"lenient": True}, 2),
    "no winner": ("a.csv", [*two("A", "B"), *two("", "")[:1]], "row 3: column 'label': expected a label, found ''",
                  {"lenient": True}, 2),
    "NaN for a winner": ("a.jsonl", [*two(0.0, 1.0), *two(float("nan"), 1)[:1]], "found nan", {"lenient": True}, 2),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_an_ambiguous_file_is_refused_with_the_flag_to_add(name: str, write: Write) -> None:
    """One line shows the values or columns and names the flag; with it the file is read right."""
    file, data, says, flags, n_pairs = REFUSED[name]
    path = write(file, data)
    with pytest.raises(DataError) as caught:
        ADAPTER.load(path)
    line = caught.value.one_line()
    assert says in line
    for flag, value in flags.items():
        assert f"--{flag.replace('_', '-')}" in line
        assert value is True or value in line or flag == "columns"
    pairs = ADAPTER.load(path, **flags).pairs
    assert [pair.chosen.startswith("good") for pair in pairs] == [True] * n_pairs


def one(write: Write, row: dict[str, Any]) -> PreferencePair:
    """Load one row and return its pair."""
    (pair,) = ADAPTER.load(write("a.json", [row])).pairs
    return pair


@pytest.mark.parametrize(
    "row",
    [
        {"prompt": "hi", "chosen": "hello", "rejected": "go away"},
        {"prompt": chat(USER), "chosen": chat(REPLY), "rejected": chat(OTHER)},
        {"question": "hi", "chosen": chat(USER, REPLY), "rejected": chat(USER, OTHER)},
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
def test_prompts_and_responses_in_every_form_give_the_same_pair(write: Write, row: dict[str, Any]) -> None:
    """Texts, messages, lists of messages and transcripts give one prompt and two responses."""
    pair = one(write, row)
    assert (pair.prompt, pair.chosen, pair.rejected) == ((USER,), "hello", "go away")


def test_what_stands_before_the_response_is_the_prompt(write: Write) -> None:
    """System columns, earlier turns, Alpaca's input and transcripts are all part of the prompt."""
    before = (Message("system", "Be kind."), USER, REPLY, Message("user", "and now?"))
    row: dict[str, Any] = {"chosen": chat(*before, REPLY), "rejected": chat(*before, OTHER)}
    assert one(write, row).prompt == before
    assert one(write, {**row, "prompt": "and now?"}).prompt == before
    assert one(write, {**chosen({})[0], "system": "s"}).prompt == (Message("system", "s"), *user_prompt("0?"))
    alpaca = {"instruction": "Sum up.", "input": "A story.", "chosen": "a", "rejected": "b"}
    assert one(write, alpaca).prompt == user_prompt("Sum up.\n\nA story.")
    follow = (REPLY, Message("user", "and now?"))
    assert join_prompt((USER,), follow) == (USER, *follow)
    whole = "\n\nHuman: say 'Assistant: no'\n\nline two\n\nAssistant: ok\nHuman: quoted"
    turns = user_prompt("say 'Assistant: no'\n\nline two")
    assert read_answer(whole, transcript=True) == (turns, "ok\nHuman: quoted")


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"chosen": "x", "rejected": "y"}, "column 'chosen': expected a prompt column, or a transcript"),
        (
            {"chosen": chat(REPLY, USER), "rejected": chat(OTHER)},
            "column 'chosen': expected the last message is by user",
        ),
        ({"chosen": chat(REPLY), "rejected": chat(OTHER)}, "column 'chosen': the prompt is empty"),
        ({"prompt": "hi", "chosen": ["x"], "rejected": ["z"]}, "column 'chosen': expected text, a message or a list"),
        ({"text": "x"}, "unknown layout of preference pair; columns found: text"),
        ({"prompt": "p", "chosen": "a", "rejcted": "b"}, "unknown .* columns found: prompt, chosen, rejcted"),
    ],
)
def test_rows_of_an_unknown_layout_say_what_is_missing(write: Write, row: dict[str, Any], message: str) -> None:
    """A row that is not a pair is named, with its content."""
    with pytest.raises(DataError, match=f"a.json row 1: {message}"):
        ADAPTER.load(write("a.json", [row]))
