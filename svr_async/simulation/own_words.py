"""What the simulated judge says to questions in single methods' own words: RRD's, and those of rubric models."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from svr_async.simulation.judge import PlantedJudge
from svr_async.simulation.request import ChatRequest, Role
from svr_async.simulation.world import RubricReading

MOST_GRADE = 10.0
LINE = re.compile(r"^\d+\. (.*?)(?: \[(?:Hard Rule|Principle)\])?$", re.MULTILINE)
N_FINER = 2

Said = str | dict[str, Any]
"""A text, or the object of a JSON reply."""


def answer(judge: PlantedJudge, request: ChatRequest) -> Said:
    """Return what a judge says to such a question."""
    return ANSWERS[request.role](judge, request)


def listed(judge: PlantedJudge, request: ChatRequest) -> list[RubricReading]:
    """Return the rubrics of a written-out list, as it stands between the fences."""
    found = LINE.findall(request.fences.get("RUBRIC", ""))
    return [judge.world.read_rubric(text) for text in found]


def _propose(judge: PlantedJudge, request: ChatRequest) -> Said:
    return {"proposed_rubrics": _written(judge, request)}


def _written(judge: PlantedJudge, request: ChatRequest) -> list[str]:
    return judge.write_rubrics(judge.world.read_prompt(request.fences.get("PROMPT", "")))


def _decompose(judge: PlantedJudge, request: ChatRequest) -> Said:
    coarse = request.rubrics[0][1] if request.rubrics else ""
    prompt = judge.world.read_prompt(request.fences.get("PROMPT", ""))
    return {"finer_rubrics": judge.write_rubrics(prompt, coarse)[:N_FINER]}


def _satisfy(judge: PlantedJudge, request: ChatRequest) -> Said:
    rubrics = [judge.world.read_rubric(text) for _, text in request.rubrics]
    met = all(one for one in _met(judge, request, rubrics))
    return f"The response {'does' if met else 'does not do'} what R1 asks.\n\n[[{'YES' if met else 'NO'}]]"


def _met(judge: PlantedJudge, request: ChatRequest, rubrics: Sequence[RubricReading]) -> list[bool]:
    language = judge.world
    prompt = language.read_prompt(request.fences.get("PROMPT", ""))
    response = language.read_response(request.fences.get("RESPONSE", ""))
    return [judge.opinion(prompt, response, rubric).met for rubric in rubrics]


def _filter(judge: PlantedJudge, request: ChatRequest) -> Said:
    new, *accepted = [judge.world.read_rubric(text) for _, text in request.rubrics]
    same = any(_same(new, other) for other in accepted)
    return f"R1 {'repeats another' if same else 'is new'}.\n\n[[{'OVERLAP' if same else 'NEW'}]]"


def _same(one: RubricReading, other: RubricReading) -> bool:
    if one.criterion is None or other.criterion is None:
        return one.digest == other.digest
    return one.criterion == other.criterion


def _list(judge: PlantedJudge, request: ChatRequest) -> Said:
    return "\n".join(f"{number}. {text} [Hard Rule]" for number, text in enumerate(_written(judge, request), 1))


def _grade(judge: PlantedJudge, request: ChatRequest) -> Said:
    met = _met(judge, request, listed(judge, request))
    score = MOST_GRADE * sum(met) / len(met) if met else MOST_GRADE / 2
    return f"It meets {sum(met)} of {len(met)}.\n\n[[{score:.1f}]]"


ANSWERS: Mapping[Role, Callable[[PlantedJudge, ChatRequest], Said]] = {
    Role.PROPOSE: _propose,
    Role.DECOMPOSE: _decompose,
    Role.SATISFY: _satisfy,
    Role.FILTER: _filter,
    Role.LIST: _list,
    Role.GRADE: _grade,
}
