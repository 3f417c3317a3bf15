"""Judges that only score: scalar reward models. Each response has one score, whatever it is compared with."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from svr_async.core.integrity import Marks
from svr_async.core.pair import Presentation, Prompt
from svr_async.engine.request import Question, ReplyRejectedError
from svr_async.judges.model import answered, marks_of
from svr_async.judges.profiles import Profile
from svr_async.judges.protocol import Answer, Judge, Preference
from svr_async.judges.templates import clean

if TYPE_CHECKING:
    from svr_async.engine.engine import CallEngine

Score = Annotated[float, msgspec.Meta(ge=-1e300, le=1e300)]
"""A score; the difference of two is still a number."""


class _ScoreReply(msgspec.Struct):
    score: Score


@dataclass(frozen=True, slots=True)
class ScalarJudge(Judge):
    """An endpoint that scores responses: the margin is the difference of two scores, and equal scores are a tie.

    A request holds one prompt and one response, so the cache serves a response's score to all its pairs and orders.
    """

    engine: CallEngine
    profile: Profile

    @property
    def name(self) -> str:
        """The profile's name."""
        return self.profile.name

    @property
    def label(self) -> str:
        """The label of results."""
        return f"{self.name} (scalar reward model)"

    @property
    def marks(self) -> Marks:
        """Empty, except for replies of `svr sim`."""
        return marks_of(self.engine)

    async def prefer(self, shown: Presentation) -> Answer[Preference]:
        """Score both responses; the reason names the scores."""
        a, b = [
            await answered(self.engine, self.profile, scoring(self.profile, shown.prompt, response))
            for response in (shown.response_a, shown.response_b)
        ]
        requests = tuple(dict.fromkeys(a.requests + b.requests))
        if a.value is None or b.value is None:
            lost: Answer[Any] = a if a.value is None else b
            return replace(lost, requests=requests)
        return Answer(value=by_scores(a.value, b.value), requests=requests)


def by_scores(a: float, b: float) -> Preference:
    """Return the preference of two scores: their difference."""
    return Preference(margin=a - b, reason=f"Response A scores {a:.6g}, response B {b:.6g}.", scores=(a, b))


def scoring(profile: Profile, prompt: Prompt, response: str) -> Question[float]:
    """Return the question for a response's score: the prompt as a conversation that ends with the response."""
    turns = tuple((turn.role, clean(turn.content)) for turn in prompt)
    request = replace(profile, max_tokens=1).request((*turns, ("assistant", clean(response))))
    return Question(request=request, parse=read_score, placeholder=lambda: float(len(response)), expected_tokens=0)


def read_score(text: str) -> float:
    """Return the score in a reply; ReplyRejectedError if there is none."""
    try:
        return msgspec.json.decode(text, type=_ScoreReply).score
    except msgspec.DecodeError:
        raise ReplyRejectedError("The reply has no score.") from None
