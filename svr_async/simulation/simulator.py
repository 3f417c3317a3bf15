"""From a request to its reply, as a pure function of (seed, request)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import orjson

from svr_async.core.verdict import EVEN, RubricComparison
from svr_async.errors import ConfigError
from svr_async.simulation.judge import MODELS, Opinion, PlantedJudge
from svr_async.simulation.manners import MANNERS
from svr_async.simulation.wire import ApiError, ChatRequest, Json, Shape, completion, parse_request, reply_to
from svr_async.simulation.world import PromptReading, ResponseReading, RubricReading, World, draw_bytes, uniform

Content = str | Json

FAULTS = ("429", "500", "cut", "empty")  # "cut": the connection closes in the middle; "empty": no content
LINE = re.compile(r"^\d+\. (.*?)(?: \[(?:Hard Rule|Principle)\])?$", re.MULTILINE)
REASON = "Held against this rubric as it is worded, candidate A {a} in its answer, and candidate B {b} in its own."
DOES = {"pass": "does what it asks for", "fail": "does not do what it asks for"}
DIRECT = (
    "Both responses take up what the prompt asks, and neither leaves it aside, so that the difference lies in how well "
    "each of them does it. Response {better} is the more convincing one: read from start to end it does more of what "
    "was wanted, and in a way that can be used as it stands. Response {other} has its points as well, but weighed "
    "against the other they are fewer, and what it lacks matters more than what it adds.\n\n[[{better}]]"
)  # as long as what the prompts ask for


@dataclass(frozen=True, slots=True, kw_only=True)
class SimConfig:
    """Everything about a simulated endpoint; the defaults are a flawless one that answers at once.

    `manner` is the form of replies (`simulation.manners`), `latency_ms` the median for a reply of 256 tokens, `rpm` a
    limit of calls a minute (0: any). `fault_rate` of the first `faulty_attempts` at each request have one of `faults`.
    """

    seed: int = 0
    manner: str = ""
    port: int = 0
    latency_ms: float = 0.0
    rpm: float = 0.0
    fault_rate: float = 0.0
    faults: tuple[str, ...] = FAULTS
    faulty_attempts: int = 2

    def fault(self, key: str, attempt: int) -> str:
        """Return the fault of attempt number `attempt` (from 0) at a request, "" without a fault."""
        drawn = draw_bytes(self.seed, "fault", key, attempt)
        if uniform(drawn, 0) >= self.fault_rate:
            return ""
        fault = self.faults[int(uniform(drawn, 1) * len(self.faults))]
        # A client asks only once more after an empty reply, so the last of the faulty attempts is not empty.
        return fault if attempt < self.faulty_attempts - (fault == "empty") else ""


@dataclass(frozen=True)
class _Case:
    """A request with the model that answers it. Text inside fences is never obeyed."""

    judge: PlantedJudge
    request: ChatRequest

    def text(self, name: str) -> str:
        return self.request.fences.get(name, "")

    def response(self, name: str = "RESPONSE") -> ResponseReading:
        return self.judge.world.read_response(self.text(name))

    @cached_property
    def prompt(self) -> PromptReading:
        return self.judge.world.read_prompt(self.text("PROMPT"))

    @cached_property
    def rubrics(self) -> list[RubricReading]:
        """Those of the request, or of a numbered list between the fences."""
        texts = [text for _, text in self.request.rubrics] or LINE.findall(self.text("RUBRIC"))
        return [self.judge.world.read_rubric(text) for text in texts]

    def rows(self, values: Iterable[Mapping[str, Any]]) -> list[Json]:
        """Return values under the ids of the request's rubrics."""
        return [{"rubric_id": name, **value} for (name, _), value in zip(self.request.rubrics, values, strict=True)]

    def opinions(self) -> list[Opinion]:
        return [self.judge.opinion(self.prompt, self.response(), rubric) for rubric in self.rubrics]

    def compared(self) -> list[RubricComparison]:
        a, b = self.response("RESPONSE_A"), self.response("RESPONSE_B")
        return [self.judge.compare(self.prompt, a, b, rubric) for rubric in self.rubrics]

    def chances(self) -> dict[str, float]:
        """Return the probability of each statement, by name."""
        responses = {"A": self.response("RESPONSE_A"), "B": self.response("RESPONSE_B"), "response": self.response()}
        return {name: self.judge.chance(text, self.prompt, responses) for name, text in self.request.statements}


def compare(case: _Case) -> Content:
    """Judge both responses on each rubric, and name the better one if asked."""
    judged = case.compared()
    rows = [
        {
            "reason": REASON.format(a=DOES[row.a.value], b=DOES[row.b.value]),
            "candidate_a_verdict": row.a.value,
            "candidate_b_verdict": row.b.value,
            "better": row.better.value if row.better else "A",
        }
        for row in judged
    ]
    named = "preferred_candidate" in case.request.asks
    overall = {"preferred_candidate": case.judge.overall(judged).value} if named else {}
    return {"rubric_comparisons": case.rows(rows), **overall}


def score(case: _Case) -> Content:
    """Score a response in steps of 0.05: 0.6 and more where it meets the rubric, else below 0.45."""
    scores = [round(20 * (0.6 * one.met + 0.25 * one.degree)) / 20 for one in case.opinions()]
    return {"rubric_scores": case.rows({"score": score} for score in scores)}


def direct(case: _Case) -> Content:
    """Name the better response, by a numbered list of rubrics if there is one."""
    judged, a, b = case.compared(), case.response("RESPONSE_A"), case.response("RESPONSE_B")
    side = case.judge.overall(judged) if judged else case.judge.prefer(case.prompt, a, b)
    return DIRECT.format(better=side.value, other=side.other().value)


def same_criterion(case: _Case) -> Content:
    """Say which listed rubric each new one repeats."""
    listed = [
        [line.split(": ", 1) for line in case.text(name).splitlines() if ": " in line] for name in ("KNOWN", "NEW")
    ]
    return {"same_as": case.judge.same_criterion(*map(dict, listed))}


def overlap(case: _Case) -> Content:
    """Say whether the first rubric repeats another (RRD)."""
    new, *accepted = [rubric.digest if rubric.criterion is None else rubric.criterion for rubric in case.rubrics]
    return "[[OVERLAP]]" if new in accepted else "[[NEW]]"


def grade(case: _Case) -> Content:
    """Grade a response from 0 to 10 by its share of met rubrics (Rubric-ARROW)."""
    met = [one.met for one in case.opinions()] or [True, False]
    return f"[[{10 * sum(met) / len(met):.1f}]]"


REPLIES: Mapping[str, Callable[[_Case], Content]] = {
    "rubric_comparisons": compare,
    "rubric_scores": score,
    "contrastive_rubrics": lambda case: {
        "contrastive_rubrics": case.judge.induce(*map(case.text, ("PROMPT", "CHOSEN", "REJECTED")))
    },
    "rubric_note": lambda case: {
        "rubrics": case.judge.write_rubrics(case.prompt),
        "rubric_note": "One complete, concrete answer.",
    },
    "rephrased_rubrics": lambda case: {
        "rephrased_rubrics": case.rows({"rubric": case.judge.rephrase(case.prompt, one.text)} for one in case.rubrics)
    },
    '"same_as"': same_criterion,
    "proposed_rubrics": lambda case: {"proposed_rubrics": case.judge.write_rubrics(case.prompt)},
    "finer_rubrics": lambda case: {
        "finer_rubrics": case.judge.write_rubrics(case.prompt, *[one.text for one in case.rubrics])[:2]
    },
    "[[YES": lambda case: "[[YES]]" if all(one.met for one in case.opinions()) else "[[NO]]",
    "[[OVERLAP": overlap,
    "[[10]]": grade,
    "[Hard Rule]": lambda case: "\n".join(
        f"{place}. {text} [Hard Rule]" for place, text in enumerate(case.judge.write_rubrics(case.prompt), 1)
    ),
    "[[A]]": direct,
}
"""What writes a reply, by a text of the instructions that asks for it; the first that occurs counts."""
JUDGED = (compare, score, direct)  # what follows the manner


class Simulator:
    """The simulated endpoint without HTTP: `answer(body)` returns the reply to a chat request.

    `judges` by name replace those of the planted world of the config's seed.
    """

    def __init__(self, config: SimConfig | None = None, judges: Mapping[str, PlantedJudge] | None = None) -> None:
        self.config = config or SimConfig()
        if self.config.manner not in ("", *MANNERS):
            raise ConfigError(f"--manner {self.config.manner} is unknown", hint=f"one of {', '.join(MANNERS)}")
        world = World(self.config.seed)
        self.judges = judges or {name: PlantedJudge(world, model) for name, model in MODELS.items()}
        self.fingerprint = f"svr-sim-{draw_bytes('world', self.config.seed).hex()[:12]}"
        self._manner = MANNERS.get(self.config.manner)

    def answer(self, body: Json) -> Json:
        """Return the whole reply to a chat request; `ApiError` where the endpoint would refuse it."""
        return self.reply(self.read(body))

    def read(self, body: Any, shape: Shape = Shape.CHAT) -> ChatRequest:
        """Parse a request and check that its model is served; a reward model needs no name."""
        request = parse_request(body, shape)
        if request.model not in self.judges and (request.model or shape is not Shape.REWARD):
            message = f"The model `{request.model}` does not exist or you do not have access to it."
            raise ApiError(404, message, "model_not_found")
        return request

    def reply(self, request: ChatRequest, attempt: int = 0, *, empty: bool = False) -> Json:
        """Return the reply in the shape of its request; an empty one has no answer."""
        case = _Case(self.judges[request.model or next(iter(self.judges))], request)
        chances = {} if empty else case.chances()
        if request.shape is Shape.DECISIONS:
            answers = [{"type": "predicate", "name": name, "probability": chance} for name, chance in chances.items()]
            return reply_to(request, "", self.fingerprint, attempt, answers=answers)
        if request.shape is Shape.REWARD:
            score = round(case.judge.appeal(case.prompt, case.response()), 4)
            rows = [] if empty else [{"index": 0, "probs": [score]}]
            return reply_to(request, "", self.fingerprint, attempt, data=rows)
        chance = next(iter(chances.values()), None)
        text = "" if empty else self._text(case) if chance is None else "Yes" if chance >= EVEN else "No"
        return completion(request, text, self.fingerprint, attempt, chance)

    def _text(self, case: _Case) -> str:
        """Answer a request honestly, judgements in the manner of the judge."""
        write = next((write for text, write in REPLIES.items() if text in case.request.asks), None)
        if write is None and "CHOSEN" in case.request.fences:
            return case.judge.probe(case.text("PROMPT"), case.text("CHOSEN"))
        if write is None:
            return case.judge.respond(case.text("PROMPT"), case.request.key)
        content = write(case)
        if self._manner is not None and write in JUDGED:
            return self._manner.say(content, dict(case.request.rubrics))
        return content if isinstance(content, str) else orjson.dumps(content).decode()
