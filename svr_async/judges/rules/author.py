"""The `rules` author: rubrics and adversarial probes without a model.

Checks that hold for the chosen response and not for the rejected one become rubrics. The probe is a damaged copy of the
chosen response, worse in one way that a check can see. The kind of damage depends on a hash of the pair's id.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from svr_async.core.pair import PreferencePair, hashed_fraction
from svr_async.core.rubric import Rubric
from svr_async.judges.protocol import Answer
from svr_async.judges.rules.judge import view_of, view_of_prompt
from svr_async.judges.rules.registry import bound, grid_rubrics

if TYPE_CHECKING:
    from svr_async.judges.protocol import CriteriaQuestion

_ITEM = re.compile(r"(?m)^[ \t]*(?:[-*•]|\d{1,3}[.)])[ \t]+\S[^\n]*\n?")
_NUMBER = re.compile(r"\d{1,9}")
_CODE_END = re.compile(r"[)\]}](?=\s*\n```)")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class RulesAuthor:
    """Proposes rubrics and damaged responses without a model."""

    name: str = "rules"

    async def induce(self, pair: PreferencePair, *, contrastive: bool = True) -> Answer[tuple[Rubric, ...]]:
        """Return each check of the grid that the chosen response passes and the rejected one fails.

        With `contrastive` False, return each that the chosen response passes: a description of it alone.
        """
        prompt, chosen, rejected = view_of_prompt(pair.prompt), view_of(pair.chosen), view_of(pair.rejected)
        found = []
        for rubric in grid_rubrics():
            assert rubric.check is not None
            decide = bound(rubric.check)
            good = decide(prompt, chosen)
            if good is None or not good.passed:
                continue
            bad = decide(prompt, rejected) if contrastive else None
            if not contrastive or (bad is not None and not bad.passed):
                found.append(rubric)
        return Answer(value=tuple(found))

    async def probe(self, pair: PreferencePair) -> Answer[str]:
        """Return the chosen response with one kind of damage; unchanged, and so discarded, if no kind applies."""
        return Answer(value=damaged(pair.chosen, pair.id))

    async def same_criterion(self, _asked: CriteriaQuestion) -> Answer[Mapping[str, str | None]]:
        """Return nothing: checks differ by their names and arguments, so each is a criterion by itself."""
        return Answer(value={})


def drop_an_item(text: str) -> str:
    """Remove the last item of a list of at least three."""
    items = list(_ITEM.finditer(text))
    return _without(text, items[-1]) if len(items) >= 3 else text


def change_a_number(text: str) -> str:
    """Add one to the last number."""
    found = list(_NUMBER.finditer(text))
    return _without(text, found[-1], str(int(found[-1][0]) + 1)) if found else text


def break_code(text: str) -> str:
    """Remove the last closing bracket of a code block."""
    found = list(_CODE_END.finditer(text))
    return _without(text, found[-1]) if found else text


def _without(text: str, match: re.Match[str], instead: str = "") -> str:
    return text[: match.start()] + instead + text[match.end() :]


def cut_short(text: str) -> str:
    """End in the middle of a sentence, about two thirds in."""
    words = text.split(" ")
    return " ".join(words[: 2 * len(words) // 3]).rstrip(" .!?\n") if len(words) >= 12 else text


def drop_the_end(text: str) -> str:
    """Remove the last of at least three paragraphs."""
    paragraphs = text.rstrip().split("\n\n")
    return "\n\n".join(paragraphs[:-1]) if len(paragraphs) >= 3 else text


def repeat_itself(text: str) -> str:
    """Repeat the first sentences at the end."""
    sentences = _SENTENCE_END.split(text.strip(), maxsplit=3)
    return f"{text.rstrip()}\n\n{' '.join(sentences[:3])}" if len(sentences) >= 3 else text


DAMAGES: tuple[Callable[[str], str], ...] = (
    drop_an_item, change_a_number, break_code, cut_short, drop_the_end, repeat_itself,
)  # fmt: skip


def damaged(text: str, pair_id: str) -> str:
    """Return a response with one kind of damage; unchanged if no kind applies."""
    start = int(hashed_fraction("damage", pair_id) * len(DAMAGES))
    versions = (damage(text) for damage in (*DAMAGES[start:], *DAMAGES[:start]))
    return next((worse for worse in versions if worse != text), text)
