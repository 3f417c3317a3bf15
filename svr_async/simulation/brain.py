"""From a request to the content of its reply, as a pure function of (seed, request)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import orjson

from svr_async.core.verdict import EVEN, RubricComparison
from svr_async.simulation.author import Author
from svr_async.simulation.config import SimConfig
from svr_async.simulation.judge import MODELS, JudgeModel, PlantedJudge
from svr_async.simulation.manners import manner_named
from svr_async.simulation.wire import ApiError, ChatRequest, Shape, completion, parse_request
from svr_async.simulation.world import PromptReading, ResponseReading, RubricReading, World, draw_bytes

LINE = re.compile(r"^\d+\. (.*?)(?: \[(?:Hard Rule|Principle)\])?$", re.MULTILINE)
N_FINER = 2
MOST_GRADE = 10.0
PASS_SCORE = 0.6
SCORE_SPREAD = 0.25
REASON = "Held against this rubric as it is worded, candidate A {a} in its answer, and candidate B {b} in its own."
DOES = {"pass": "does what it asks for", "fail": "does not do what it asks for"}
DIRECT = (
    "Both responses take up what the prompt asks, and neither leaves it aside altogether, so that the difference "
    "lies in how well each of them does it. Response {better} comes across as the more convincing one: read from "
    "beginning to end it does more of what was wanted, and in a way that whoever asked can use as it stands. Response "
    "{other} has its points as well, but weighed against the other one they are fewer, and what it lacks matters more "
    "than what it adds.\n\n[[{better}]]"
)
"""As long as what the prompts ask for, a sentence a rubric and a few to compare by, so that they cost as much."""


@dataclass(frozen=True, slots=True)
class Composed:
    """The content of a reply: prose, or the object of a JSON reply, or numbers."""

    prose: str = ""
    payload: dict[str, Any] | None = None
    chances: Mapping[str, float] = field(default_factory=dict)
    score: float | None = None

    @property
    def text(self) -> str:
        """The content as one text."""
        return self.prose if self.payload is None else orjson.dumps(self.payload).decode()


@dataclass(frozen=True)
class Case:
    """A request with the model that answers it."""

    judge: PlantedJudge
    author: Author
    request: ChatRequest

    def text(self, name: str) -> str:
        """Return the text of a fence, empty if missing."""
        return self.request.fences.get(name, "")

    def response(self, name: str = "RESPONSE") -> ResponseReading:
        """Return the reading of a response."""
        return self.judge.world.read_response(self.text(name))

    @cached_property
    def prompt(self) -> PromptReading:
        """The reading of the prompt."""
        return self.judge.world.read_prompt(self.text("PROMPT"))

    @cached_property
    def rubrics(self) -> list[RubricReading]:
        """The rubrics of the request."""
        return [self.judge.world.read_rubric(text) for _, text in self.request.rubrics]

    @cached_property
    def listed(self) -> list[RubricReading]:
        """The rubrics of a numbered list between the fences."""
        return [self.judge.world.read_rubric(text) for text in LINE.findall(self.text("RUBRIC"))]

    def met(self, rubrics: Sequence[RubricReading]) -> list[bool]:
        """Judge the response on rubrics."""
        return [self.judge.opinion(self.prompt, self.response(), rubric).met for rubric in rubrics]

    def compared(self, rubrics: Sequence[RubricReading]) -> list[RubricComparison]:
        """Judge both responses on rubrics."""
        a, b = self.response("RESPONSE_A"), self.response("RESPONSE_B")
        return [self.judge.compare(self.prompt, a, b, rubric) for rubric in rubrics]

    def rows(self, field: str, values: Sequence[Any]) -> list[dict[str, Any]]:
        """Return a row with a value for each rubric of the request."""
        ids = [name for name, _ in self.request.rubrics]
        return [{"rubric_id": name, field: value} for name, value in zip(ids, values, strict=True)]


def _compare(case: Case) -> Composed:
    judged = case.compared(case.rubrics)
    names = [name for name, _ in case.request.rubrics]
    rows = [
        {
            "rubric_id": name,
            "reason": REASON.format(a=DOES[row.a.value], b=DOES[row.b.value]),
            "candidate_a_verdict": row.a.value,
            "candidate_b_verdict": row.b.value,
            "better": row.better.value if row.better else "A",
        }
        for name, row in zip(names, judged, strict=True)
    ]
    overall = {"preferred_candidate": case.judge.overall(judged).value} if case.request.overall else {}
    return Composed(payload={"rubric_comparisons": rows, **overall})


def _direct(case: Case) -> Composed:
    judged = case.compared(case.listed)
    a, b = case.response("RESPONSE_A"), case.response("RESPONSE_B")
    side = case.judge.overall(judged) if judged else case.judge.prefer(case.prompt, a, b)
    return Composed(DIRECT.format(better=side.value, other=side.other().value))


def _score(case: Case) -> Composed:
    """Score a response in steps of 0.05: 0.6 and more where it meets the rubric, else below 0.45."""
    opinions = [case.judge.opinion(case.prompt, case.response(), rubric) for rubric in case.rubrics]
    scores = [round(20 * (PASS_SCORE * one.met + SCORE_SPREAD * one.degree)) / 20 for one in opinions]
    return Composed(payload={"rubric_scores": case.rows("score", scores)})


def _state(case: Case) -> Composed:
    """Answer statements; a chat gets the likelier word."""
    responses = {"A": case.response("RESPONSE_A"), "B": case.response("RESPONSE_B"), "": case.response()}
    chances = {name: case.judge.chance(text, case.prompt, responses) for name, text in case.request.statements}
    return Composed("Yes" if next(iter(chances.values()), 0.0) >= EVEN else "No", chances=chances)


def _induce(case: Case) -> Composed:
    rows = case.author.induce(case.text("PROMPT"), case.text("CHOSEN"), case.request.fences.get("REJECTED"))
    return Composed(payload={"contrastive_rubrics": rows})


def _write(case: Case) -> Composed:
    rubrics = case.judge.write_rubrics(case.prompt)
    return Composed(payload={"rubrics": rubrics, "rubric_note": "One complete, concrete answer."})


def _rephrase(case: Case) -> Composed:
    texts = [case.author.rephrase(case.text("PROMPT"), text) for _, text in case.request.rubrics]
    return Composed(payload={"rephrased_rubrics": case.rows("rubric", texts)})


def _same_criterion(case: Case) -> Composed:
    known, new = (
        dict(line.split(": ", 1) for line in case.text(name).splitlines() if ": " in line) for name in ("KNOWN", "NEW")
    )
    return Composed(payload={"same_as": case.author.same_criterion(known, new)})


def _decompose(case: Case) -> Composed:
    coarse = case.request.rubrics[0][1] if case.request.rubrics else ""
    return Composed(payload={"finer_rubrics": case.judge.write_rubrics(case.prompt, coarse)[:N_FINER]})


def _satisfy(case: Case) -> Composed:
    met = all(case.met(case.rubrics))
    return Composed(f"The response {'does' if met else 'does not do'} what R1 asks.\n\n[[{'YES' if met else 'NO'}]]")


def _filter(case: Case) -> Composed:
    new, *accepted = [rubric.digest if rubric.criterion is None else rubric.criterion for rubric in case.rubrics]
    same = new in accepted
    return Composed(f"R1 {'repeats another' if same else 'is new'}.\n\n[[{'OVERLAP' if same else 'NEW'}]]")


def _list(case: Case) -> Composed:
    rubrics = case.judge.write_rubrics(case.prompt)
    return Composed("\n".join(f"{number}. {text} [Hard Rule]" for number, text in enumerate(rubrics, 1)))


def _grade(case: Case) -> Composed:
    met = case.met(case.listed)
    score = MOST_GRADE * sum(met) / len(met) if met else MOST_GRADE / 2
    return Composed(f"It meets {sum(met)} of {len(met)}.\n\n[[{score:.1f}]]")


JUDGED = ("compare", "score", "direct")
ANSWERS: Mapping[str, Callable[[Case], Composed]] = {
    "compare": _compare,
    "direct": _direct,
    "score": _score,
    "state": _state,
    "reward": lambda case: Composed(score=round(case.judge.appeal(case.prompt, case.response()), 4)),
    "induce": _induce,
    "write": _write,
    "rephrase": _rephrase,
    "same criterion": _same_criterion,
    "propose": lambda case: Composed(payload={"proposed_rubrics": case.judge.write_rubrics(case.prompt)}),
    "decompose": _decompose,
    "satisfy": _satisfy,
    "filter": _filter,
    "list": _list,
    "grade": _grade,
    "probe": lambda case: Composed(case.author.probe(case.text("PROMPT"), case.text("CHOSEN"))),
    "respond": lambda case: Composed(case.author.respond(case.text("PROMPT"), case.request.key)),
}


class Simulator:
    """The simulated endpoint without HTTP: `answer(body)` returns the reply to a chat request.

    `world` replaces the planted world of the config's seed, `models` the served ones.
    """

    def __init__(
        self,
        config: SimConfig | None = None,
        world: World | None = None,
        models: Mapping[str, JudgeModel] = MODELS,
    ) -> None:
        self.config = config or SimConfig()
        self.world = world or World(self.config.seed)
        self.manner = manner_named(self.config.manner) if self.config.manner else None
        self.fingerprint = f"svr-sim-{draw_bytes('world', self.world.seed).hex()[:12]}"
        self._models = {
            name: (PlantedJudge(self.world, model), Author(self.world, model)) for name, model in models.items()
        }

    def answer(self, body: dict[str, Any]) -> dict[str, Any]:
        """Return the whole reply to a request body; `ApiError` where the endpoint would refuse it."""
        request = self.read(body)
        return completion(request, self.compose(request).text, fingerprint=self.fingerprint)

    def read(self, body: Any, shape: Shape = Shape.CHAT) -> ChatRequest:
        """Parse a request and check that its model is served and that it fits the context."""
        request = parse_request(body, shape)
        if request.model not in self._models and (request.model or shape is not Shape.REWARD):
            message = f"The model `{request.model}` does not exist or you do not have access to it."
            raise ApiError(404, message, "model_not_found")
        limit, tokens = self.config.context_tokens, request.prompt_tokens
        if tokens > limit:
            message = f"This model's maximum context length is {limit} tokens, but the messages hold {tokens} tokens."
            raise ApiError(400, message, "context_length_exceeded")
        return request

    def compose(self, request: ChatRequest) -> Composed:
        """Answer a request honestly: text inside the fences is judged and never obeyed."""
        judge, author = self._models[request.model or next(iter(self._models))]
        composed = ANSWERS[request.role](Case(judge, author, request))
        if self.manner is None or request.role not in JUDGED:
            return composed
        return Composed(self.manner.say(composed.prose, composed.payload, dict(request.rubrics)))
