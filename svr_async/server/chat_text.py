"""Texts that a chat template has been applied to, back to the turns of a conversation.

Trainers pass on what the policy was fed: `<|im_start|>user …<|im_end|>`. Known are the marks of ChatML, Llama 3, Gemma
and Phi; any other text is one turn of the user.
"""

from __future__ import annotations

import re

from svr_async.core.pair import Message, Prompt, user_prompt

_TURN = re.compile(
    r"<\|im_start\|>(?P<chatml>\w+)\n"
    r"|<\|start_header_id\|>(?P<llama>\w+)<\|end_header_id\|>\n\n"
    r"|<start_of_turn>(?P<gemma>\w+)\n"
    r"|<\|(?P<phi>system|user|assistant)\|>\n"
)
_ENDS = ("<|im_end|>", "<|eot_id|>", "<end_of_turn>", "<|end|>", "<|endoftext|>", "<|end_of_text|>", "<eos>")
_ROLES = {"model": "assistant", "ipython": "tool"}
KNOWN = frozenset({"system", "user", "assistant", "tool", "developer"})


def turns_of(text: str) -> Prompt:
    """Return the turns of a text with a chat template's marks, without an empty last one; else one turn of the user."""
    marks = list(_TURN.finditer(text))
    roles = [_ROLES.get(role, role) for mark in marks for role in mark.groupdict().values() if role]
    if not marks or not KNOWN.issuperset(roles):
        return user_prompt(without_end(text))
    ends = [*(mark.start() for mark in marks[1:]), len(text)]
    said = [without_end(text[mark.end() : end]) for mark, end in zip(marks, ends, strict=True)]
    turns = tuple(Message(role, content) for role, content in zip(roles, said, strict=True))
    return turns if turns[-1].content or len(turns) == 1 else turns[:-1]


def without_end(text: str) -> str:
    """Return a text without the end marks that a tokenizer leaves behind it; linear, however many there are."""
    end = seen = len(text)
    while True:
        if text.endswith(_ENDS, 0, seen):
            end = seen = seen - next(len(one) for one in _ENDS if text.endswith(one, 0, seen))
        elif seen and text[seen - 1].isspace():
            seen -= 1
        else:
            return text[:end]
