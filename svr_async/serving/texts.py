"""Prompts and responses as programs have them: texts, or messages as chat templates and trainers pass them on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from svr_async.core.pair import Message, Prompt, parse_prompt, prompt_text
from svr_async.errors import UsageError

PromptLike = str | Sequence[Mapping[str, Any]] | Prompt
ResponseLike = str | Mapping[str, Any] | Sequence[Mapping[str, Any]]
"""A text, an assistant's message, or messages that end with one."""


def as_prompt(prompt: PromptLike) -> Prompt:
    """Return a conversation; UsageError where it is none."""
    if isinstance(prompt, tuple) and prompt and all(isinstance(turn, Message) for turn in prompt):
        return prompt
    try:
        return parse_prompt(prompt)
    except ValueError as error:
        raise UsageError(f"the prompt cannot be used: {error}", hint="give a text or a list of messages") from error


def as_response(response: ResponseLike, prompt: Prompt) -> str:
    """Return the text of a response; UsageError where it is none.

    Of messages that begin with the prompt's turns only the others count, as in data sets that repeat the prompt. One
    message is its content; several, as of a tool's use, are paragraphs that begin with their role.
    """
    if isinstance(response, str):
        return response
    turns = _messages(response)
    own = turns[len(prompt) :] if turns[: len(prompt)] == prompt else turns
    if not own or own[-1].role != "assistant":
        raise UsageError(
            f"a response ends with a message of the assistant, not of the {turns[-1].role}",
            hint='give a text or [{"role": "assistant", "content": …}]',
        )
    return own[0].content if len(own) == 1 else prompt_text(own)


def as_responses(responses: Iterable[ResponseLike], prompt: Prompt) -> list[str]:
    """Return the texts of responses; UsageError also where one text stands for a list of them."""
    if isinstance(responses, str):
        raise UsageError("responses are a list of texts, not one text", hint="give [text, text, …]")
    return [as_response(response, prompt) for response in responses]


def _messages(response: Any) -> Prompt:
    whole = [response] if isinstance(response, Mapping) else response
    if isinstance(whole, list | tuple) and whole:
        try:
            return parse_prompt(whole)
        except ValueError as error:
            raise UsageError(f"a response cannot be used: {error}", hint="give a text or a list of messages") from error
    raise UsageError(f"a response is a text, not {type(response).__name__}", hint="give str, or a list of messages")
