"""Stages: questions over many pairs, and what they gave, read back if the inputs are the same."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from rig import pairs
from stand_ins import UnaskedAuthor, UnaskedJudge

from svr_async.core.rubric import Check, Rubric
from svr_async.core.verdict import Outcome
from svr_async.engine.shutdown import ShutdownController, StoppedError
from svr_async.errors import AuthError, CoverageError
from svr_async.judges.protocol import Answer
from svr_async.scoring.bank import BankRubric
from svr_async.scoring.provenance import training_fingerprint
from svr_async.training.rounds import stages as module
from svr_async.training.rounds.stages import (
    StageEndsError,
    Stages,
    TrainingJudges,
    ask,
    digest_of,
    outcomes_of,
    require_answers,
    unanswered_lines,
)

Z: NDArray[Any] = np.array([0.25, np.nan, -1.25], np.float32)
CANDIDATES = (
    BankRubric(rubric=Rubric(text="Is brief", check=Check.of("max_words", n=50, of=("a", "é")), importance="major")),
    BankRubric(rubric=Rubric(text="Names the river"), source_pair_ids=("p1",), observed_count=3, aliases=("x",)),
)


# ── on disk ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_stage_of_the_same_inputs_is_read_back_and_of_others_is_not(tmp_path: Path) -> None:
    """Records and arrays come back as they were, NaN included; another digest or name gives None."""
    stages = Stages(tmp_path / "stages")
    assert stages.load("judge-1", "d", np.ndarray) is None
    stages.save("judge-1", "d", Z)
    held = stages.load("judge-1", "d", np.ndarray)
    assert held is not None
    assert (held.dtype, held.tobytes()) == (Z.dtype, Z.tobytes())
    assert stages.load("judge-1", "e", np.ndarray) is None
    assert stages.load("judge-2", "d", np.ndarray) is None
    stages.save("judge-1", "e", CANDIDATES)
    assert stages.load("judge-1", "d", np.ndarray) is None
    assert stages.load("judge-1", "e", tuple[BankRubric, ...]) == CANDIDATES


def test_marks_and_outcomes_are_kept_with_a_stage(tmp_path: Path) -> None:
    """A run that reads everything back knows who answered, and how many questions have no answer."""
    counts = {"scored": 309, "context_too_long": 91}
    Stages(tmp_path, {"svr-sim-1", ""}).save("judge-1", "d", Z, counts)
    Stages(tmp_path, {"other"}).save("fit-1", "d", Z)
    later = Stages(tmp_path)
    later.load("judge-1", "other inputs", np.ndarray)
    assert (later.marks, later.outcomes) == (set(), {})
    later.load("judge-1", "d", np.ndarray)
    later.load("fit-1", "d", np.ndarray)
    assert later.marks == {"svr-sim-1", "", "other"}
    assert later.outcomes == {"judge-1": counts}
    assert unanswered_lines(later.outcomes) == ["judge-1: 91 of 400 questions have no answer (91 context_too_long)"]
    require_answers(later.outcomes, 0.7, tmp_path)
    with pytest.raises(CoverageError, match="91 of 400 questions"):
        require_answers(later.outcomes, 0.8, tmp_path)


def test_stages_of_another_version_or_with_open_questions_are_computed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other code may have screened or judged by other rules; `retry` asks what had no answer again."""
    Stages(tmp_path).save("induce-1", "d", CANDIDATES, {"scored": 2, "refusal": 1})
    Stages(tmp_path).save("judge-1", "d", Z, {"scored": 9})
    again = Stages(tmp_path, retry=True)
    assert again.load("induce-1", "d", tuple[BankRubric, ...]) is None
    assert again.load("judge-1", "d", np.ndarray) is not None
    monkeypatch.setattr(module, "__version__", "99.0")
    assert Stages(tmp_path).load("judge-1", "d", np.ndarray) is None


@settings(deadline=None, max_examples=60)
@given(place=st.integers(0, 10_000), bit=st.integers(-1, 7))
def test_no_flipped_bit_and_no_cut_is_overlooked(
    tmp_path_factory: pytest.TempPathFactory, place: int, bit: int
) -> None:
    """Any bit flipped, or any number of bytes gone: the stage is computed again."""
    folder = tmp_path_factory.mktemp("damaged")
    Stages(folder).save("judge-1", "d", CANDIDATES, {"scored": 1})
    path = folder / "judge-1.stage"
    held = bytearray(path.read_bytes())
    place %= len(held)
    if bit < 0:
        del held[place:]
    else:
        held[place] ^= 1 << bit
    path.write_bytes(held)
    assert Stages(folder).load("judge-1", "d", tuple[BankRubric, ...]) is None


def test_a_digest_tells_different_values_apart() -> None:
    """Values, their borders, types and shapes all count; the order of keys does not."""
    values = [("ab", "c"), ("a", "bc"), ("abc",), (["a", "b"],), (b"ab",), (1,), ("1",), (1.0,), (None,), (True,)]
    arrays = [np.zeros(4), np.zeros((2, 2)), np.zeros(4, np.float32), np.ones(4)]
    digests = [digest_of(*parts) for parts in values] + [digest_of(array) for array in arrays]
    assert len(set(digests)) == len(digests)
    assert digest_of({"a": 1, "b": 2}) == digest_of({"b": 2, "a": 1})
    assert digest_of(np.arange(8)[::2]) == digest_of(np.arange(0, 8, 2))
    some = [*pairs(2), replace(pairs(1)[0], id="é\n")]
    assert training_fingerprint("d", [pair.id for pair in some]) == digest_of("d", [pair.id for pair in some])


# ── asking ──────────────────────────────────────────────────────────────────────────────────────────────────────────

ITEMS = list(range(12))


async def answer(item: int) -> Answer[int]:
    """Answer a question with its square, those about 3 not at all, the later sooner."""
    await asyncio.sleep(0.002 * (item % 3))
    return Answer(value=item**2) if item != 3 else Answer(value=None, outcome=Outcome.PARSE_ERROR)


def judges(**settings: Any) -> TrainingJudges:
    """Return judges of which four questions are asked at a time."""
    return TrainingJudges(judge=UnaskedJudge(), author=UnaskedAuthor(), workers=4, **settings)


async def test_answers_come_in_the_order_of_the_items_and_failures_are_counted() -> None:
    """Whatever ends first: answer n belongs to item n; a question that failed has no value; no items, no answers."""
    seen: list[int] = []
    answers = await ask(judges(on_done=seen.append), "squaring", ITEMS, answer, ITEMS)
    assert [one.value for one in answers] == [None if item == 3 else item**2 for item in ITEMS]
    assert outcomes_of(answers) == {"scored": 11, "parse_error": 1}
    assert seen == list(range(1, 13))
    assert await ask(judges(), "squaring", [], answer, []) == []


async def test_no_stage_begins_where_the_policy_ends_the_run() -> None:
    """What may not begin asks and reports nothing; a stage under way is not cut short, the next one is."""
    begun: list[tuple[str, int]] = []

    def before_stage() -> None:
        if begun:
            raise StageEndsError

    once = judges(before_stage=before_stage, on_begin=lambda *stage: begun.append(stage))
    assert len(await ask(once, "squaring", ITEMS, answer, ITEMS)) == len(ITEMS)
    with pytest.raises(StageEndsError):
        await ask(once, "cubing", ITEMS, answer, ITEMS)
    assert begun == [("squaring", 12)]


async def test_what_is_under_way_when_an_error_ends_the_run_may_end() -> None:
    """A refused key stops all items. Running answers are paid for: they are counted, nothing further begins."""
    begun: list[int] = []
    ended: list[int] = []

    async def refused(item: int) -> Answer[int]:
        begun.append(item)
        if item == 1:
            raise AuthError("refused")
        await asyncio.sleep(0.05)
        return await answer(item)

    stopped = judges(on_done=ended.append)
    for _ in range(2):
        with pytest.raises(AuthError):
            await ask(stopped, "squaring", ITEMS, refused, ITEMS)
    assert begun == ITEMS[:4][: len(begun)]
    assert len(begun) >= 2
    assert ended == list(range(1, len(begun)))


async def test_a_signal_ends_what_is_asked() -> None:
    """A listener of running questions may stop them; StoppedError says how to continue."""
    listened = []

    @contextmanager
    def listening() -> Iterator[None]:
        listened.append("in")
        asyncio.get_running_loop().call_later(0.01, shutdown.interrupt, 15)
        yield
        listened.append("out")

    async def slow(item: int) -> Answer[int]:
        await asyncio.sleep(0.03)
        return await answer(item)

    shutdown = ShutdownController()
    with pytest.raises(StoppedError, match="stopped by SIGTERM") as caught:
        await ask(judges(shutdown=shutdown, listening=listening), "squaring", ITEMS, slow, ITEMS)
    assert caught.value.exit_code == 143
    assert listened == ["in", "out"]
