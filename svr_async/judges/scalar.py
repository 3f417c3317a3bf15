"""Judges that only score: scalar reward models. Each response has one score, whatever it is compared with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import msgspec

from svr_async.core.integrity import Marks
from svr_async.core.pair import PreferencePair, Presentation, Prompt
from svr_async.core.rubric import Rubric
from svr_async.engine.request import Question, ReplyRejectedError, Request
from svr_async.errors import UsageError
from svr_async.judges.material import clean
from svr_async.judges.model import ask_within, marks_of, without_value
from svr_async.judges.profiles import Profile
from svr_async.judges.protocol import Answer, Comparisons, Preference, WrittenRubrics

if TYPE_CHECKING:
    from svr_async.engine.engine import CallEngine

Score = Annotated[float, msgspec.Meta(ge=-1e300, le=1e300)]
"""A score; the difference of two is still a number."""


class _ScoreReply(msgspec.Struct):
    score: Score


class OnlyScores:
    """A judge that scores responses: questions about rubrics raise UsageError."""

    __slots__ = ()

    @property
    def name(self) -> str:
        """The judge's name; subclasses define it."""
        raise NotImplementedError

    async def write_rubrics(self, prompt: Prompt) -> Answer[WrittenRubrics]:  # noqa: ARG002
        """Raise UsageError."""
        self._refuse()

    async def compare(
        self,
        shown: Presentation,  # noqa: ARG002
        rubrics: Sequence[Rubric],  # noqa: ARG002
        *,
        overall: bool,  # noqa: ARG002
        note: str = "",  # noqa: ARG002
    ) -> Answer[Comparisons]:
        """Raise UsageError."""
        self._refuse()

    async def score(self, prompt: Prompt, response: str, rubrics: Sequence[Rubric]) -> Answer[Mapping[str, float]]:  # noqa: ARG002
        """Raise UsageError."""
        self._refuse()

    def _refuse(self) -> NoReturn:
        hint = "a reward model scores whole responses: use --method vanilla"
        raise UsageError(f"the judge {self.name} cannot judge by rubrics", hint=hint)


@dataclass(frozen=True, slots=True)
class NoAuthor:
    """The author of a judge that writes no text: raises UsageError."""

    name: str

    async def induce(self, pair: PreferencePair, *, contrastive: bool = True) -> Answer[tuple[Rubric, ...]]:  # noqa: ARG002
        """Raise UsageError."""
        self._refuse("induce rubrics")

    async def probe(self, pair: PreferencePair) -> Answer[str]:  # noqa: ARG002
        """Raise UsageError."""
        self._refuse("write a response")

    def _refuse(self, task: str) -> NoReturn:
        hint = "it answers with numbers: name a text judge of `svr judges` with --author, or rules"
        raise UsageError(f"the judge {self.name} cannot {task}", hint=hint)


@dataclass(frozen=True, slots=True)
class ScalarJudge(OnlyScores):
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
    """Return the preference of two scores: their difference."""
    return Preference(margin=a - b, reason=f"Response A scores {a:.6g}, response B {b:.6g}.", scores=(a, b))


def scoring(profile: Profile, prompt: Prompt, response: str) -> Question[float]:
    """Return the question for a response's score: the prompt as a conversation that ends with the response."""
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
    """Return the score in a reply; ReplyRejectedError if there is none."""
    try:
        return msgspec.json.decode(text, type=_ScoreReply).score
    except msgspec.DecodeError:
        raise ReplyRejectedError("The reply has no score.") from None
