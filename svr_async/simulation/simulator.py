"""From a request to its reply, as a pure function of (seed, request)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import orjson

from svr_async.core.verdict import EVEN, RubricComparison
from svr_async.simulation.author import Author
from svr_async.simulation.config import WITHOUT_ANSWER, SimConfig
from svr_async.simulation.judge import MODELS, JudgeModel, PlantedJudge
from svr_async.simulation.manners import manner_named
from svr_async.simulation.wire import (
    ApiError,
    ChatRequest,
    Shape,
    completion,
    numbers_reply,
    parse_request,
    token_logprobs,
)
from svr_async.simulation.world import PromptReading, ResponseReading, RubricReading, World, draw_bytes

Content = str | dict[str, Any]

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


@dataclass(frozen=True)
class Case:
    """A request with the model that answers it; each role has a method. Text inside fences is never obeyed."""

    judge: PlantedJudge
    author: Author
    request: ChatRequest

    def _text(self, name: str) -> str:
        return self.request.fences.get(name, "")

    def _response(self, name: str = "RESPONSE") -> ResponseReading:
        return self.judge.world.read_response(self._text(name))

    def _listed(self) -> list[RubricReading]:
        """Return the rubrics of a numbered list between the fences."""
        return [self.judge.world.read_rubric(text) for text in LINE.findall(self._text("RUBRIC"))]

    @cached_property
    def _prompt(self) -> PromptReading:
        return self.judge.world.read_prompt(self._text("PROMPT"))

    @cached_property
    def _rubrics(self) -> list[RubricReading]:
        return [self.judge.world.read_rubric(text) for _, text in self.request.rubrics]

    def _met(self, rubrics: Sequence[RubricReading]) -> list[bool]:
        return [self.judge.opinion(self._prompt, self._response(), rubric).met for rubric in rubrics]

    def _compared(self, rubrics: Sequence[RubricReading]) -> list[RubricComparison]:
        a, b = self._response("RESPONSE_A"), self._response("RESPONSE_B")
        return [self.judge.compare(self._prompt, a, b, rubric) for rubric in rubrics]

    def _rows(self, values: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Return values under the ids of the request's rubrics."""
        ids = [name for name, _ in self.request.rubrics]
        return [{"rubric_id": name, **value} for name, value in zip(ids, values, strict=True)]

    def compare(self) -> Content:
        """Judge both responses on each rubric, and name the better one if asked."""
        judged = self._compared(self._rubrics)
        rows = [
            {
                "reason": REASON.format(a=DOES[row.a.value], b=DOES[row.b.value]),
                "candidate_a_verdict": row.a.value,
                "candidate_b_verdict": row.b.value,
                "better": row.better.value if row.better else "A",
            }
            for row in judged
        ]
        overall = {"preferred_candidate": self.judge.overall(judged).value} if self.request.overall else {}
        return {"rubric_comparisons": self._rows(rows), **overall}

    def direct(self) -> Content:
        """Name the better response, by a numbered list of rubrics if there is one."""
        judged = self._compared(self._listed())
        a, b = self._response("RESPONSE_A"), self._response("RESPONSE_B")
        side = self.judge.overall(judged) if judged else self.judge.prefer(self._prompt, a, b)
        return DIRECT.format(better=side.value, other=side.other().value)

    def score(self) -> Content:
        """Score a response in steps of 0.05: 0.6 and more where it meets the rubric, else below 0.45."""
        opinions = [self.judge.opinion(self._prompt, self._response(), rubric) for rubric in self._rubrics]
        scores = [round(20 * (PASS_SCORE * one.met + SCORE_SPREAD * one.degree)) / 20 for one in opinions]
        return {"rubric_scores": self._rows([{"score": score} for score in scores])}

    @cached_property
    def chances(self) -> dict[str, float]:
        """The probability of each statement, by name."""
        responses = {"A": self._response("RESPONSE_A"), "B": self._response("RESPONSE_B"), "": self._response()}
        return {name: self.judge.chance(text, self._prompt, responses) for name, text in self.request.statements}

    def state(self) -> Content:
        """Return the likelier word for a statement."""
        return "Yes" if next(iter(self.chances.values())) >= EVEN else "No"

    def reward(self) -> float:
        """Score a response without rubrics."""
        return round(self.judge.appeal(self._prompt, self._response()), 4)

    def induce(self) -> Content:
        """Propose rubrics for a pair."""
        rows = self.author.induce(self._text("PROMPT"), self._text("CHOSEN"), self.request.fences.get("REJECTED"))
        return {"contrastive_rubrics": rows}

    def write(self) -> Content:
        """Write rubrics from the prompt, and a note."""
        rubrics = self.judge.write_rubrics(self._prompt)
        return {"rubrics": rubrics, "rubric_note": "One complete, concrete answer."}

    def rephrase(self) -> Content:
        """Adapt rubrics to the prompt."""
        texts = [self.author.rephrase(self._text("PROMPT"), text) for _, text in self.request.rubrics]
        return {"rephrased_rubrics": self._rows([{"rubric": text} for text in texts])}

    def same_criterion(self) -> Content:
        """Say which listed rubric each new one repeats."""
        known, new = (
            dict(line.split(": ", 1) for line in self._text(name).splitlines() if ": " in line)
            for name in ("KNOWN", "NEW")
        )
        return {"same_as": self.author.same_criterion(known, new)}

    def propose(self) -> Content:
        """Write rubrics from the prompt (RRD)."""
        return {"proposed_rubrics": self.judge.write_rubrics(self._prompt)}

    def decompose(self) -> Content:
        """Write finer rubrics for a coarse one (RRD)."""
        coarse = self.request.rubrics[0][1] if self.request.rubrics else ""
        return {"finer_rubrics": self.judge.write_rubrics(self._prompt, coarse)[:N_FINER]}

    def satisfy(self) -> Content:
        """Say whether a response satisfies a rubric (RRD)."""
        met = all(self._met(self._rubrics))
        does, word = ("does", "YES") if met else ("does not do", "NO")
        return f"The response {does} what R1 asks.\n\n[[{word}]]"

    def overlap(self) -> Content:
        """Say whether the first rubric repeats another (RRD)."""
        new, *accepted = [rubric.digest if rubric.criterion is None else rubric.criterion for rubric in self._rubrics]
        says, word = ("repeats another", "OVERLAP") if new in accepted else ("is new", "NEW")
        return f"R1 {says}.\n\n[[{word}]]"

    def number(self) -> Content:
        """Write a numbered list of rubrics (Rubric-ARM)."""
        rubrics = self.judge.write_rubrics(self._prompt)
        return "\n".join(f"{number}. {text} [Hard Rule]" for number, text in enumerate(rubrics, 1))

    def grade(self) -> Content:
        """Grade a response from 0 to 10 by a numbered list (Rubric-ARROW)."""
        met = self._met(self._listed())
        grade = MOST_GRADE * sum(met) / len(met) if met else MOST_GRADE / 2
        return f"It meets {sum(met)} of {len(met)}.\n\n[[{grade:.1f}]]"

    def probe(self) -> Content:
        """Write a worse response close to the chosen one."""
        return self.author.probe(self._text("PROMPT"), self._text("CHOSEN"))

    def respond(self) -> Content:
        """Answer the prompt."""
        return self.author.respond(self._text("PROMPT"), self.request.key)


JUDGED = ("compare", "score", "direct")


class Simulator:
    """The simulated endpoint without HTTP: `answer(body)` returns the reply to a chat request.

    `world` replaces the planted world of the config's seed, `models` the served ones.
    """

    def __init__(
        self, config: SimConfig | None = None, world: World | None = None, models: Mapping[str, JudgeModel] = MODELS
    ) -> None:
        self.config = config or SimConfig()
        self.world = world or World(self.config.seed)
        self.manner = manner_named(self.config.manner) if self.config.manner else None
        self.fingerprint = f"svr-sim-{draw_bytes('world', self.world.seed).hex()[:12]}"
        self._models = {
            name: (PlantedJudge(self.world, model), Author(self.world, model)) for name, model in models.items()
        }

    def answer(self, body: dict[str, Any]) -> dict[str, Any]:
        """Return the whole reply to a chat request; `ApiError` where the endpoint would refuse it."""
        return self.reply(self.read(body))

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

    def reply(self, request: ChatRequest, attempt: int = 0, fault: str = "") -> dict[str, Any]:
        """Return the reply in the shape of its request."""
        case = Case(*self._models[request.model or next(iter(self._models))], request)
        answered = fault not in WITHOUT_ANSWER
        chances = case.chances if answered else {}
        if request.shape is not Shape.CHAT:
            score = case.reward() if answered and request.shape is Shape.REWARD else None
            return numbers_reply(request, chances, score, self.fingerprint, attempt)
        text = "" if fault in {"empty", "refused"} else self._text(case)
        reply = completion(request, text, self.fingerprint, attempt, fault)
        if chances:
            reply["choices"][0]["logprobs"] = token_logprobs(next(iter(chances.values())))
        return reply

    def _text(self, case: Case) -> str:
        """Answer a request honestly, in the manner of the judge."""
        content: Content = getattr(case, case.request.role)()
        if self.manner is not None and case.request.role in JUDGED:
            return self.manner.say(content, dict(case.request.rubrics))
        return content if isinstance(content, str) else orjson.dumps(content).decode()
