"""What a request shows: untrusted texts, fenced as the shipped prompts have them or at the places of a free layout."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from svr_async.core.pair import PreferencePair, Presentation, Prompt, prompt_text
from svr_async.core.rubric import Rubric
from svr_async.judges.fence import clean, fence, nonce_of
from svr_async.judges.templates import FENCED, NONCE, Template


@dataclass(frozen=True, slots=True, kw_only=True)
class Material:
    """Texts by the name of their fence, in the order shown, and the nonce of them all; rubrics and a note about them.

    `rubrics` is None where a request has none, which is not the same as an empty list of them.
    """

    nonce: str
    texts: Mapping[str, str]
    rubrics: Sequence[Rubric] | None = None
    note: str = ""

    @classmethod
    def of(
        cls, texts: Mapping[str, str], rubrics: Sequence[Rubric] | None = None, note: str = "", *, beside: Sequence[str]
    ) -> Material:
        """Return the material with its nonce, which is in none of its texts, nor in those `beside` them."""
        cleaned = {name: clean(text) for name, text in texts.items()}
        return cls(nonce=nonce_of([*cleaned.values(), *beside]), texts=cleaned, rubrics=rubrics, note=note)

    @classmethod
    def pair(cls, shown: Presentation, rubrics: Sequence[Rubric] | None = None, note: str = "") -> Material:
        """Return a pair as a judge sees it."""
        texts = {"PROMPT": prompt_text(shown.prompt), "RESPONSE_A": shown.response_a, "RESPONSE_B": shown.response_b}
        return cls.of(texts, rubrics, note, beside=[note] if note else [])

    @classmethod
    def response(cls, prompt: Prompt, response: str, rubrics: Sequence[Rubric] | None = None) -> Material:
        """Return one response as a judge sees it."""
        return cls.of({"PROMPT": prompt_text(prompt), "RESPONSE": response}, rubrics, beside=[])

    @classmethod
    def prompt(cls, prompt: Prompt, rubrics: Sequence[Rubric] | None = None) -> Material:
        """Return a prompt without a response."""
        beside = [rubric.text for rubric in rubrics or ()]
        return cls.of({"PROMPT": prompt_text(prompt)}, rubrics, beside=beside)

    @classmethod
    def preference(cls, pair: PreferencePair, *, rejected: bool) -> Material:
        """Return a pair as an author sees it, told which response was preferred."""
        texts = {"PROMPT": prompt_text(pair.prompt), "CHOSEN": pair.chosen}
        return cls.of(texts | ({"REJECTED": pair.rejected} if rejected else {}), beside=[])

    def fenced(self) -> str:
        """Return all of it as the shipped prompts show it: the fenced texts, then rubrics and note."""
        parts = [fence(self.nonce, name, text) for name, text in self.texts.items()]
        if self.rubrics is not None:
            parts += [f"Rubrics:\n{listing(self.rubrics)}", *([f"Note: {clean(self.note)}"] if self.note else [])]
        return "\n\n".join(parts)

    def places(self) -> dict[str, str]:
        """Return what stands at the places of a free layout, by their names."""
        bare = {name.lower(): text for name, text in self.texts.items()}
        fenced = {FENCED + name.lower(): fence(self.nonce, name, text) for name, text in self.texts.items()}
        return bare | fenced | {"rubrics": listing(self.rubrics or ()), "note": clean(self.note), NONCE: self.nonce}

    def within(self, template: Template) -> tuple[tuple[str, str], ...]:
        """Return the messages of a request: roles and texts."""
        if template.free:
            return template.laid_out(self.places())
        user = f"{self.fenced()}\n\n{template.close(self.nonce)}"
        return ("system", template.instructions), ("user", user)


def local_ids(rubrics: Sequence[Rubric]) -> tuple[str, ...]:
    """Return R1…Rk."""
    return tuple(f"R{n}" for n in range(1, len(rubrics) + 1))


def listing(rubrics: Sequence[Rubric]) -> str:
    """Return the rubrics as a request shows them: one a line, with their local ids."""
    named = zip(local_ids(rubrics), rubrics, strict=True)
    return "\n".join(f"{local}: {' '.join(clean(rubric.text).split())}" for local, rubric in named)
