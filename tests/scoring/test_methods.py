"""Methods on a scripted judge, the pair score Δ cell by cell, and decisions in the data set's order."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from svr_async.core.integrity import Marks
from svr_async.core.pair import Order, Presentation, Prompt, Side, user_prompt
from svr_async.core.rubric import Check, Rubric
from svr_async.core.verdict import Outcome, RubricComparison, Verdict, delta
from svr_async.errors import ConfigError
from svr_async.judges.protocol import Answer, Comparisons, Preference, WrittenRubrics
from svr_async.scoring.decision import Decision
from svr_async.scoring.methods.registry import Method
from svr_async.scoring.methods.simple import (
    ContentBlind,
    Direct,
    Fixed,
    Oracle,
    Pointwise,
    SelfRubric,
    by_text,
    load_rubric_file,
)

SHOWN = Presentation(pair_id="p", prompt=user_prompt("q"), response_a="long answer", response_b="short")
ONE, TWO = Rubric(text="Is it one?"), Rubric(text="Is it two?")
PASS, FAIL = Verdict.PASS, Verdict.FAIL


@dataclass
class Script:
    """A judge that gives scripted answers and records the questions."""

    margin: float | None = 1.0
    written: tuple[Rubric, ...] | None = (ONE, TWO)
    rows: Mapping[str, tuple[Verdict, Verdict, Side | None]] | None = field(default_factory=dict)
    preferred: Side | None = None
    scores: Mapping[str, Mapping[str, float]] | None = None
    flags: tuple[str, ...] = ()
    asked: list[Any] = field(default_factory=list)
    name: str = "script"
    label: str = "script"
    marks: Marks = frozenset()

    def _none(self, key: str) -> Answer[Any]:
        return Answer(value=None, outcome=Outcome.REFUSAL, detail="no", requests=(key,), flags=self.flags)

    async def prefer(self, shown: Presentation) -> Answer[Preference]:
        self.asked.append(("prefer", shown))
        if self.margin is None:
            return self._none("d")
        return Answer(value=Preference(margin=self.margin), requests=("d",), flags=self.flags)

    async def write_rubrics(self, prompt: Prompt) -> Answer[WrittenRubrics]:
        self.asked.append(("write", prompt))
        if self.written is None:
            return self._none("w")
        return Answer(value=WrittenRubrics(rubrics=self.written, note="a note"), requests=("w",))

    async def compare(
        self, shown: Presentation, rubrics: Sequence[Rubric], *, overall: bool, note: str = ""
    ) -> Answer[Comparisons]:
        self.asked.append(("compare", [rubric.text for rubric in rubrics], overall, note))
        if self.rows is None:
            return self._none("c")
        rows = tuple(RubricComparison(r.id, *self.rows[r.text]) for r in rubrics if r.text in self.rows)
        return Answer(value=Comparisons(rows=rows, preferred=self.preferred), requests=("c",), flags=self.flags)

    async def score(self, prompt: Prompt, response: str, rubrics: Sequence[Rubric]) -> Answer[Mapping[str, float]]:
        self.asked.append(("score", response))
        if self.scores is None or response not in self.scores:
            return self._none(f"s-{response}")
        given = self.scores[response]
        return Answer(value={r.id: given[r.text] for r in rubrics if r.text in given}, requests=(f"s-{response}",))


def decide(
    method: Method, judge: Script, human: Sequence[str | tuple[str, float]] = (), order: Order = Order.AB
) -> Decision:
    """Run a method on one presentation."""
    shown = Presentation(pair_id="p", prompt=SHOWN.prompt, response_a="long answer", response_b="short", order=order)
    rubrics = [(one, None) if isinstance(one, str) else one for one in human]
    return asyncio.run(method.decide(judge, shown, rubrics))


# --- Δ ---------------------------------------------------------------------------------------------------------------

CELLS = {
    (PASS, PASS, Side.A): 0.25, (PASS, PASS, Side.B): -0.25, (PASS, PASS, None): 0.0,
    (PASS, FAIL, Side.A): 1.25, (PASS, FAIL, Side.B): 0.75, (PASS, FAIL, None): 1.0,
    (FAIL, PASS, Side.A): -0.75, (FAIL, PASS, Side.B): -1.25, (FAIL, PASS, None): -1.0,
    (FAIL, FAIL, Side.A): 0.25, (FAIL, FAIL, Side.B): -0.25, (FAIL, FAIL, None): 0.0,
}  # fmt: skip


@pytest.mark.parametrize(("a", "b", "better"), list(itertools.product(Verdict, Verdict, (*Side, None))))
def test_delta_cell_by_cell(a: Verdict, b: Verdict, better: Side | None) -> None:
    """All twelve cells: pass difference plus a quarter for the better side, none without a preference."""
    expected = CELLS[a, b, better]
    row = RubricComparison("r", a, b, better)
    assert delta(a, b, better) == row.delta == expected
    swapped = row.swapped()
    assert swapped.delta == -expected
    assert swapped.swapped() == row
    contradictory = {(PASS, FAIL, Side.B), (FAIL, PASS, Side.A)}
    assert row.inconsistent is swapped.inconsistent is ((a, b, better) in contradictory)


# --- methods ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("margin", "outcome"), [(1.0, Outcome.SCORED), (-1.0, Outcome.SCORED), (0.0, Outcome.TIE)])
def test_vanilla_takes_the_judges_word(margin: float, outcome: Outcome) -> None:
    """The direct verdict is the margin; none at all is passed on with its reason."""
    found = decide(Direct(), Script(margin=margin, flags=("f",)))
    assert (found.margin, found.outcome, found.requests, found.flags) == (margin, outcome, ("d",), ("f",))
    none = decide(Direct(), Script(margin=None))
    assert (none.margin, none.outcome, none.detail, none.requests) == (None, Outcome.REFUSAL, "no", ("d",))
    assert none.preferred is None


def test_fixed_adds_weighted_deltas() -> None:
    """F = Σ weight · Δ over the rubrics that were judged; the others stay listed and contribute nothing."""
    method = Fixed(((ONE, 2.0), (TWO, 0.5), (Rubric(text="Is it three?"), 9.0)))
    found = decide(method, Script(rows={"Is it one?": (PASS, FAIL, Side.A), "Is it two?": (FAIL, FAIL, Side.B)}))
    assert found.margin == 2.0 * 1.25 + 0.5 * -0.25
    assert [part.value for part in found.contributions] == [2.5, -0.125, 0.0]
    assert sum(part.value for part in found.contributions) == found.margin
    assert found.contributions[2].delta is None
    tied = decide(method, Script(rows={}))
    assert (tied.margin, tied.outcome) == (0.0, Outcome.TIE)
    none = decide(method, Script(rows=None))
    assert (none.margin, none.outcome) == (None, Outcome.REFUSAL)


def test_the_oracle_judges_human_rubrics_and_prefers_as_a_whole() -> None:
    """The judge's overall preference decides; each distinct rubric is asked once."""
    judge = Script(rows={"Is it one?": (FAIL, PASS, Side.B)}, preferred=Side.A)
    found = decide(Oracle(), judge, ["Is it one?", "is it ONE?", "Is it two?"])
    assert judge.asked == [("compare", ["is it ONE?", "Is it two?"], True, "")]
    assert (found.margin, found.preferred, len(found.contributions)) == (1.0, Side.A, 2)
    assert decide(Oracle(), Script(preferred=Side.B), ["x"]).margin == -1.0
    missing = decide(Oracle(), Script(), [])
    assert (missing.margin, missing.outcome, missing.detail) == (None, Outcome.INVALID_INPUT, "no human rubrics")


def test_points_count_for_and_against_the_response_that_satisfies_the_rubric() -> None:
    """Σ points · satisfied: neither the judge's overall preference nor which is better matters."""
    rows = {"Is it one?": (PASS, FAIL, Side.B), "Is it rude?": (PASS, FAIL, Side.A), "Is it two?": (PASS, PASS, Side.B)}
    human = [("Is it one?", 3.0), ("Is it rude?", -5.0), ("Is it two?", 7.0), ("Is it rude?", -1.0)]
    listed: list[tuple[Method, Sequence[tuple[str, float]]]] = [
        (Oracle(), human), (Fixed(by_text(human), by_points=True), []),
    ]  # fmt: skip
    for method, given in listed:
        judge = Script(rows=rows, preferred=Side.A)
        found = decide(method, judge, given)
        assert judge.asked == [("compare", ["Is it one?", "Is it rude?", "Is it two?"], False, "")]
        assert (found.margin, [part.value for part in found.contributions]) == (-3.0, [3.0, -6.0, 0.0])
    assert decide(Oracle(), Script(rows=None), human).outcome is Outcome.REFUSAL


def test_self_rubric_writes_then_judges() -> None:
    """The judge's own rubrics and note go into the second question; both requests are named; either may fail."""
    judge = Script(rows={"Is it one?": (PASS, FAIL, Side.A)}, preferred=Side.B)
    found = decide(SelfRubric(), judge)
    assert [entry[0] for entry in judge.asked] == ["write", "compare"]
    assert judge.asked[1] == ("compare", ["Is it one?", "Is it two?"], True, "a note")
    assert (found.margin, found.requests) == (-1.0, ("w", "c"))
    unwritten = decide(SelfRubric(), Script(written=None))
    assert (unwritten.outcome, unwritten.requests) == (Outcome.REFUSAL, ("w",))
    unjudged = decide(SelfRubric(), Script(rows=None))
    assert (unjudged.outcome, unjudged.requests) == (Outcome.REFUSAL, ("w", "c"))


def test_pointwise_subtracts_scores() -> None:
    """F = Σ weight · (score A − score B) over rubrics that have both; verdicts are shown for the report."""
    scores = {"long answer": {"Is it one?": 0.9, "Is it two?": 0.5}, "short": {"Is it one?": 0.4}}
    found = decide(Pointwise(((ONE, 2.0), (TWO, 5.0))), Script(scores=scores))
    assert found.margin == pytest.approx(1.0)
    first, second = found.contributions
    assert first.comparison is not None
    assert (first.comparison.a, first.comparison.b, first.comparison.better) == (PASS, FAIL, Side.A)
    assert second.comparison is None
    assert found.requests == ("s-long answer", "s-short")
    equal = {name: {"Is it one?": 0.5} for name in ("long answer", "short")}
    assert decide(Pointwise(((ONE, 1.0),)), Script(scores=equal)).outcome is Outcome.TIE


def test_pointwise_without_a_list_uses_the_judges_own_rubrics() -> None:
    """Rubrics are written for the prompt first; a failure at any step is the outcome."""
    both = {name: {"Is it one?": score} for name, score in (("long answer", 0.2), ("short", 0.8))}
    found = decide(Pointwise(), Script(scores=both))
    assert found.margin == pytest.approx(-0.6)
    assert found.requests[0] == "w"
    assert decide(Pointwise(), Script(written=None)).outcome is Outcome.REFUSAL
    for missing in both:
        half = {name: value for name, value in both.items() if name != missing}
        assert decide(Pointwise(), Script(scores=half)).outcome is Outcome.REFUSAL


@pytest.mark.parametrize(("name", "margin"), [("longest", 6.0), ("shortest", -6.0), ("first", 1.0)])
def test_content_blind_baselines_read_nothing(name: str, margin: float) -> None:
    """Length in characters, or position; the judge is not asked."""
    judge = Script()
    assert decide(ContentBlind(name), judge).margin == margin
    assert judge.asked == []


@pytest.mark.parametrize(
    "method", [Direct(), SelfRubric(), Oracle(), Fixed(((ONE, 1.0),)), Pointwise(((ONE, 1.0),)), ContentBlind("first")]
)
def test_a_decision_is_turned_round_with_its_pair(method: Method) -> None:
    """What was decided about the swapped pair has the opposite sign in the data set's order, evidence included."""
    scores = {"long answer": {"Is it one?": 1.0}, "short": {"Is it one?": 0.25}}
    judge = Script(rows={"Is it one?": (PASS, FAIL, Side.A)}, preferred=Side.A, scores=scores)
    straight, turned = (decide(method, judge, ["Is it one?"], order) for order in Order)
    assert straight.in_data_order() is straight
    back = turned.in_data_order()
    assert back.margin == -(turned.margin or 0.0)
    assert back.shown is Order.BA
    assert [part.value for part in back.contributions] == [-part.value for part in straight.contributions]


@pytest.mark.parametrize(
    ("method", "human"),
    [(Pointwise(((ONE, 1.0), (TWO, 1.0))), ()), (Fixed(tuple((Rubric(text=f"w{n}"), 0.1) for n in range(4))), ()),
     (Oracle(), tuple(f"w{n}" for n in range(4)))],
    ids=["pointwise", "fixed", "oracle"],
)  # fmt: skip
def test_what_adds_up_to_nothing_is_a_tie(method: Method, human: Sequence[str]) -> None:
    """Sums of decimals that cancel are a tie, whatever their last bits are (0.8 + 0.6 against 0.7 + 0.7)."""
    rows = {"w0": (PASS, FAIL, Side.B)} | {f"w{number}": (PASS, PASS, Side.B) for number in (1, 2, 3)}
    scores = {"long answer": {ONE.text: 0.8, TWO.text: 0.6}, "short": {ONE.text: 0.7, TWO.text: 0.7}}
    found = decide(method, Script(rows=rows, scores=scores), human)
    assert (found.margin, found.outcome, found.preferred) == (0.0, Outcome.TIE, None)


# --- a file of fixed rubrics ---------------------------------------------------------------------------------------


def rubrics_in(path: Path, data: str | bytes) -> tuple[tuple[Rubric, float], ...]:
    """Write and load a rubric file."""
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return load_rubric_file(path)[0]


def test_plain_text_is_one_rubric_a_line(tmp_path: Path) -> None:
    """Bullets, numbers, blank lines and comments are no part of a rubric; repeats count once."""
    text = "# ours\n- Is it short?\n2. Is it right?\n\n* is it  SHORT?\n"
    found = rubrics_in(tmp_path / "r.txt", text)
    assert [(rubric.text, weight) for rubric, weight in found] == [("Is it short?", 1.0), ("Is it right?", 1.0)]


def test_json_and_json_lines_carry_weights_and_checks(tmp_path: Path) -> None:
    """Texts or objects with weight, facet, importance and an executable check."""
    check = '{"name": "max_words", "args": {"n": 5}}'
    entry = f'{{"text": "Is it short?", "weight": 0.5, "facet": "style", "check": {check}}}'
    for name, data in (("r.json", f'["Is it right?", {entry}]'), ("r.jsonl", f'"Is it right?"\n\n{entry}\n')):
        first, (second, weight) = rubrics_in(tmp_path / name, data)
        assert first == (Rubric(text="Is it right?"), 1.0)
        assert (weight, second.facet, second.check) == (0.5, "style", Check.of("max_words", n=5))
    points = '[{"criterion": "Is it right?", "points": 5}, {"description": "Is it rude?", "weight": -2}]'
    assert [weight for _, weight in rubrics_in(tmp_path / "p.json", points)] == [5.0, -2.0]
    for name, by_points in (("r.json", False), ("p.json", True)):
        assert load_rubric_file(tmp_path / name)[1] is by_points
    assert rubrics_in(tmp_path / "b.json", '\ufeff[{"rubric": " Is  it so? "}]')[0][0].text == "Is it so?"


@pytest.mark.parametrize(
    ("name", "data", "says"),
    [
        ("r.txt", "", "holds no rubrics"), ("r.txt", "# only\n", "holds no rubrics"), ("r.json", "[]", "no rubrics"),
        ("r.json", "{", "not a list"), ("r.json", "{}", "not a list"), ("r.jsonl", '"a"\n{', "rubric 2: Input data"),
        ("r.json", "[5]", "rubric 1: Expected `object`, got `int`"), ("r.json", '[" "]', "needs a text"),
        ("r.json", '[{"text": 5}]', "at `$.text`"), ("r.json", f'["{"x" * 513}"]', "length <= 512"),
        ("r.json", '[{"text": "a", "weight": NaN}]', "malformed"),
        ("r.json", '[{"text": "a", "weight": "1"}]', "at `$.weight`"),
        ("r.json", '[{"text": "a", "weight": true}]', "weight"),
        ("r.json", '[{"text": "a", "check": 5}]', "at `$.check`"),
        ("r.json", '[{"text": "a", "check": {"name": 5}}]', "check"),
    ],
)  # fmt: skip
def test_a_wrong_rubric_file_is_named(tmp_path: Path, name: str, data: str, says: str) -> None:
    """File, entry and what is wrong with it, in one line."""
    with pytest.raises(ConfigError) as caught:
        rubrics_in(tmp_path / name, data)
    assert says in caught.value.one_line()
    with pytest.raises(ConfigError, match="cannot read"):
        load_rubric_file(tmp_path / "missing.txt")
