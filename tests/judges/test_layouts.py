"""Layouts of prompts: the paper's set, and the user's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest
from endpoint import SimConfig
from rig import pairs, profile

from svr_async.core.pair import Order, Presentation, present, user_prompt
from svr_async.core.rubric import Rubric
from svr_async.errors import ConfigError
from svr_async.judges.questions import QuestionWriter
from svr_async.judges.templates import PAPER, load_templates
from svr_async.simulation.simulator import Simulator

RUBRICS = (Rubric(text="Is it short?"), Rubric(text="Is it right?"))
SHOWN = Presentation(pair_id="p", prompt=user_prompt("2 + 2?"), response_a="{response_b} is 4", response_b="5")


def asks(folder: Path | None, **settings: Any) -> QuestionWriter:
    """Return a writer of questions with the prompts of a folder, or of a set."""
    return QuestionWriter(profile("http://127.0.0.1:1/v1", **settings), load_templates(folder))


def folder_with(folder: Path, **prompts: str) -> Path:
    """Write prompts of one's own."""
    for name, text in prompts.items():
        (folder / f"{name}.txt").write_text(text)
    return folder


def shown_order(text: str, *marks: str) -> list[str]:
    """Return the marks in the order in which they stand in a text."""
    assert all(mark in text for mark in marks), text
    return sorted(marks, key=text.index)


def test_the_papers_layouts_are_those_of_its_appendix() -> None:
    """One message a request; candidates before rubrics, or after them for an overall verdict; its brackets."""
    ask = asks(PAPER)
    compare = ask.compare(SHOWN, RUBRICS, overall=False).request.messages
    overall = ask.compare(SHOWN, RUBRICS, overall=True, note="A number.").request.messages
    direct = ask.direct(SHOWN).request.messages
    assert [[role for role, _ in messages] for messages in (compare, overall, direct)] == [["user"]] * 3
    marks = ("Prompt: 2", "Candidate A: {response_b}", "Candidate B: 5", "Rubrics:\nR1: Is it short?\nR2:")
    assert shown_order(compare[0][1], *marks) == list(marks)
    others = ("Prompt: 2", "Rubrics:\nR1:", "Rubric note: A number.", "Candidate A: {response_b}", "Candidate B: 5")
    assert shown_order(overall[0][1], *others) == list(others)
    assert "[The Start of Candidate Response A]\n{response_b} is 4\n[The End of Candidate Response A]" in direct[0][1]
    assert "svr:" not in compare[0][1] + overall[0][1] + direct[0][1]


def test_the_simulated_judge_answers_both_layouts_alike() -> None:
    """`svr sim` finds the same pair and rubrics in the paper's layout: same verdicts, rubrics, probes."""
    pair, judge = pairs(1)[0], Simulator(SimConfig())
    shown, rubrics = present(pair, Order.AB), [Rubric(text=text) for text in pair.rubrics]

    def answers(ask: QuestionWriter) -> list[Any]:
        asked: list[Any] = [
            ask.direct(shown),
            ask.compare(shown, rubrics, overall=False),
            ask.compare(shown, rubrics, overall=True, note="One number."),
            ask.self_rubrics(pair.prompt),
            ask.pointwise(pair.prompt, pair.chosen, rubrics),
            ask.induction(pair, contrastive=True),
            ask.probe(pair),
        ]
        replies = [judge.answer(orjson.loads(one.request.body_bytes)) for one in asked]
        read = [one.parse(reply["choices"][0]["message"]["content"]) for one, reply in zip(asked, replies, strict=True)]
        return [getattr(one, "rows", one) for one in read]

    assert answers(asks(PAPER)) == answers(asks(None))


def test_a_layout_of_ones_own_has_any_order(tmp_path: Path) -> None:
    """Places stand anywhere, in either message, fenced or bare; a text's own braces stay as they are."""
    layout = (
        "Judge by these:\n{rubrics}\n=== user ===\n{response_b} first, { then }\n{fenced response_a}\n{prompt}\n"
        'Reply as {"rubric_comparisons": []}.'
    )
    ask = asks(folder_with(tmp_path, compare=layout))
    asked = ask.compare(SHOWN, RUBRICS, overall=False)
    (first, system), (second, user) = asked.request.messages
    assert (first, second) == ("system", "user")
    assert system == "Judge by these:\nR1: Is it short?\nR2: Is it right?"
    tag = user.split("<<svr:")[1].split(":")[0]
    fenced = f"<<svr:{tag}:RESPONSE_A>>\n{{response_b}} is 4\n<<svr:{tag}:END>>"
    assert user.startswith(f"5 first, {{ then }}\n{fenced}\n2 + 2?\nReply as {{")
    assert ask.direct(SHOWN).request.key == asks(None).direct(SHOWN).request.key


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("direct", "x\n=== user ===\n{prompt} {response_a}", "the prompt direct lacks the place {response_b}"),
        (
            "direct",
            "x\n=== user ===\n{prompt} {response_a} {response_b} {rubrics}",
            "the place {rubrics}, which is unknown",
        ),
        ("compare", "=== user ===\n{promt} {response_a} {response_b} {rubrics}", "the place {promt}, which is unknown"),
        ("compare", "=== user ===\n{prompt} {response_a} {response_b} {fenced rubrics}", "{fenced rubrics}, which is"),
        ("probe", "{prompt} {chosen}\n=== user ===\n", "or has no user message"),
        ("probe", "{prompt}\n=== user ===\n{chosen}\n=== closing ===\nx", "has both dividers"),
        ("decide", "x\n=== user ===\ny", "the prompt decide has no free layout"),
    ],
)
def test_a_wrong_layout_is_one_line(tmp_path: Path, name: str, text: str, says: str) -> None:
    """A place that is missing or unknown, both dividers, an empty message: named, with the places that there are."""
    with pytest.raises(ConfigError) as caught:
        load_templates(folder_with(tmp_path, **{name: text}), (name,))
    assert says in caught.value.one_line()
    assert "\n" not in caught.value.one_line()
