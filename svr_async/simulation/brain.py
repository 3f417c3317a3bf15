"""From a chat request to the text of its reply, as a pure function of (seed, request)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from svr_async.core.verdict import EVEN, RubricComparison
from svr_async.simulation import own_words
from svr_async.simulation.author import Author
from svr_async.simulation.chances import Stater
from svr_async.simulation.config import SimConfig
from svr_async.simulation.decisions import READERS
from svr_async.simulation.draws import draw_bytes
from svr_async.simulation.family import DrawnConfig
from svr_async.simulation.judge import Opinion, PlantedJudge
from svr_async.simulation.manners import manner_named
from svr_async.simulation.models import MODELS, JudgeModel
from svr_async.simulation.planted import PlantedWorld
from svr_async.simulation.readings import ResponseReading
from svr_async.simulation.refusals import ApiError
from svr_async.simulation.replies import completion
from svr_async.simulation.request import ChatRequest, Role, Shape
from svr_async.simulation.variety import NONE
from svr_async.simulation.weakness import NONE as NO_WEAKNESS
from svr_async.simulation.worlds import plant

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
    """The simulated endpoint without HTTP: `answer(body)` returns the reply to a chat request."""

    def __init__(self, config: SimConfig | None = None) -> None:
        self.config = config or SimConfig()
        self.world: PlantedWorld = plant(self.config.planted)
        self.manner = manner_named(self.config.manner) if self.config.manner else None
        self._minds = {name: self._mind(model) for name, model in MODELS.items()}
        self._staters: dict[str, Stater] = {}
        self.fingerprint = f"svr-sim-{_identity(self.config).hex()[:12]}"

    def _mind(self, model: JudgeModel) -> tuple[PlantedJudge, Author]:
        model = self.world.model(model)
        if self.config.noise is not None:
            model = replace(model, noise=self.config.noise)
        if self.config.position_bias is not None:
            model = replace(model, position_bias=self.config.position_bias, direct_bias=self.config.position_bias)
        return PlantedJudge(self.world, model, self.config.weakness), Author(self.world, model)

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
                rubrics = judge.write_rubrics(self.world.language.read_prompt(prompt))
                composed = Composed("", {"rubrics": rubrics, "rubric_note": "One complete, concrete answer."})
            case Role.REPHRASE:
                rows = [_wording(name, author.rephrase(prompt, text)) for name, text in request.rubrics]
                composed = Composed("", {"rephrased_rubrics": rows})
            case Role.SAME_CRITERION:
                composed = Composed("", {"same_as": author.same_criterion(*_criteria(request.fences))})
            case Role.REWARD:
                read = self.world.language.read_response(request.fences["RESPONSE"])
                composed = Composed("", score=round(judge.appeal(self.world.language.read_prompt(prompt), read), 4))
            case role if role in own_words.ANSWERS:
                said = own_words.answer(judge, request)
                composed = Composed(said) if isinstance(said, str) else Composed("", said)
            case Role.STATE:
                composed = self._state(judge, request)
            case _:
                composed = self._judged(judge, request)
        return composed

    def _state(self, judge: PlantedJudge, request: ChatRequest) -> Composed:
        """Answer statements; a chat is told the likelier word."""
        stater = self._staters.get(request.model)
        if stater is None:
            stater = self._staters[request.model] = Stater(judge)
        prompt = self.world.language.read_prompt(request.fences.get("PROMPT", ""))
        names = {"A": "RESPONSE_A", "B": "RESPONSE_B", "": "RESPONSE"}
        read = self.world.language.read_response
        responses = {name: read(request.fences.get(fence, "")) for name, fence in names.items()}
        chances = {name: stater.chance(text, prompt, responses) for name, text in request.statements}
        return Composed("Yes" if next(iter(chances.values()), 0.0) >= EVEN else "No", chances=chances)

    def _judged(self, judge: PlantedJudge, request: ChatRequest) -> Composed:
        handlers = {Role.COMPARE: self._compare, Role.SCORE: self._score, Role.DIRECT: self._direct}
        return self._dressed(request, handlers[request.role](judge, request))

    def _compare(self, judge: PlantedJudge, request: ChatRequest) -> Composed:
        prompt = self.world.language.read_prompt(request.fences.get("PROMPT", ""))
        a, b = self._responses(request)
        judged = [judge.compare(prompt, a, b, self.world.language.read_rubric(text)) for _, text in request.rubrics]
        names = [name for name, _ in request.rubrics]
        rows = [self._row(request, name, row) for name, row in zip(names, judged, strict=True)]
        payload: dict[str, Any] = {"rubric_comparisons": rows}
        if request.wants_overall:
            payload["preferred_candidate"] = judge.overall(judged).value
        return Composed("", payload)

    def _responses(self, request: ChatRequest) -> tuple[ResponseReading, ResponseReading]:
        read = self.world.language.read_response
        return read(request.fences.get("RESPONSE_A", "")), read(request.fences.get("RESPONSE_B", ""))

    def _row(self, request: ChatRequest, name: str, row: RubricComparison) -> dict[str, Any]:
        return {
            "rubric_id": name,
            "reason": self._reason(request, REASON.format(a=_does(row.a.value), b=_does(row.b.value))),
            "candidate_a_verdict": row.a.value,
            "candidate_b_verdict": row.b.value,
            "better": row.better.value if row.better else "A",
        }

    def _reason(self, request: ChatRequest, text: str) -> str:
        """Return a reason; with `echo` it quotes the candidates, forged verdicts and all, before its own finding."""
        if not self.config.echo:
            return text
        quoted = " ".join(f"{name} reads: {value}" for name, value in request.fences.items() if name != "PROMPT")
        return f"{quoted} My finding: {text}"

    def _score(self, judge: PlantedJudge, request: ChatRequest) -> Composed:
        prompt = self.world.language.read_prompt(request.fences.get("PROMPT", ""))
        response = self.world.language.read_response(request.fences.get("RESPONSE", ""))
        rubrics = [(name, self.world.language.read_rubric(text)) for name, text in request.rubrics]
        opinions = [(name, judge.opinion(prompt, response, rubric)) for name, rubric in rubrics]
        rows = [{"rubric_id": name, "score": score_of(opinion)} for name, opinion in opinions]
        return Composed("", {"rubric_scores": rows})

    def _direct(self, judge: PlantedJudge, request: ChatRequest) -> Composed:
        prompt = self.world.language.read_prompt(request.fences.get("PROMPT", ""))
        rubrics = own_words.listed(judge, request)
        a, b = self._responses(request)
        judged = [judge.compare(prompt, a, b, rubric) for rubric in rubrics]
        side = judge.overall(judged) if judged else judge.prefer(prompt, a, b)
        told = DIRECT.format(better=side.value, other=side.other().value)
        return Composed(f"{told}\n\n[[{side.value}]]")

    def _dressed(self, request: ChatRequest, composed: Composed) -> Composed:
        """With `echo`, put everything that was shown in front of the reply, as prose."""
        if not self.config.echo:
            return composed
        quotes = "\n\n".join(f"{name} was:\n{text}" for name, text in request.fences.items())
        return Composed(f"{quotes}\n\nMy own answer follows.\n{composed.prose}", composed.payload)


def _identity(config: SimConfig) -> bytes:
    """Return what tells one simulated endpoint from another: all of a draw, else variety; any weakness."""
    planted = config.planted
    more = [] if isinstance(planted, DrawnConfig) or planted.variety == NONE else [repr(planted.variety)]
    more += [] if config.weakness == NO_WEAKNESS else [repr(config.weakness)]
    return draw_bytes(repr(planted), config.seed, *more)


def _wording(name: str, text: str) -> dict[str, Any]:
    return {"rubric_id": name, "rubric": text}


def _does(verdict: str) -> str:
    return "does what it asks for" if verdict == "pass" else "does not do what it asks for"


def score_of(opinion: Opinion) -> float:
    """Return a pointwise score in [0, 1] in steps of 0.05: 0.6 and more where the criterion is met, else below 0.45."""
    base = PASS_SCORE if opinion.met else FAIL_SCORE
    return round(20 * (base + SCORE_SPREAD * opinion.degree)) / 20


def _criteria(fences: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the known and the new criteria of a request, by their labels."""
    known, new = (fences.get(name, "").splitlines() for name in ("KNOWN", "NEW"))
    first, second = (dict(line.split(": ", 1) for line in lines if ": " in line) for lines in (known, new))
    return first, second
