"""Prompts and responses as programs pass them: texts, messages, or texts with the marks of a chat template."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from svr_async.core.pair import Message, Prompt, parse_prompt, prompt_text, user_prompt
from svr_async.errors import UsageError

PromptLike = str | Sequence[Mapping[str, Any]] | Prompt
ResponseLike = str | Mapping[str, Any] | Sequence[Mapping[str, Any]]
"""A text, an assistant's message, or messages that end with one."""

_TURN = re.compile(  # ChatML, Llama 3, Gemma, Phi
    r"<\|im_start\|>(?P<chatml>\w+)\n"
    r"|<\|start_header_id\|>(?P<llama>\w+)<\|end_header_id\|>\n\n"
    r"|<start_of_turn>(?P<gemma>\w+)\n"
    r"|<\|(?P<phi>system|user|assistant)\|>\n"
)
_ENDS = ("<|im_end|>", "<|eot_id|>", "<end_of_turn>", "<|end|>", "<|endoftext|>", "<|end_of_text|>", "<eos>")
_ROLES = {"model": "assistant", "ipython": "tool"}
_KNOWN = frozenset({"system", "user", "assistant", "tool", "developer"})


def as_prompt(prompt: PromptLike) -> Prompt:
    """Return a conversation; UsageError if it cannot be read."""
    if isinstance(prompt, tuple) and prompt and all(isinstance(turn, Message) for turn in prompt):
        return prompt
    try:
        return parse_prompt(prompt)
    except ValueError as error:
        raise UsageError(f"the prompt cannot be used: {error}", hint="give a text or a list of messages") from error


def as_response(response: ResponseLike, prompt: Prompt) -> str:
    """Return the text of a response; UsageError if it cannot be read.

    Messages that repeat the prompt's turns first are cut there, as in data sets. One message is its content; several,
    as with tool use, are paragraphs with their role first.
    """
    if isinstance(response, str):
        return response
    given: Any = [response] if isinstance(response, Mapping) else response
    if not isinstance(given, list | tuple) or not given:
        raise UsageError(f"a response is a text, not {type(response).__name__}", hint="give str, or a list of messages")
    try:
        turns = parse_prompt(given)
    except ValueError as error:
        raise UsageError(f"a response cannot be used: {error}", hint="give a text or a list of messages") from error
    own = turns[len(prompt) :] if turns[: len(prompt)] == prompt else turns
    if not own or own[-1].role != "assistant":
        raise UsageError(
            f"a response ends with a message of the assistant, not of the {turns[-1].role}",
            hint='give a text or [{"role": "assistant", "content": …}]',
        )
    return own[0].content if len(own) == 1 else prompt_text(own)


def templated_turns(text: str) -> Prompt:
    """Return the turns of a text with a chat template's marks, without an empty last one; else one user turn."""
    marks = list(_TURN.finditer(text))
    roles = [_ROLES.get(role, role) for mark in marks for role in mark.groupdict().values() if role]
    if not marks or not _KNOWN.issuperset(roles):
        return user_prompt(without_end(text))
    ends = [*(mark.start() for mark in marks[1:]), len(text)]
    contents = [without_end(text[mark.end() : end]) for mark, end in zip(marks, ends, strict=True)]
    turns = tuple(Message(role, content) for role, content in zip(roles, contents, strict=True))
    return turns if turns[-1].content or len(turns) == 1 else turns[:-1]


def without_end(text: str) -> str:
    """Return a text without the end marks that a tokenizer leaves, in linear time."""
    end = seen = len(text)
    while True:
        if text.endswith(_ENDS, 0, seen):
            end = seen = seen - next(len(mark) for mark in _ENDS if text.endswith(mark, 0, seen))
        elif seen and text[seen - 1].isspace():
            seen -= 1
        else:
            return text[:end]
