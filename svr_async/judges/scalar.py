"""The scalar reward model as a judge: each response has one score, whatever it is compared with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NoReturn

import orjson

from svr_async.core.integrity import Marks
from svr_async.core.pair import Presentation, Prompt
from svr_async.core.rubric import Rubric
from svr_async.core.verdict import is_number
from svr_async.engine.request import Question, ReplyRejectedError, Request
from svr_async.errors import UsageError
from svr_async.judges.material import clean
from svr_async.judges.model import ask_within, marks_of, without_value
from svr_async.judges.profile import Profile
from svr_async.judges.protocol import Answer, Comparisons, Preference, WrittenRubrics

if TYPE_CHECKING:
    from svr_async.engine.engine import CallEngine

LARGEST_SCORE = 1e300  # the difference of two scores is then still a number
DIRECT = "it gives a response a score and reads no rubrics: ask it with --method vanilla"


class OnlyScores:
    """What a judge that scores responses, and reads no rubrics, says to all else: one line that refuses it."""

    __slots__ = ()

    @property
    def name(self) -> str:
        """Who it is; a judge has its own."""
        raise NotImplementedError

    async def write_rubrics(self, prompt: Prompt) -> Answer[WrittenRubrics]:  # noqa: ARG002
        """Refuse: it writes nothing."""
        self._refuse()

    async def compare(
        self,
        shown: Presentation,  # noqa: ARG002
        rubrics: Sequence[Rubric],  # noqa: ARG002
        *,
        overall: bool,  # noqa: ARG002
        note: str = "",  # noqa: ARG002
    ) -> Answer[Comparisons]:
        """Refuse: it reads no rubrics."""
        self._refuse()

    async def score(self, prompt: Prompt, response: str, rubrics: Sequence[Rubric]) -> Answer[Mapping[str, float]]:  # noqa: ARG002
        """Refuse: it reads no rubrics."""
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise UsageError(f"the judge {self.name} cannot judge by rubrics", hint=DIRECT)


@dataclass(frozen=True, slots=True)
class ScalarJudge(OnlyScores):
    """An endpoint that scores responses: the margin is the difference of two scores, equal ones are a tie.

    A request holds one prompt and one response, so the cache has the score of a response for all its pairs and orders.
    """

    engine: CallEngine
    profile: Profile

    @property
    def name(self) -> str:
        """The profile's name."""
        return self.profile.name

    @property
    def label(self) -> str:
        """How its results are labelled."""
        return f"{self.name} (scalar reward model)"

    @property
    def marks(self) -> Marks:
        """None, but for replies of `svr sim`."""
        return marks_of(self.engine)

    async def prefer(self, shown: Presentation) -> Answer[Preference]:
        """Score both responses; the reason tells the scores."""
        a = await self._scored(shown.prompt, shown.response_a)
        b = await self._scored(shown.prompt, shown.response_b)
        requests = tuple(dict.fromkeys(a.requests + b.requests))
        if a.value is None or b.value is None:
            lost: Answer[Any] = a if a.value is None else b
            return replace(lost, requests=requests)
        return Answer(value=by_scores(a.value, b.value), requests=requests)

    async def _scored(self, prompt: Prompt, response: str) -> Answer[float]:
        done = await ask_within(self.engine, self.profile, scoring(self.profile, prompt, response))
        return without_value(done) if done.value is None else Answer(value=done.value, requests=(done.key,))


def by_scores(a: float, b: float) -> Preference:
    """Return the preference that two scores make: their difference."""
    return Preference(margin=a - b, reason=f"Response A scores {a:.6g}, response B {b:.6g}.", scores=(a, b))


def scoring(profile: Profile, prompt: Prompt, response: str) -> Question[float]:
    """Write the question for the score of a response: the prompt as a conversation, and the response as its end."""
    turns = tuple((turn.role, clean(turn.content)) for turn in prompt)
    request = Request(
        endpoint=profile.endpoint,
        model=profile.model,
        messages=(*turns, ("assistant", clean(response))),
        max_tokens=1,
        max_tokens_field=profile.max_tokens_field,
        params=profile.params(structured=False),
        wire=profile.spoken,
    )
    return Question(request=request, parse=read_score, placeholder=lambda: float(len(response)), expected_tokens=0)


def read_score(text: str) -> float:
    """Return the score of a reply; ReplyRejectedError where there is none."""
    try:
        found: Any = orjson.loads(text)
    except orjson.JSONDecodeError:
        found = None
    score = found.get("score") if isinstance(found, dict) else None
    if not is_number(score) or not abs(score) <= LARGEST_SCORE:
        raise ReplyRejectedError("The reply tells no score.")
    return float(score)
