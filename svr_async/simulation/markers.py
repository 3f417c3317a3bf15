"""Reading a request in the paper's layout: no fences, only marks at the beginnings of lines, which anyone can write.

A mark counts where it first stands after the one before it, and what closes a request is what follows the last
"Output:". A text that holds marks is so cut where a reader who goes by them in order would cut it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

Marks = tuple[tuple[str, str], ...]

CLOSING = "\n\nOutput: "
_PROMPT, _RUBRICS = ("\nPrompt: ", "PROMPT"), ("\nRubrics:\n", "RUBRICS")
_PAIR: Marks = (("\nCandidate A: ", "RESPONSE_A"), ("\nCandidate B: ", "RESPONSE_B"))
_BRACKETS: Marks = (
    ("\n[Instruction]\n", "PROMPT"),
    ("\n\n[The Start of Candidate Response A]\n", "RESPONSE_A"),
    ("\n[The End of Candidate Response A]\n", ""),
    ("\n[The Start of Candidate Response B]\n", "RESPONSE_B"),
    ("\n[The End of Candidate Response B]", ""),
)
_LAYOUTS: Mapping[str, Marks] = {  # by a word of what closes the request
    "preferred_candidate": (_PROMPT, _RUBRICS, ("\nRubric note: ", ""), *_PAIR),
    "rubric_comparisons": (_PROMPT, *_PAIR, _RUBRICS),
    "contrastive_rubrics": (
        _PROMPT,
        ("\nResponse A (preferred): ", "CHOSEN"),
        ("\nResponse B (rejected): ", "REJECTED"),
    ),
    "rubric_note": (_PROMPT,),
    "the other response": (_PROMPT, ("\nReference response: ", "CHOSEN")),
}


@dataclass(frozen=True, slots=True)
class Marked:
    """The texts of a request by the names that fences have, its rubrics as lines, and the words around all of it."""

    texts: Mapping[str, str]
    rubrics: str
    asks: str


def read_marked(text: str) -> Marked | None:
    """Return what a request in the paper's layout shows; None for any other."""
    head, instruction, _ = text.partition(_BRACKETS[0][0])
    if instruction and "[[A]]" in head:
        return _cut(text, _BRACKETS, "")
    body, closing, tail = text.rpartition(CLOSING)
    marks = next((marks for word, marks in _LAYOUTS.items() if closing and word in tail), ())
    return _cut(body, marks, tail) if marks else None


def _cut(text: str, marks: Marks, tail: str) -> Marked | None:
    """Cut a text at its marks; None where one of them is missing."""
    head, name, parts = "", "", dict[str, str]()
    for mark, following in marks:
        part, found, text = text.partition(mark)
        if not found:
            return None
        head, parts, name = (head, parts | {name: part}, following) if head else (part, parts, following)
    parts[name] = text
    rubrics = parts.pop("RUBRICS", "")
    return Marked({name: part for name, part in parts.items() if name}, rubrics, f"{head}\n{tail}")
