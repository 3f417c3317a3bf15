"""What a request shows: untrusted texts between fences, or at the places of a free layout, and rubrics.

The tag in a fence is a hash of the texts: the same pair gives the same bytes, so the cache works, and no candidate can
contain its own tag.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from svr_async.core.pair import PreferencePair, Presentation, prompt_text
from svr_async.core.rubric import Rubric
from svr_async.judges.templates import FENCED, Template

TAG_SALT = b"svr-fence-2"


def clean(text: str) -> str:
    """Return text that can be sent as UTF-8: lone surrogates and NUL become U+FFFD."""
    if not text.isascii():
        text = text.encode("utf-8", "replace").decode("utf-8")
    return text.replace("\x00", "\ufffd")


@dataclass(frozen=True, slots=True)
class Material:
    """Texts by the name of their fence, in the order shown; rubrics (None for a request without them) and a note."""

    texts: Mapping[str, str]
    rubrics: Sequence[Rubric] | None = None
    note: str = ""

    @classmethod
    def pair(cls, shown: Presentation, rubrics: Sequence[Rubric] | None = None, note: str = "") -> Material:
        """Return a pair as a judge sees it."""
        texts = {"PROMPT": prompt_text(shown.prompt), "RESPONSE_A": shown.response_a, "RESPONSE_B": shown.response_b}
        return cls(texts, rubrics, note)

    @classmethod
    def preference(cls, pair: PreferencePair, *, rejected: bool) -> Material:
        """Return a pair as an author sees it, with the preferred response named."""
        texts = {"PROMPT": prompt_text(pair.prompt), "CHOSEN": pair.chosen}
        return cls(texts | ({"REJECTED": pair.rejected} if rejected else {}))

    def within(self, template: Template) -> tuple[tuple[str, str], ...]:
        """Return the messages of a request: roles and texts."""
        if not template.free:
            return ("system", template.instructions), ("user", f"{self.fenced()}\n\n{template.closing}")
        places = {name.lower(): clean(text) for name, text in self.texts.items()}
        places |= {FENCED + name.lower(): text for name, text in self._fences().items()}
        return template.laid_out(places | {"rubrics": listing(self.rubrics or ()), "note": clean(self.note)})

    def fenced(self) -> str:
        """Return all of it as the shipped prompts show it: the fenced texts, then rubrics and note."""
        parts = [*self._fences().values()]
        if self.rubrics is not None:
            parts.append(f"Rubrics:\n{listing(self.rubrics)}")
            if self.note:
                parts.append(f"Note: {clean(self.note)}")
        return "\n\n".join(parts)

    def _fences(self) -> dict[str, str]:
        texts = {name: clean(text) for name, text in self.texts.items()}
        tag = tag_of(texts.values())
        return {name: f"<<svr:{tag}:{name}>>\n{text}\n<<svr:{tag}:END>>" for name, text in texts.items()}


def tag_of(texts: Iterable[str]) -> str:
    """Return 16 hex digits derived from the texts."""
    data = [text.encode() for text in texts]
    lengths = ":".join([str(len(one)) for one in data])
    return hashlib.blake2b(b"".join([TAG_SALT, lengths.encode(), *data]), digest_size=8).hexdigest()


def local_ids(rubrics: Sequence[Rubric]) -> tuple[str, ...]:
    """Return R1…Rk."""
    return tuple([f"R{n}" for n in range(1, len(rubrics) + 1)])


def listing(rubrics: Sequence[Rubric]) -> str:
    """Return the rubrics as a request shows them: one per line, with their local ids."""
    return "\n".join([f"R{n}: {' '.join(clean(rubric.text).split())}" for n, rubric in enumerate(rubrics, 1)])
