"""From a request to the content of its reply, as a pure function of (seed, request)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from svr_async.core.verdict import EVEN, RubricComparison
from svr_async.simulation.author import Author
from svr_async.simulation.config import SimConfig
from svr_async.simulation.judge import MODELS, JudgeModel, Opinion, PlantedJudge
from svr_async.simulation.manners import manner_named
from svr_async.simulation.refusals import ApiError
from svr_async.simulation.request import ChatRequest, Role, Shape
from svr_async.simulation.weakness import WeakJudge
from svr_async.simulation.wires import READERS, completion
from svr_async.simulation.world import PlantedWorld, ResponseReading, RubricReading, World, draw_bytes

MOST_GRADE = 10.0
LINE = re.compile(r"^\d+\. (.*?)(?: \[(?:Hard Rule|Principle)\])?$", re.MULTILINE)
N_FINER = 2

Said = str | dict[str, Any]
"""A text, or the object of a JSON reply."""


def answer_in_words(judge: PlantedJudge, request: ChatRequest) -> Said:
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


JUDGED = (Role.COMPARE, Role.SCORE, Role.DIRECT)
PASS_SCORE, FAIL_SCORE = 0.6, 0.0
SCORE_SPREAD = 0.25
REASON = "Held against this rubric as it is worded, candidate A {a} in its answer, and candidate B {b} in its own."
DIRECT = (
    "Both responses take up what the prompt asks, and neither leaves it aside altogether, so that the difference "
    "lies in how well each of them does it. Response {better} comes across as the more convincing one: read from "
    "beginning to end it does more of what was wanted, and in a way that whoever asked can use as it stands. Response "
    "{other} has its points as well, but weighed against the other one they are fewer, and what it lacks matters more "
    "than what it adds."
)
"""As long as what the prompts ask for, a sentence a rubric and a few to compare by, so that they cost as much."""


@dataclass(frozen=True, slots=True)
class Composed:
    """A reply before it is put into words: prose, then a JSON object where the role asks for one; or numbers."""

    prose: str
    payload: dict[str, Any] | None = None
    chances: Mapping[str, float] = field(default_factory=dict)
    score: float | None = None

    @property
    def text(self) -> str:
        """Return the content of the reply."""
        if self.payload is None:
            return self.prose
        return self.prose + orjson.dumps(self.payload).decode()


class Simulator:
    """The simulated endpoint without HTTP: `answer(body)` returns the reply to a chat request.

    `world` replaces the planted world of the config's seed, `models` the served ones.
    """

    def __init__(
        self,
        config: SimConfig | None = None,
        world: PlantedWorld | None = None,
        models: Mapping[str, JudgeModel] = MODELS,
    ) -> None:
        self.config = config or SimConfig()
        self.world: PlantedWorld = world or World(self.config.planted)
        self.manner = manner_named(self.config.manner) if self.config.manner else None
        self._minds = {name: self._mind(model) for name, model in models.items()}
        self.fingerprint = f"svr-sim-{draw_bytes(repr(self.config.planted), self.world.seed).hex()[:12]}"

    def _mind(self, model: JudgeModel) -> tuple[PlantedJudge, Author]:
        if self.config.noise is not None:
            model = replace(model, noise=self.config.noise)
        if self.config.position_bias is not None:
            model = replace(model, position_bias=self.config.position_bias, direct_bias=self.config.position_bias)
        return WeakJudge(self.world, model, self.config.weakness), Author(self.world, model)

    def answer(self, body: dict[str, Any]) -> dict[str, Any]:
        """Return the whole reply to a request body; `ApiError` where the endpoint would refuse it."""
        request = self.read(body)
        texts = [self.compose(request, index).text for index in range(request.n)]
        return completion(request, texts, fingerprint=self.fingerprint)

    def read(self, body: Any, shape: Shape = Shape.CHAT) -> ChatRequest:
        """Parse a request and check that its model is served and that it fits the context."""
        request = READERS[shape](body)
        if request.model not in self._minds:
            raise ApiError.no_model(request.model)
        if request.prompt_tokens > self.config.context_tokens:
            raise ApiError.too_long(self.config.context_tokens, request.prompt_tokens)
        return request

    def compose(self, request: ChatRequest, index: int = 0) -> Composed:
        """Answer a request honestly: text inside the fences is judged and never obeyed."""
        composed = self._answer(request, index)
        if self.manner is None or request.role not in JUDGED:
            return composed
        return Composed(self.manner.say(composed.prose, composed.payload, request.rubrics))

    def _answer(self, request: ChatRequest, index: int) -> Composed:
        judge, author = self._minds[request.model]
        prompt, chosen = request.fences.get("PROMPT", ""), request.fences.get("CHOSEN", "")
        match request.role:
            case Role.RESPOND:
                composed = Composed(author.respond(prompt, request.key, index))
            case Role.PROBE:
                composed = Composed(author.probe(prompt, chosen))
            case Role.INDUCE:
                rows = author.induce(prompt, chosen, request.fences.get("REJECTED"))
                composed = Composed("", {"contrastive_rubrics": rows})
            case Role.WRITE:
                rubrics = judge.write_rubrics(self.world.read_prompt(prompt))
                composed = Composed("", {"rubrics": rubrics, "rubric_note": "One complete, concrete answer."})
            case Role.REPHRASE:
                rows = [_wording(name, author.rephrase(prompt, text)) for name, text in request.rubrics]
                composed = Composed("", {"rephrased_rubrics": rows})
            case Role.SAME_CRITERION:
                known, new = (_labelled(request.fences.get(name, "")) for name in ("KNOWN", "NEW"))
                composed = Composed("", {"same_as": author.same_criterion(known, new)})
            case Role.REWARD:
                read = self.world.read_response(request.fences["RESPONSE"])
                composed = Composed("", score=round(judge.appeal(self.world.read_prompt(prompt), read), 4))
            case role if role in ANSWERS:
                said = answer_in_words(judge, request)
                composed = Composed(said) if isinstance(said, str) else Composed("", said)
            case Role.STATE:
                composed = self._state(judge, request)
            case _:
                composed = self._judged(judge, request)
        return composed

    def _state(self, judge: PlantedJudge, request: ChatRequest) -> Composed:
        """Answer statements; a chat is told the likelier word."""
        prompt = self.world.read_prompt(request.fences.get("PROMPT", ""))
        names = {"A": "RESPONSE_A", "B": "RESPONSE_B", "": "RESPONSE"}
        read = self.world.read_response
        responses = {name: read(request.fences.get(fence, "")) for name, fence in names.items()}
        chances = {name: judge.chance(text, prompt, responses) for name, text in request.statements}
        return Composed("Yes" if next(iter(chances.values()), 0.0) >= EVEN else "No", chances=chances)

    def _judged(self, judge: PlantedJudge, request: ChatRequest) -> Composed:
        handlers = {Role.COMPARE: self._compare, Role.SCORE: self._score, Role.DIRECT: self._direct}
        return handlers[request.role](judge, request)

    def _compare(self, judge: PlantedJudge, request: ChatRequest) -> Composed:
        prompt = self.world.read_prompt(request.fences.get("PROMPT", ""))
        a, b = self._responses(request)
        judged = [judge.compare(prompt, a, b, self.world.read_rubric(text)) for _, text in request.rubrics]
        names = [name for name, _ in request.rubrics]
        rows = [_row(name, row) for name, row in zip(names, judged, strict=True)]
        payload: dict[str, Any] = {"rubric_comparisons": rows}
        if request.wants_overall:
            payload["preferred_candidate"] = judge.overall(judged).value
        return Composed("", payload)

    def _responses(self, request: ChatRequest) -> tuple[ResponseReading, ResponseReading]:
        read = self.world.read_response
        return read(request.fences.get("RESPONSE_A", "")), read(request.fences.get("RESPONSE_B", ""))

    def _score(self, judge: PlantedJudge, request: ChatRequest) -> Composed:
        prompt = self.world.read_prompt(request.fences.get("PROMPT", ""))
        response = self.world.read_response(request.fences.get("RESPONSE", ""))
        rubrics = [(name, self.world.read_rubric(text)) for name, text in request.rubrics]
        opinions = [(name, judge.opinion(prompt, response, rubric)) for name, rubric in rubrics]
        rows = [{"rubric_id": name, "score": score_of(opinion)} for name, opinion in opinions]
        return Composed("", {"rubric_scores": rows})

    def _direct(self, judge: PlantedJudge, request: ChatRequest) -> Composed:
        prompt = self.world.read_prompt(request.fences.get("PROMPT", ""))
        rubrics = listed(judge, request)
        a, b = self._responses(request)
        judged = [judge.compare(prompt, a, b, rubric) for rubric in rubrics]
        side = judge.overall(judged) if judged else judge.prefer(prompt, a, b)
        told = DIRECT.format(better=side.value, other=side.other().value)
        return Composed(f"{told}\n\n[[{side.value}]]")


def _row(name: str, row: RubricComparison) -> dict[str, Any]:
    return {
        "rubric_id": name,
        "reason": REASON.format(a=_does(row.a.value), b=_does(row.b.value)),
        "candidate_a_verdict": row.a.value,
        "candidate_b_verdict": row.b.value,
        "better": row.better.value if row.better else "A",
    }


def _wording(name: str, text: str) -> dict[str, Any]:
    return {"rubric_id": name, "rubric": text}


def _does(verdict: str) -> str:
    return "does what it asks for" if verdict == "pass" else "does not do what it asks for"


def score_of(opinion: Opinion) -> float:
    """Return a pointwise score in [0, 1] in steps of 0.05: 0.6 and more where the criterion is met, else below 0.45."""
    base = PASS_SCORE if opinion.met else FAIL_SCORE
    return round(20 * (base + SCORE_SPREAD * opinion.degree)) / 20


def _labelled(lines: str) -> dict[str, str]:
    """Return the criteria of lines such as `K1: text` by their labels."""
    return dict(line.split(": ", 1) for line in lines.splitlines() if ": " in line)
