"""Questions in a method's own words: any template put to the model behind a judge, and responses sampled from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, cast

import msgspec

from svr_async.core.pair import Prompt
from svr_async.core.rubric import Rubric
from svr_async.engine.request import Question, ReplyRejectedError, Request
from svr_async.engine.wires import Settings
from svr_async.errors import UsageError
from svr_async.judges.author import read_text
from svr_async.judges.material import Material, clean
from svr_async.judges.model import ask_within, without_value
from svr_async.judges.profiles import Profile
from svr_async.judges.protocol import Answer, Judge
from svr_async.judges.questions import QuestionWriter

if TYPE_CHECKING:
    from svr_async.engine.engine import CallEngine

T = TypeVar("T")
TOKENS_OF_A_SAMPLE = 400


class Model(Protocol):
    """A judge that is a model which writes texts."""

    @property
    def engine(self) -> CallEngine:
        """What asks it."""

    @property
    def writer(self) -> QuestionWriter:
        """Its profile, and the templates that it is asked with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask(Generic[T]):
    """A question: a template, the texts at its places by the names of their fences, and how its reply is read.

    `read` raises ReplyRejectedError. `placeholder` is the answer of a dry run, `tokens` its estimated length,
    `most_tokens` a limit that replaces the profile's.
    """

    template: str
    texts: Mapping[str, str]
    read: Callable[[str], T]
    placeholder: T
    tokens: int
    most_tokens: int | None = None
    rubrics: Sequence[Rubric] | None = None


def model_behind(judge: Judge) -> Model:
    """Return the model behind a judge; UsageError for one that writes nothing."""
    model = getattr(judge, "model", judge)  # of `J+rules`, J
    if isinstance(getattr(model, "writer", None), QuestionWriter) and hasattr(model, "engine"):
        return cast("Model", model)
    raise UsageError(f"the judge {judge.name} writes no texts", hint="name a text judge of `svr judges`")


async def asked(judge: Judge, ask: Ask[T]) -> Answer[T]:
    """Put a question to the model behind a judge."""
    model = model_behind(judge)
    writer = model.writer
    request = writer.request(ask.template, Material(ask.texts, ask.rubrics))
    if ask.most_tokens is not None:
        request = request.with_max_tokens(ask.most_tokens)
    question = Question(
        request=request,
        parse=ask.read,
        placeholder=lambda: ask.placeholder,
        expected_tokens=writer.reasoning + ask.tokens,
    )
    return await _answered(model, question)


async def sampled(judge: Judge, prompt: Prompt, number: int, *, temperature: float, top_p: float) -> Answer[str]:
    """Have the model behind a judge respond to a prompt; each `number`, from 1 on, is another response.

    The number is in the cache key, and it is the seed where the endpoint's wire knows one.
    """
    model = model_behind(judge)
    question = Question(
        request=sampling(model.writer.profile, prompt, number, temperature=temperature, top_p=top_p),
        parse=read_text,
        placeholder=lambda: f"Planned response {number}.",
        expected_tokens=model.writer.reasoning + TOKENS_OF_A_SAMPLE,
    )
    return await _answered(model, question)


def sampling(profile: Profile, prompt: Prompt, number: int, *, temperature: float, top_p: float) -> Request:
    """Return the request for a sampled response; a setting that the profile does not send is not sent here either."""
    drawn = replace(
        profile,
        temperature=None if profile.temperature is None else temperature,
        top_p=None if profile.top_p is None else top_p,
        seed=(profile.seed or 0) + number if _knows_seeds(profile) else None,
    )
    return msgspec.structs.replace(_as_it_is(drawn, prompt), sample=number, no_cache=True)


async def asked_plainly(
    judge: Judge,
    prompt: Prompt,
    *,
    read: Callable[[str], Any] | None = None,
    number: int = 0,
    temperature: float | None = None,
    most_tokens: int | None = None,
) -> Answer[Any]:
    """Put a conversation as it is to the model behind a judge; a `number` from 1 on asks for another answer.

    A ValueError of `read` is a reply that is no answer. UsageError in a dry run, which cannot know what `read` makes.
    """
    model = model_behind(judge)
    profile = model.writer.profile
    if temperature is not None:
        profile = replace(profile, temperature=temperature)
    if number:
        request = sampling(profile, prompt, number, temperature=profile.temperature or 0.0, top_p=profile.top_p or 1.0)
    else:
        request = _as_it_is(profile, prompt)
    request = msgspec.structs.replace(request, messages=profile.placed(request.messages))
    if most_tokens is not None:
        request = request.with_max_tokens(most_tokens)
    question: Question[Any] = Question(
        request=request,
        parse=read_text if read is None else partial(_read_by, read),
        placeholder=_unplanned,
        expected_tokens=model.writer.reasoning + TOKENS_OF_A_SAMPLE,
    )
    return await _answered(model, question)


def _read_by(read: Callable[[str], Any], text: str) -> Any:
    try:
        return read(text)
    except ReplyRejectedError:
        raise
    except ValueError as error:
        raise ReplyRejectedError(str(error)) from error


def _unplanned() -> Any:
    raise UsageError("a dry run cannot answer a question of your own", hint="cap the calls with max_calls, or budget")


def _as_it_is(profile: Profile, prompt: Prompt) -> Request:
    return Request(
        endpoint=profile.endpoint,
        model=profile.model,
        messages=tuple((turn.role, clean(turn.content)) for turn in prompt),
        max_tokens=profile.max_tokens,
        max_tokens_field=profile.max_tokens_field,
        params=profile.params(structured=False),
        wire=profile.spoken,
    )


def _knows_seeds(profile: Profile) -> bool:
    return profile.spoken.params(Settings(seed=1)) != profile.spoken.params(Settings())


async def _answered(model: Model, question: Question[T]) -> Answer[T]:
    done = await ask_within(model.engine, model.writer.profile, question)
    return without_value(done) if done.value is None else Answer(value=done.value, requests=(done.key,))
