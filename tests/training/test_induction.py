"""One criterion in other words: the question, its reply, and the groups that come of it."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from rig import writer
from stand_ins import UnaskedAuthor, UnaskedJudge

from svr_async.core.pair import PreferencePair, user_prompt
from svr_async.core.rubric import Rubric
from svr_async.engine.request import ReplyRejectedError
from svr_async.judges.protocol import Answer, CriteriaQuestion
from svr_async.judges.questions import MOST_KNOWN, MOST_NEW, read_same
from svr_async.reports.bank_summary import by_criterion
from svr_async.scoring.bank import BankRubric, RubricBank
from svr_async.training.rounds.config import TrainConfig
from svr_async.training.rounds.induction import grouped
from svr_async.training.rounds.session import Session, prepare
from svr_async.training.rounds.stages import Stages, TrainingJudges

QUESTION = CriteriaQuestion(known=("Names a\nriver", "Is short"), new=("Mentions a stream", "Is brief", "Is kind"))


def test_the_request_lists_known_and_new_criteria_a_line_each() -> None:
    """Labels K1 … and N1 …, texts in one line, inside fences."""
    shown = writer().same_criterion(QUESTION).request.messages[-1][1]
    assert "KNOWN>>\nK1: Names a river\nK2: Is short\n" in shown
    assert "NEW>>\nN1: Mentions a stream\nN2: Is brief\nN3: Is kind\n" in shown


@pytest.mark.parametrize(
    ("reply", "found"),
    [
        ('{"same_as": {"N1": "K1", "N2": "K2", "N3": null}}', {"N1": "K1", "N2": "K2", "N3": None}),
        ('Sure:\n```json\n{"same_as": {"N2": "N1"}}\n```', {"N2": "N1"}),
        ('{"same_as": {"N1": "K9", "N2": "N2", "N3": ["K1"], "N4": "K1", "K1": "K2"}}', {}),
        ('{"same_as": {}} {"same_as": {"N1": "K2"}}', {"N1": "K2"}),
    ],
)
def test_labels_that_cannot_be_read_are_left_out(reply: str, found: Mapping[str, str | None]) -> None:
    """Unknown labels, itself, and values of other types count as absent."""
    assert read_same(QUESTION, reply) == found


@pytest.mark.parametrize("reply", ["", "none", "{", '{"same_as": []}', '["N1"]'])
def test_a_reply_without_the_object_is_asked_again(reply: str) -> None:
    """The engine asks once more, and counts the question then."""
    with pytest.raises(ReplyRejectedError, match="same_as"):
        read_same(QUESTION, reply)


class Grouper(UnaskedJudge, UnaskedAuthor):
    """Finds criteria by the first word of a rubric."""

    name = label = "grouper"

    def __init__(self) -> None:
        self.asked: list[CriteriaQuestion] = []
        self.reply: Mapping[str, str | None] | None = None

    async def same_criterion(self, asked: CriteriaQuestion) -> Answer[Mapping[str, str | None]]:
        self.asked.append(asked)
        if self.reply is not None:
            return Answer(value=self.reply)
        seen = {text.split()[0]: f"K{n}" for n, text in enumerate(asked.known, 1)}
        said = {}
        for n, text in enumerate(asked.new, 1):
            said[f"N{n}"] = seen.setdefault(text.split()[0], f"N{n}")
        return Answer(value={name: None if other == name else other for name, other in said.items()})


def bank(words: int, wordings: int) -> list[BankRubric]:
    """Return rubrics of some criteria in several wordings each."""
    return [BankRubric(rubric=Rubric(text=f"w{n % words} wording {n}")) for n in range(words * wordings)]


def session(folder: Path, author: Grouper, how: str = "author") -> Session:
    """Return a session that asks for criteria."""
    pairs = [PreferencePair(id=f"p{n}", prompt=user_prompt(f"q{n}"), chosen="a", rejected="b") for n in range(2)]
    return Session(
        judges=TrainingJudges(judge=author, author=author),
        config=replace(TrainConfig(), same_criterion=how),  # type: ignore[arg-type]
        stages=Stages(folder),
        material=prepare(pairs[:1], pairs[1:], digest="d"),
    )


async def test_rubrics_get_the_criterion_of_the_first_wording_and_are_asked_once(tmp_path: Path) -> None:
    """Forty at a time next to the criteria found so far; a stage read back, and later rounds, ask for new ones only."""
    author, rubrics = Grouper(), bank(30, 4)
    found, criteria = await grouped(session(tmp_path, author), "criteria-1", rubrics, {})
    assert [one.criterion for one in found] == [rubrics[n % 30].rubric.id for n in range(120)]
    assert [(len(one.known), len(one.new)) for one in author.asked] == [(0, 40), (30, 40), (30, 40)]
    again, _ = await grouped(session(tmp_path, author), "criteria-1", rubrics, {})
    assert again == found
    assert len(author.asked) == 3
    more = [*rubrics[60:], BankRubric(rubric=Rubric(text="w1 later")), BankRubric(rubric=Rubric(text="x alone"))]
    later, _ = await grouped(session(tmp_path, author), "criteria-2", more, criteria)
    assert [one.new for one in author.asked[3:]] == [("w1 later", "x alone")]
    assert (later[-2].criterion, later[-1].criterion) == (rubrics[1].rubric.id, "")


async def test_chains_and_circles_of_repeats_are_one_criterion(tmp_path: Path) -> None:
    """Whichever of them is listed first; two criteria that were known before stay two."""
    author, rubrics = Grouper(), [BankRubric(rubric=Rubric(text=f"w{n} text")) for n in range(8)]
    one, *others = (candidate.rubric.id for candidate in rubrics)
    author.reply = {"N1": "N3", "N2": "K1", "N3": "N4", "N4": "N3", "N5": "N2", "N6": None}
    known = {one: one, others[0]: others[0]}
    found, _ = await grouped(session(tmp_path, author), "criteria-1", rubrics, known)
    circle = others[3]  # N3
    assert [candidate.criterion for candidate in found] == [one, "", circle, one, circle, circle, one, ""]


async def test_at_most_two_hundred_known_criteria_are_listed_those_most_alike(tmp_path: Path) -> None:
    """Of 300 criteria, the 20 that repeat early ones in the same words are all found."""
    author, texts = Grouper(), [f"c{n} about topic{n}" for n in range(300)]
    rubrics = [BankRubric(rubric=Rubric(text=text)) for text in [*texts, *(f"{text} again" for text in texts[:20])]]
    found, _ = await grouped(session(tmp_path, author), "criteria-1", rubrics, {})
    assert max(len(one.known) for one in author.asked) == MOST_KNOWN
    assert max(len(one.new) for one in author.asked) == MOST_NEW
    assert [one.criterion for one in found[300:]] == [rubrics[n].rubric.id for n in range(20)]


async def test_a_bank_keeps_criteria_and_lists_their_wordings_together(tmp_path: Path) -> None:
    """Through bank.json and back to candidates; a further wording stands below the first, marked."""
    found, _ = await grouped(session(tmp_path, Grouper()), "criteria-1", bank(2, 2), {})
    RubricBank(rubrics=found).save(tmp_path / "bank")
    held = RubricBank.load(tmp_path / "bank")
    assert held.rubrics == found
    shown = [f"{mark}{entry.text}" for entry, mark in by_criterion(held.rubrics)]
    assert shown == ["w0 wording 0", "↳ w0 wording 2", "w1 wording 1", "↳ w1 wording 3"]


@pytest.mark.parametrize("how", ["text", "off"])
async def test_nobody_is_asked_unless_the_author_is_to_say(tmp_path: Path, how: str) -> None:
    """The bank stays as it is."""
    author = Grouper()
    found, criteria = await grouped(session(tmp_path, author, how), "criteria-1", bank(3, 2), {})
    assert (list(found), criteria, author.asked) == (bank(3, 2), {}, [])
